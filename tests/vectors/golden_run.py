#!/usr/bin/env python3
"""Makes golden_run.json: whole runs, by an implementation that shares no code with the crate.

Plain doubles in the order CONTRACT.md writes them, and exp by mpmath (pip install mpmath), rounded once from 200 bits.
The rows beside it, golden_run.f32, are 15 rows of 512 little-endian f32 logits of a small story model.
The output is frozen: a change in it breaks stored runs.
"""
import json
import math
import struct
from pathlib import Path

from mpmath import mp, mpf

HERE = Path(__file__).parent
V = 512
M64 = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix64(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def uniform(seed, step):
    return (mix64(seed + (step + 1) * GAMMA & M64) >> 11) * 2.0**-53


def exp(x):
    mp.prec = 200
    wide = mp.exp(mpf(x))
    if wide < mpf(2) ** -1022:  # subnormal: round once, to a multiple of 2^-1074
        return int(mp.nint(wide * mpf(2) ** 1074)) * 5e-324
    return float(wide)


def sample(logits, temperature, top_k, top_p, u):
    allowed = [i for i, l in enumerate(logits) if l != -math.inf]
    if temperature == 0:
        return min(allowed, key=lambda i: (-logits[i], i))
    kept = sorted(sorted(allowed, key=lambda i: (-logits[i], i))[:top_k] if top_k else allowed)
    m = max(logits[i] for i in kept)
    w = {i: exp((logits[i] - m) / temperature) for i in kept}
    s = 0.0
    for i in kept:
        s += w[i]
    p = {i: w[i] / s for i in kept}
    if top_p < 1:
        order, total, nucleus = sorted(kept, key=lambda i: (-p[i], i)), 0.0, []
        for i in order:
            nucleus.append(i)
            total += p[i]
            if total >= top_p:
                break
        kept = sorted(nucleus)
    s = 0.0
    for i in kept:
        s += p[i]
    r, last = 0.0, None
    for i in kept:
        q = p[i] / s
        r += q
        if r > u:
            return i
        if q > 0:
            last = i
    return last


def main():
    data = (HERE / "golden_run.f32").read_bytes()
    rows = [struct.unpack(f"<{V}f", data[at:at + 4 * V]) for at in range(0, len(data), 4 * V)]
    runs = []
    for name, seed, temperature, top_k, top_p in [
        ("usual", 41, 0.8, 50, 0.95),
        ("nucleus alone", 2**64 - 1, 1.0, 0, 0.9),
        ("hot, nothing cut", 2**53 + 1, 1.5777777777770001, 0, 1.0),
        ("greedy", 0, 0.0, 7, 0.5),
        ("cold", 1234567, 0.1, 3, 0.999),
    ]:
        prompt = [1, 403, 407]
        tokens = [sample(row, temperature, top_k, top_p, uniform(seed, n)) for n, row in enumerate(rows)]
        state = {"contract": "quillmate-v1", "format": 1, "seed": str(seed), "step": 7, "prompt": prompt,
                 "tokens": tokens[:7], "settings": {"temperature": temperature, "top_k": top_k, "top_p": top_p}}
        runs.append({"name": name, "state_after_7": json.dumps(state, separators=(",", ":")), "tokens": tokens})
    (HERE / "golden_run.json").write_text(json.dumps({"runs": runs}, indent=1) + "\n")


main()
