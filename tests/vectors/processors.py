"""Makes processors.json: rows before and after each processor, and whole runs, computed from CONTRACT.md alone.

Shares no code with the crate: Python doubles for + - * / and sqrt, mpmath for exp and ln, every rule in its obvious form.
    python3 processors.py > processors.json
"""

import json
import math
import random
import struct
from pathlib import Path

import mpmath

mpmath.mp.prec = 300
INF = math.inf
MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def exp(x):
    return float(mpmath.exp(mpmath.mpf(x)))


def ln(x):
    return float(mpmath.log(mpmath.mpf(x)))


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def uniform(seed, step, stream):
    base = seed if stream == 0 else mix((seed ^ mix((stream + GAMMA) & MASK)) + GAMMA & MASK)
    return (mix(base + (step + 1) * GAMMA & MASK) >> 11) * 2.0**-53


class Refused(Exception):
    pass


def history(p, prompt, tokens):
    h = (prompt if p.get("prompt", True) else []) + tokens
    return h[-p["window"] :] if "window" in p else h


def softmax(row):
    ids = [i for i, l in enumerate(row) if l != -INF]
    m = max(row[i] for i in ids)
    w = {i: exp(row[i] - m) for i in ids}
    s = 0.0
    for i in ids:
        s = s + w[i]
    return ids, m, w, s, {i: w[i] / s for i in ids}


def information(row):
    ids, m, w, s, p = softmax(row)
    ln_s = ln(s)
    g = {i: (row[i] - m) - ln_s for i in ids}
    h = 0.0
    for i in ids:
        h = h + -(p[i] * g[i])
    return ids, p, g, h


def by_logit(row):
    return sorted((i for i, l in enumerate(row) if l != -INF), key=lambda i: (-row[i], i))


def keep(row, kept, least=1):
    kept = set(kept) | set(by_logit(row)[:least])
    return [l if i in kept else -INF for i, l in enumerate(row)]


def nucleus(ids, p, top_p):
    total, kept = 0.0, []
    for i in sorted(ids, key=lambda i: (-p[i], i)):
        kept.append(i)
        total = total + p[i]
        if total >= top_p:
            break
    return kept


def apply(p, row, prompt, tokens, seed):
    row, n, name = list(row), len(tokens), p["name"]
    h = history(p, prompt, tokens)
    least = p.get("min_keep", 1)
    exempt = p.get("exempt", [])

    def banned(ids):
        for i in ids:
            if i >= len(row):
                raise Refused("processor_token")
        return [-INF if i in ids else l for i, l in enumerate(row)]

    def only(ids):
        banned(ids)
        return [l if i in ids else -INF for i, l in enumerate(row)]

    if name in ("repetition_penalty", "frequency_penalty", "presence_penalty"):
        for i in range(len(row)):
            c = h.count(i)
            if c > 0 and i not in exempt and row[i] != -INF:
                if name == "repetition_penalty":
                    row[i] = row[i] / p["penalty"] if row[i] > 0 else row[i] * p["penalty"]
                elif name == "frequency_penalty":
                    row[i] = row[i] - p["penalty"] * c
                else:
                    row[i] = row[i] - p["penalty"]
    elif name == "dry":
        reach = 0
        while reach < len(h):
            head = h[: len(h) - reach]
            if any(head[-len(b) :] == b for b in p.get("breakers", [])):
                break
            reach += 1
        longest = {}
        for j in range(1, len(h)):
            length = 0
            while length < j and h[j - 1 - length] == h[len(h) - 1 - length]:
                length += 1
            longest[h[j]] = max(longest.get(h[j], 0), min(length, reach))
        for i, length in longest.items():
            if length >= p["allowed_length"] and i < len(row) and row[i] != -INF:
                power = 1.0
                for _ in range(length - p["allowed_length"]):
                    if power >= 2.0**100:
                        break
                    power = power * p["base"]
                row[i] = row[i] - p["multiplier"] * power
    elif name == "no_repeat_ngram":
        size = p["size"]
        if len(h) >= size - 1:
            last = h[len(h) - (size - 1) :]
            for start in range(len(h) - size + 1):
                if h[start : start + size - 1] == last and h[start + size - 1] < len(row):
                    row[h[start + size - 1]] = -INF
    elif name == "bad_words":
        context = prompt + tokens
        for word in p["words"]:
            if len(word) == 1 or context[-(len(word) - 1) :] == word[:-1]:
                row = [-INF if i == word[-1] else l for i, l in enumerate(row)]
    elif name == "logit_bias":
        for i, bias in p["biases"]:
            banned([i])
            if row[i] != -INF:
                row[i] = row[i] + bias
    elif name == "allow":
        row = only(p["tokens"])
    elif name == "deny":
        row = banned(p["tokens"])
    elif name == "forced_prefix":
        if n < len(p["tokens"]):
            row = only([p["tokens"][n]])
    elif name == "min_length":
        if n < p["length"]:
            row = banned(p["end_tokens"])
    elif name == "temperature":
        row = [l if l == -INF else l / p["temperature"] for l in row]
    elif name == "top_k":
        row = keep(row, by_logit(row)[: p["k"]])
    elif name == "top_p":
        if p["p"] < 1:
            ids, _, _, _, q = softmax(row)
            row = keep(row, nucleus(ids, q, p["p"]), least)
    elif name == "min_p":
        ids, _, w, _, _ = softmax(row)
        row = keep(row, [i for i in ids if w[i] >= p["p"]], least)
    elif name == "typical":
        ids, q, g, entropy = information(row)
        total, kept = 0.0, []
        for i in sorted(ids, key=lambda i: (abs(-g[i] - entropy), i)):
            kept.append(i)
            total = total + q[i]
            if total >= p["p"]:
                break
        row = keep(row, kept, least)
    elif name == "epsilon":
        ids, _, _, _, q = softmax(row)
        row = keep(row, [i for i in ids if q[i] >= p["cutoff"]], least)
    elif name == "eta":
        ids, q, _, entropy = information(row)
        cut = min(p["cutoff"], math.sqrt(p["cutoff"]) * exp(-entropy))
        row = keep(row, [i for i in ids if q[i] >= cut], least)
    elif name == "top_n_sigma":
        ids = [i for i, l in enumerate(row) if l != -INF]
        total = 0.0
        for i in ids:
            total = total + row[i]
        mean = total / len(ids)
        squares = 0.0
        for i in ids:
            squares = squares + (row[i] - mean) * (row[i] - mean)
        cut = max(row) - p["n"] * math.sqrt(squares / len(ids))
        if not math.isfinite(cut):
            raise Refused("processor_overflow")
        row = keep(row, [i for i in ids if row[i] >= cut], least)
    elif name == "xtc":
        if uniform(seed, n, 4) < p["probability"]:
            ids, _, _, _, q = softmax(row)
            top = [i for i in ids if q[i] >= p["threshold"]]
            for i in top:
                if q[i] > min(q[j] for j in top) and i not in exempt:
                    row[i] = -INF
    else:
        raise ValueError(name)
    if any(math.isnan(l) or l == INF for l in row):
        raise Refused("processor_overflow")
    return row


def process(processors, row, prompt, tokens, seed):
    for p in processors:
        before = row
        row = apply(p, row, prompt, tokens, seed)
        # A finite logit that a penalty drove to -inf is no ban.
        if p["name"] in ("repetition_penalty", "frequency_penalty", "presence_penalty", "dry", "logit_bias", "temperature"):
            if any(b != -INF and l == -INF for b, l in zip(before, row)):
                raise Refused("processor_overflow")
        if all(l == -INF for l in row):
            raise Refused("processor_all_banned")
        row = [l + 0.0 for l in row]
    return row


def token(row, settings, u):
    if settings["temperature"] == 0:
        return by_logit(row)[0]
    ids = by_logit(row)
    if settings["top_k"] > 0:
        ids = ids[: settings["top_k"]]
    ids.sort()
    m = max(row[i] for i in ids)
    p = {i: exp((row[i] - m) / settings["temperature"]) for i in ids}
    for _ in range(2):
        s = 0.0
        for i in ids:
            s = s + p[i]
        p = {i: p[i] / s for i in ids}
        if _ == 0 and settings["top_p"] < 1:
            ids = sorted(nucleus(ids, p, settings["top_p"]))
    r = 0.0
    for i in ids:
        r = r + p[i]
        if r > u:
            return i
    return [i for i in ids if p[i] > 0][-1]


def bits(x):
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016x}"


def number(x):
    return "-Infinity" if x == -INF else x


def lists(rng, size):
    """One list for every processor, with parameters that bite, and a few mixed ones."""
    few = lambda k: sorted(rng.sample(range(size), k))
    extra = lambda: rng.choice([{}, {"window": rng.randint(1, 12)}, {"prompt": False}, {"window": 5, "prompt": False}])
    least = lambda: rng.choice([{}, {}, {"min_keep": rng.randint(2, 5)}])
    v = lambda name, **parameters: {"name": name, "version": 1, **parameters}
    one = {
        "repetition_penalty": lambda: v("repetition_penalty", penalty=rng.choice([1.1, 1.3, 2.0, 0.9]), **extra()),
        "frequency_penalty": lambda: v("frequency_penalty", penalty=rng.choice([0.1, 0.7, -0.3]), **extra()),
        "presence_penalty": lambda: v("presence_penalty", penalty=rng.choice([0.1, 1.7, -0.3]), **extra()),
        "dry": lambda: v("dry", multiplier=rng.choice([0.8, 1.0]), base=rng.choice([1.0, 1.75, 1e30]), allowed_length=rng.randint(1, 3), **extra(), **rng.choice([{}, {"breakers": [few(1), few(2)]}])),
        "no_repeat_ngram": lambda: v("no_repeat_ngram", size=rng.randint(1, 4), **extra()),
        "bad_words": lambda: v("bad_words", words=[few(1), few(2), [rng.randrange(4) for _ in range(2)], [rng.randrange(3) for _ in range(2)]]),
        "logit_bias": lambda: v("logit_bias", biases=[[i, rng.uniform(-3, 3)] for i in few(3)]),
        "allow": lambda: v("allow", tokens=few(size // 2)),
        "deny": lambda: v("deny", tokens=few(3)),
        "forced_prefix": lambda: v("forced_prefix", tokens=[rng.randrange(size) for _ in range(rng.choice([2, 30]))]),
        "min_length": lambda: v("min_length", length=rng.choice([2, 30]), end_tokens=few(2)),
        "temperature": lambda: v("temperature", temperature=rng.choice([0.7, 1.3])),
        "top_k": lambda: v("top_k", k=rng.randint(1, size)),
        "top_p": lambda: v("top_p", p=rng.choice([0.0, 0.5, 0.9, 1.0, rng.random()]), **least()),
        "min_p": lambda: v("min_p", p=rng.choice([0.0, 0.05, 0.3, 1.0, rng.random()]), **least()),
        "typical": lambda: v("typical", p=rng.choice([0.0, 0.5, 0.95, rng.random()]), **least()),
        "epsilon": lambda: v("epsilon", cutoff=rng.choice([0.01, 0.1, 0.9]), **least()),
        "eta": lambda: v("eta", cutoff=rng.choice([0.01, 0.1, 0.9]), **least()),
        "top_n_sigma": lambda: v("top_n_sigma", n=rng.choice([0.5, 1.0, 2.0]), **least()),
        "xtc": lambda: v("xtc", probability=rng.choice([0.5, 1.0, 0.0]), threshold=rng.choice([0.02, 0.1, 0.3]), **rng.choice([{}, {"exempt": few(3)}])),
    }
    for name, make in one.items():
        if name.endswith("_penalty"):
            yield name + ", exempt", [{**make(), "exempt": few(4)}]
        for _ in range(6):
            yield name, [make()]
    for _ in range(40):
        names = rng.sample(list(one), rng.randint(2, 5))
        yield " then ".join(names), [one[name]() for name in names]


def main():
    rng = random.Random(20261129)
    cases = []
    size = 24
    for name, processors in lists(rng, size):
        kind = rng.randrange(4)
        row = [round(rng.gauss(0, 3), 3) for _ in range(size)]
        if kind == 1:  # ties
            row = [float(round(l)) for l in row]
        if kind == 2:  # bans
            row = [l if rng.random() < 0.8 else -INF for l in row]
            row[rng.randrange(size)] = 1.5
        if kind == 3:  # long mantissas
            row = [rng.gauss(0, 3) for _ in range(size)]
        alphabet = rng.choice([3, 6, size, size + 4])
        prompt = [rng.randrange(alphabet) for _ in range(rng.choice([0, 3, 8]))]
        tokens = [rng.randrange(alphabet) for _ in range(rng.choice([0, 1, 10, 20]))]
        seed = rng.randrange(2**64)
        case = {"name": name, "processors": processors, "prompt": prompt, "tokens": tokens, "seed": str(seed), "logits": [number(l) for l in row]}
        try:
            case["row_bits"] = [bits(l) for l in process(processors, row, prompt, tokens, seed)]
        except Refused as refused:
            case["code"] = str(refused)
        cases.append(case)
    for name, processors, row, code in [
        ("everything denied", [{"name": "deny", "version": 1, "tokens": [0, 1]}], [1.0, 2.0], "processor_all_banned"),
        ("the forced token is banned", [{"name": "forced_prefix", "version": 1, "tokens": [1]}], [1.0, -INF], "processor_all_banned"),
        ("a bias for no token", [{"name": "logit_bias", "version": 1, "biases": [[2, 1.0]]}], [1.0, 2.0], "processor_token"),
        ("a bias too large", [{"name": "logit_bias", "version": 1, "biases": [[0, 1e308]]}], [1e308, 2.0], "processor_overflow"),
        ("a bias too low", [{"name": "logit_bias", "version": 1, "biases": [[0, -1e308]]}], [-1e308, 2.0], "processor_overflow"),
        ("a temperature too low", [{"name": "temperature", "version": 1, "temperature": 1e-300}], [1e10, 2.0], "processor_overflow"),
        ("a deviation too large", [{"name": "top_n_sigma", "version": 1, "n": 1.0}], [1e300, -1e300], "processor_overflow"),
    ]:
        try:
            process(processors, row, [], [], 0)
            raise AssertionError(name)
        except Refused as refused:
            assert str(refused) == code, name
        cases.append({"name": name, "processors": processors, "prompt": [], "tokens": [], "seed": "0", "logits": [number(l) for l in row], "code": code})

    raw = Path(__file__).with_name("golden_run.f32").read_bytes()
    logits = struct.unpack(f"<{len(raw) // 4}f", raw)
    rows = [list(logits[i : i + 512]) for i in range(0, len(logits), 512)]
    v = lambda name, **parameters: {"name": name, "version": 1, **parameters}
    runs = []
    for name, settings, processors in [
        ("what a writer turns on", {"temperature": 0.9, "top_k": 0, "top_p": 1.0}, [v("repetition_penalty", penalty=1.1, window=64), v("dry", multiplier=0.8, base=1.75, allowed_length=2), v("min_p", p=0.05)]),
        ("exclude top choices", {"temperature": 1.0, "top_k": 0, "top_p": 1.0}, [v("top_n_sigma", n=1.5), v("xtc", probability=0.5, threshold=0.05)]),
        ("typical, then top-k and top-p", {"temperature": 0.8, "top_k": 40, "top_p": 0.95}, [v("frequency_penalty", penalty=0.2, prompt=False), v("typical", p=0.9, min_keep=3)]),
        ("greedy without repeats", {"temperature": 0.0, "top_k": 0, "top_p": 1.0}, [v("no_repeat_ngram", size=1, prompt=False), v("logit_bias", biases=[[7, 0.1], [300, -2.5]])]),
        ("forced, then free", {"temperature": 1.1, "top_k": 0, "top_p": 0.9}, [v("forced_prefix", tokens=[5, 6, 7]), v("eta", cutoff=0.003), v("min_length", length=15, end_tokens=[2])]),
    ]:
        prompt, seed, tokens, texts = [1, 403, 22], 2**53 + 1 + len(runs), [], {}
        for step, row in enumerate(rows):
            if step == 7:
                middle = list(tokens)
            changed = process(processors, row, prompt, tokens, seed)
            tokens.append(token(changed, settings, uniform(seed, step, 0)))
        state = {"contract": "quillmate-v1", "format": 1, "seed": str(seed), "step": 7, "prompt": prompt, "tokens": middle, "settings": {**settings, "processors": processors}}
        runs.append({"name": name, "state_after_7": json.dumps(state, separators=(",", ":")), "tokens": tokens})
    about = "Made by processors.py, which shares no code with the crate. processors: row_bits are the logits after the list, or code the refusal. runs: over the rows of golden_run.f32."
    print(json.dumps({"about": about, "processors": "CASES", "runs": "RUNS"}, indent=1).replace('"CASES"', "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]").replace('"RUNS"', "[\n" + ",\n".join(json.dumps(r) for r in runs) + "\n]"))


main()
