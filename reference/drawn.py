"""The random inputs of processors.json, from seeded generators: rows, histories and lists of processors.

`vectors.py` appends what the file lacks. A new series is a new function with a seed of its own, added to `SERIES`: a change
to an existing one would ask for other cases than those that are published.
"""

import math
import random

SIZE = 24


def parts(rng):
    """What both series draw parameters from."""
    few = lambda k: sorted(rng.sample(range(SIZE), k))
    least = lambda: rng.choice([{}, {}, {"min_keep": rng.randint(2, 5)}])
    v = lambda name, version, **parameters: {"name": name, "version": version, **parameters}
    return few, least, v


def first_versions(rng):
    """Six lists of one processor for each, and forty of several."""
    few, least, v = parts(rng)
    extra = lambda: rng.choice([{}, {"window": rng.randint(1, 12)}, {"prompt": False}, {"window": 5, "prompt": False}])
    pair = lambda below: [rng.randrange(below) for _ in range(2)]
    one = {
        "repetition_penalty": lambda: v("repetition_penalty", 1, penalty=rng.choice([1.1, 1.3, 2.0, 0.9]), **extra()),
        "frequency_penalty": lambda: v("frequency_penalty", 1, penalty=rng.choice([0.1, 0.7, -0.3]), **extra()),
        "presence_penalty": lambda: v("presence_penalty", 1, penalty=rng.choice([0.1, 1.7, -0.3]), **extra()),
        "dry": lambda: v(
            "dry",
            1,
            multiplier=rng.choice([0.8, 1.0]),
            base=rng.choice([1.0, 1.75, 1e30]),
            allowed_length=rng.randint(1, 3),
            **extra(),
            **rng.choice([{}, {"breakers": [few(1), few(2)]}]),
        ),
        "no_repeat_ngram": lambda: v("no_repeat_ngram", 1, size=rng.randint(1, 4), **extra()),
        "bad_words": lambda: v("bad_words", 1, words=[few(1), few(2), pair(4), pair(3)]),
        "logit_bias": lambda: v("logit_bias", 1, biases=[[i, rng.uniform(-3, 3)] for i in few(3)]),
        "allow": lambda: v("allow", 1, tokens=few(SIZE // 2)),
        "deny": lambda: v("deny", 1, tokens=few(3)),
        "forced_prefix": lambda: v("forced_prefix", 1, tokens=[rng.randrange(SIZE) for _ in range(rng.choice([2, 30]))]),
        "min_length": lambda: v("min_length", 1, length=rng.choice([2, 30]), end_tokens=few(2)),
        "temperature": lambda: v("temperature", 1, temperature=rng.choice([0.7, 1.3])),
        "top_k": lambda: v("top_k", 1, k=rng.randint(1, SIZE)),
        "top_p": lambda: v("top_p", 1, p=rng.choice([0.0, 0.5, 0.9, 1.0, rng.random()]), **least()),
        "min_p": lambda: v("min_p", 1, p=rng.choice([0.0, 0.05, 0.3, 1.0, rng.random()]), **least()),
        "typical": lambda: v("typical", 1, p=rng.choice([0.0, 0.5, 0.95, rng.random()]), **least()),
        "epsilon": lambda: v("epsilon", 1, cutoff=rng.choice([0.01, 0.1, 0.9]), **least()),
        "eta": lambda: v("eta", 1, cutoff=rng.choice([0.01, 0.1, 0.9]), **least()),
        "top_n_sigma": lambda: v("top_n_sigma", 1, n=rng.choice([0.5, 1.0, 2.0]), **least()),
        "xtc": lambda: v(
            "xtc",
            1,
            probability=rng.choice([0.5, 1.0, 0.0]),
            threshold=rng.choice([0.02, 0.1, 0.3]),
            **rng.choice([{}, {"exempt": few(3)}]),
        ),
    }
    for name, make in one.items():
        if name.endswith("_penalty"):
            yield name + ", exempt", [{**make(), "exempt": few(4)}]
        for _ in range(6):
            yield name, [make()]
    for _ in range(40):
        names = rng.sample(list(one), rng.randint(2, 5))
        yield " then ".join(names), [one[name]() for name in names]


def later_rules(rng):
    """Second versions and forced_end: sixteen lists of one for each, and thirty of several."""
    few, least, v = parts(rng)
    extra = lambda: rng.choice([{}, {"window": rng.randint(1, 12)}, {"prompt": False}])
    any_of = lambda below: rng.randrange(below)
    breakers = lambda: rng.choice([[few(1), few(1), few(2)], [[any_of(3)]], [[any_of(3)] * 3, [any_of(6)]]])
    one = {
        "dry": lambda: v(
            "dry",
            2,
            multiplier=rng.choice([0.8, 1.0]),
            base=rng.choice([1.0, 1.75, 1e30]),
            allowed_length=rng.randint(1, 2),
            **extra(),
            **rng.choice([{}, {"breakers": breakers()}, {"breakers": breakers()}]),
        ),
        "forced_end": lambda: v(
            "forced_end", 1, length=rng.choice([1, 2, 11, 21, 22, 30]), end_tokens=few(rng.randint(1, 3))
        ),
        "top_p": lambda: v("top_p", 2, p=rng.choice([0.0, 0.5, 0.9, 1.0, rng.random()]), **least()),
        "typical": lambda: v("typical", 2, p=rng.choice([0.0, 0.3, 0.5, 0.95, 1.0, rng.random()]), **least()),
    }
    for name, make in one.items():
        for _ in range(16):
            yield name + (" 2" if name != "forced_end" else ""), [make()]
    for _ in range(30):
        names = rng.sample(list(one), rng.randint(2, 4))
        yield " then ".join(names), [one[name]() for name in names]


SERIES = [(20261129, first_versions), (20261130, later_rules)]


def cases():
    for seed, lists in SERIES:
        rng = random.Random(seed)
        for name, processors in lists(rng):
            kind = rng.randrange(4)
            row = [round(rng.gauss(0, 3), 3) for _ in range(SIZE)]
            if kind == 1:  # ties
                row = [float(round(logit)) for logit in row]
            if kind == 2:  # bans
                row = [logit if rng.random() < 0.8 else -math.inf for logit in row]
                row[rng.randrange(SIZE)] = 1.5
            if kind == 3:  # long mantissas
                row = [rng.gauss(0, 3) for _ in range(SIZE)]
            alphabet = rng.choice([3, 6, SIZE, SIZE + 4])
            prompt = [rng.randrange(alphabet) for _ in range(rng.choice([0, 3, 8]))]
            tokens = [rng.randrange(alphabet) for _ in range(rng.choice([0, 1, 10, 20]))]
            yield {
                "name": name,
                "processors": processors,
                "prompt": prompt,
                "tokens": tokens,
                "seed": str(rng.randrange(2**64)),
                "logits": ["-Infinity" if logit == -math.inf else logit for logit in row],
            }
