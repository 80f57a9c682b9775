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


def named(p):
    """Every token id among the parameters."""
    lists = [p.get("exempt", []), p.get("tokens", []), p.get("end_tokens", []), [i for i, _ in p.get("biases", [])]]
    return [i for ids in lists + p.get("breakers", []) + p.get("words", []) for i in ids]


def only_kept(row, kept):
    return [l if i in kept else -INF for i, l in enumerate(row)]


def apply(p, row, prompt, tokens, seed):
    row, n, name, version = list(row), len(tokens), p["name"], p["version"]
    h = history(p, prompt, tokens)
    least = p.get("min_keep", 1)
    exempt = p.get("exempt", [])

    def banned(ids):
        return [-INF if i in ids else l for i, l in enumerate(row)]

    def only(ids):
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
            if version == 2 and [i] in p.get("breakers", []):
                continue
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
    elif name == "forced_end":
        if n + 1 >= p["length"]:
            row = only(p["end_tokens"])
    elif name == "temperature":
        row = [l if l == -INF else l / p["temperature"] for l in row]
    elif name == "top_k":
        row = keep(row, by_logit(row)[: p["k"]])
    elif name == "top_p":
        if p["p"] < 1:
            ids, _, _, _, q = softmax(row)
            if version == 1:
                row = keep(row, nucleus(ids, q, p["p"]), least)
            else:
                row = only_kept(row, nucleus(ids, q, p["p"]) + sorted(ids, key=lambda i: (-q[i], i))[:least])
    elif name == "min_p":
        ids, _, w, _, _ = softmax(row)
        row = keep(row, [i for i in ids if w[i] >= p["p"]], least)
    elif name == "typical" and (version == 1 or p["p"] < 1):
        ids, q, g, entropy = information(row)
        total, kept, order = 0.0, [], sorted(ids, key=lambda i: (abs(-g[i] - entropy), i))
        for i in order:
            kept.append(i)
            total = total + q[i]
            if total >= p["p"]:
                break
        row = keep(row, kept, least) if version == 1 else only_kept(row, kept + order[:least])
    elif name == "typical":
        pass
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
    if any(i >= len(row) for p in processors for i in named(p)):
        raise Refused("processor_token")
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


def later_lists(rng, size):
    """The rules that came later: second versions and forced_end."""
    few = lambda k: sorted(rng.sample(range(size), k))
    extra = lambda: rng.choice([{}, {"window": rng.randint(1, 12)}, {"prompt": False}])
    least = lambda: rng.choice([{}, {}, {"min_keep": rng.randint(2, 5)}])
    v = lambda name, version, **parameters: {"name": name, "version": version, **parameters}
    breakers = lambda: rng.choice([[few(1), few(1), few(2)], [[rng.randrange(3)]], [[rng.randrange(3)] * 3, [rng.randrange(6)]]])
    one = {
        "dry": lambda: v("dry", 2, multiplier=rng.choice([0.8, 1.0]), base=rng.choice([1.0, 1.75, 1e30]), allowed_length=rng.randint(1, 2), **extra(), **rng.choice([{}, {"breakers": breakers()}, {"breakers": breakers()}])),
        "forced_end": lambda: v("forced_end", 1, length=rng.choice([1, 2, 11, 21, 22, 30]), end_tokens=few(rng.randint(1, 3))),
        "top_p": lambda: v("top_p", 2, p=rng.choice([0.0, 0.5, 0.9, 1.0, rng.random()]), **least()),
        "typical": lambda: v("typical", 2, p=rng.choice([0.0, 0.3, 0.5, 0.95, 1.0, rng.random()]), **least()),
    }
    for name, make in one.items():
        for _ in range(16):
            yield name + (" 2" if name != "forced_end" else ""), [make()]
    for _ in range(30):
        names = rng.sample(list(one), rng.randint(2, 4))
        yield " then ".join(names), [one[name]() for name in names]


def random_cases(rng, lists, size):
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
        yield case


def main():
    size = 24
    cases = list(random_cases(random.Random(20261129), lists, size))
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

    v = lambda name, version, **parameters: {"name": name, "version": version, **parameters}
    history = [5, 9, 4, 5]
    loop = {"multiplier": 1.0, "base": 2.0, "allowed_length": 1}
    near = [0.0, 1e-17]  # two logits of one probability
    l = lambda *p: [ln(x) for x in p]
    for name, processors, row, tokens in [
        ("the best need not be typical", [v("typical", 2, p=0.5)], l(0.46, 0.27, 0.27), []),
        ("version 1 keeps it all the same", [v("typical", 1, p=0.5)], l(0.46, 0.27, 0.27), []),
        ("the most typical alone", [v("typical", 2, p=0.0)], l(0.5, 0.3, 0.2), []),
        ("the two most typical", [v("typical", 2, p=0.0, min_keep=2)], l(0.5, 0.3, 0.2), []),
        ("typical at 1 keeps what adds nothing", [v("typical", 2, p=1.0)], [0.0, -50.0, -60.0], []),
        ("a breaker is left alone", [v("dry", 2, **loop, breakers=[[9]])], [0.0] * 10, history),
        ("version 1 holds it back", [v("dry", 1, **loop, breakers=[[9]])], [0.0] * 10, history),
        ("tokens of longer breakers are held back", [v("dry", 2, **loop, breakers=[[9, 9], [4, 9]])], [0.0] * 10, history),
        ("after a breaker nothing is held back", [v("dry", 2, **loop, breakers=[[5], [9]])], [0.0] * 10, history),
        ("the breaker that ends last counts, not the one that begins last", [v("dry", 2, **loop, breakers=[[2], [1, 2, 3]])], [0.0] * 10, [2, 3, 7, 1, 2, 3, 7]),
        ("one probability, the lower id", [v("top_p", 2, p=0.0)], near, []),
        ("version 1 keeps the best logit too", [v("top_p", 1, p=0.0)], near, []),
        ("before its turn the end is not forced", [v("forced_end", 1, length=3, end_tokens=[2])], [0.0, 1.0, -5.0], [0]),
        ("the third token is the end", [v("forced_end", 1, length=3, end_tokens=[2])], [0.0, 1.0, -5.0], [0, 1]),
        ("and all that come after it", [v("forced_end", 1, length=3, end_tokens=[2])], [0.0, 1.0, -5.0], [0, 1, 2, 2]),
        ("the forced end is banned", [v("forced_end", 1, length=1, end_tokens=[0])], [-INF, 1.0], []),
        ("the forced first token", [v("forced_prefix", 1, tokens=[1])], [0.0, 1.0, -5.0], []),
        ("an exempt id that is none", [v("repetition_penalty", 1, penalty=2.0, exempt=[2])], [0.0, 1.0], []),
        ("a breaker that is none", [v("dry", 2, **loop, breakers=[[0], [0, 2]])], [0.0, 1.0], []),
        ("a bad word that begins with none", [v("bad_words", 1, words=[[2, 0]])], [0.0, 1.0], []),
        ("a bad word that ends with none", [v("bad_words", 1, words=[[0, 2]])], [0.0, 1.0], []),
        ("a forced prefix whose second is none", [v("forced_prefix", 1, tokens=[0, 2])], [0.0, 1.0], []),
        ("a forced prefix that is over", [v("forced_prefix", 1, tokens=[2])], [0.0, 1.0], [0]),
        ("a minimum that has passed", [v("min_length", 1, length=1, end_tokens=[2])], [0.0, 1.0], [0]),
        ("an end that has not come", [v("forced_end", 1, length=9, end_tokens=[2])], [0.0, 1.0], []),
        ("an exempt choice that is none", [v("xtc", 1, probability=0.0, threshold=0.1, exempt=[2])], [0.0, 1.0], []),
        ("parameters are looked at before anything acts", [v("deny", 1, tokens=[0, 1]), v("allow", 1, tokens=[2])], [0.0, 1.0], []),
    ]:
        case = {"name": name, "processors": processors, "prompt": [], "tokens": tokens, "seed": "0", "logits": [number(x) for x in row]}
        try:
            case["row_bits"] = [bits(x) for x in process(processors, row, [], tokens, 0)]
        except Refused as refused:
            case["code"] = str(refused)
        cases.append(case)
    cases += random_cases(random.Random(20261130), later_lists, size)

    raw = Path(__file__).with_name("golden_run.f32").read_bytes()
    logits = struct.unpack(f"<{len(raw) // 4}f", raw)
    rows = [list(logits[i : i + 512]) for i in range(0, len(logits), 512)]
    v = lambda name, **parameters: {"name": name, "version": 1, **parameters}
    v2 = lambda name, **parameters: {"name": name, "version": 2, **parameters}
    runs = []
    for name, settings, processors in [
        ("what a writer turns on", {"temperature": 0.9, "top_k": 0, "top_p": 1.0}, [v("repetition_penalty", penalty=1.1, window=64), v("dry", multiplier=0.8, base=1.75, allowed_length=2), v("min_p", p=0.05)]),
        ("exclude top choices", {"temperature": 1.0, "top_k": 0, "top_p": 1.0}, [v("top_n_sigma", n=1.5), v("xtc", probability=0.5, threshold=0.05)]),
        ("typical, then top-k and top-p", {"temperature": 0.8, "top_k": 40, "top_p": 0.95}, [v("frequency_penalty", penalty=0.2, prompt=False), v("typical", p=0.9, min_keep=3)]),
        ("greedy without repeats", {"temperature": 0.0, "top_k": 0, "top_p": 1.0}, [v("no_repeat_ngram", size=1, prompt=False), v("logit_bias", biases=[[7, 0.1], [300, -2.5]])]),
        ("forced, then free", {"temperature": 1.1, "top_k": 0, "top_p": 0.9}, [v("forced_prefix", tokens=[5, 6, 7]), v("eta", cutoff=0.003), v("min_length", length=15, end_tokens=[2])]),
        ("second versions, and an end", {"temperature": 0.9, "top_k": 0, "top_p": 1.0}, [v2("dry", multiplier=0.8, base=1.75, allowed_length=1, breakers=[[13]]), v("forced_end", length=12, end_tokens=[2, 13, 400]), v2("top_p", p=0.98, min_keep=2), v2("typical", p=0.9), v("xtc", probability=0.5, threshold=0.02, exempt=[13])]),
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
