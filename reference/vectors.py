"""Computes every expected value in tests/vectors/ from the inputs beside it, with quillmate.py.

    make vectors            writes what differs
    make vectors CHECK=1    writes nothing and fails where something differs

To add a case, add its inputs to the JSON file and run `make vectors`. The expected value of a published case never
changes: where the check fails on one, the reference or the contract is at fault, not the file.
"""

import argparse
import copy
import json
import math
import re
import struct
import sys

import drawn
import quillmate as q
from paths import PEER_RULES, VECTORS

MENDS = "make vectors"

# ---- Numbers in the files --------------------------------------------------------------------------------------------

NAMED = {"NaN": math.nan, "nan": math.nan, "Infinity": math.inf, "inf": math.inf, "-Infinity": -math.inf, "-inf": -math.inf}


def number(value):
    return NAMED[value] if isinstance(value, str) else value


def numbers(values):
    return [number(value) for value in values]


# ---- One function a file: it sets the expected values of every case --------------------------------------------------


def exp_pairs(pairs):
    for pair in pairs:
        pair[1:] = [q.bits_of(q.exp(q.number_of(pair[0])))]


def contract(data):
    exp_pairs(data["exp"])
    for case in data["uniform"]:
        seed, step, stream = int(case["seed"]), case["step"], case["stream"]
        case["draw"] = str(q.draw(seed, step, stream))
        case["uniform_bits"] = q.bits_of(q.uniform(seed, step, stream))
    for case in data["sample"]:
        logits, temperature = numbers(case["logits"]), case["temperature"]
        settings = temperature, case["top_k"], case["top_p"]
        kept = q.distribution(logits, *settings)
        case["kept"] = list(kept)
        if temperature > 0:
            case["probability_bits"] = [q.bits_of(kept[i]) for i in kept]
        for draw in case["draws"]:
            draw[1:] = [q.sample_token(logits, *settings, draw[0])]
    for case in data["speculative"]:
        step = q.speculative_step(case["p"], case["q"], case["draft"], case["u_accept"], case["u_resample"])
        case["token"], case["accepted"] = step
    for case in data["mosaic-splitmix64-top-k-top-p-v1"]:
        settings = case["logits"], case["temperature"], case["top_k"], case["top_p"]
        case["candidates"] = list(q.mosaic_distribution(*settings))
        case["tokens"] = q.mosaic_run(*settings, int(case["seed"]), len(case["tokens"]))


def exp_hard(data):
    exp_pairs(data["exp"])


def derive_seed(data):
    for case in data["derive_seed"]:
        attempt = int(case["attempt"])
        case["info"] = q.derive_info(case["label"], attempt).hex()
        case["seed"] = str(q.derive_seed(int(case["root"]), case["label"], attempt))


def golden_rows():
    """15 rows of 512 logits of a small story model, little-endian f32."""
    return [list(row) for row in struct.iter_unpack("<512f", (VECTORS / "golden_run.f32").read_bytes())]


def whole_runs(runs):
    """Seed, prompt and settings of a run are those of the state stored after seven tokens."""
    rows = golden_rows()
    for case in runs:
        state = q.read_state(case["state_after_7"])
        seed, prompt, settings = state["seed"], state["prompt"], state["settings"]
        case["tokens"] = q.run_tokens(rows, seed, prompt, settings)
        case["state_after_7"] = q.state_text(seed, prompt, case["tokens"][:7], settings)


def golden_run(data):
    whole_runs(data["runs"])


def processors(data):
    inputs = ["name", "processors", "prompt", "tokens", "seed", "logits"]
    present = [{name: case[name] for name in inputs} for case in data["processors"]]
    data["processors"] += [case for case in drawn.cases() if case not in present]
    for case in data["processors"]:
        row, seed = numbers(case["logits"]), int(case["seed"])
        for name in ("row_bits", "code"):
            case.pop(name, None)
        try:
            row = q.process(case["processors"], row, case["prompt"], case["tokens"], seed)
            case["row_bits"] = [q.bits_of(logit) for logit in row]
        except q.Refused as refused:
            case["code"] = refused.code
    whole_runs(data["runs"])


def greedy(data):
    for case in data["greedy"]:
        others = [number(case.get(name, "NaN")) for name in ("top_k", "top_p", "u")]
        case["token"] = q.sample_token(numbers(case["logits"]), case["temperature"], *others)
    for case in data["mosaic_greedy"]:
        case["token"] = q.mosaic_greedy(case["logits"])


def message_numbers(data):
    for pair in data["numbers"]:
        pair[1:] = [q.shown(q.number_of(pair[0]))]


def refusal_of(call):
    try:
        call()
    except q.Refused as refused:
        return {"code": refused.code} if refused.index is None else {"code": refused.code, "index": refused.index}
    return {"code": None}


def refusals(data):
    q.read_state(data["good_state"])
    for case in data["state"]:
        case.update(refusal_of(lambda: q.read_state(case["text"])))
    for case in data["sample"]:
        settings = [number(case[name]) for name in ("temperature", "top_k", "top_p", "u")]
        case.update(refusal_of(lambda: q.sample_token(numbers(case["logits"]), *settings)))


def frames(data):
    for case in data["frames"]:
        step, logits = int(case["step"]), numbers(case["logits"])
        made = q.sparse_frame(step, logits, case["k"]) if "k" in case else q.dense_frame(step, logits)
        case["bytes"] = made.hex()
        read_step, row, case["max_top_k"] = q.read_frame(made)
        held = sorted(q.by_logit(logits)[: case.get("k", len(logits))])
        assert (read_step, q.allowed(row)) == (step, held), case["name"]
        assert all(q.bits_of(row[i]) == q.bits_of(logits[i]) for i in held), case["name"]
    for case in data["refused"]:
        case.update(refusal_of(lambda: q.read_frame(bytes.fromhex(case["bytes"]))))


# ---- How the files are laid out --------------------------------------------------------------------------------------


def compact(data):
    return json.dumps(data, separators=(",", ":")) + "\n"


def indented(data):
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def case_a_line(data, opening, closing, lead, last):
    parts = []
    for name, value in data.items():
        if isinstance(value, list):
            value = "[\n" + ",\n".join(lead + json.dumps(case) for case in value) + f"\n{last}]"
        else:
            value = json.dumps(value)
        parts.append(f"{json.dumps(name)}: {value}")
    return opening + ",\n ".join(parts) + closing


FILES = {
    "contract": (contract, compact),
    "exp_hard": (exp_hard, compact),
    "derive_seed": (derive_seed, indented),
    "golden_run": (golden_run, indented),
    "refusals": (refusals, indented),
    "processors": (processors, lambda data: case_a_line(data, "{\n ", "\n}\n", "", "")),
    "frames": (frames, lambda data: case_a_line(data, "{\n ", "\n}\n", "  ", " ")),
    # Exponents are written as Rust does.
    "greedy": (greedy, lambda data: case_a_line(data, "{\n ", "\n}\n", "  ", " ").replace("e+", "e")),
    "numbers": (message_numbers, lambda data: case_a_line(data, "{", "}\n", "  ", "")),
}

# ---- The peers' cases ------------------------------------------------------------------------------------------------
#
# peer_cases.json holds what other projects' own tests expect. Nothing of it is computed here; the reference is held
# against it. The cases whose rule is not ours are listed, with the reason, in tests/sampler/processors.rs.


# `eos` and `ties` say how the peer looks at a case; nothing of ours answers to them alone.
PEER_SETTINGS = {
    "repetition_penalty", "frequency_penalty", "presence_penalty", "dry", "no_repeat_ngram_size", "bad_words", "logit_bias",
    "top_k", "typical_p", "top_p", "min_p", "epsilon_cutoff", "eta_cutoff", "top_n_sigma", "xtc", "temperature",
    "order", "min_keep", "eos", "ties",
}  # fmt: skip


def peer_row(case):
    if "probs" in case:
        return [q.ln(p) for p in numbers(case["probs"])]
    if "logits_rule" in case:
        assert case["logits_rule"] == "V = 10000; logit of token i is ln(i), token 0 is -inf"
        return [q.ln(float(i)) for i in range(10_000)]
    return numbers(case["logits"])


def peer_list(case, second):
    """A peer's settings as a list of processors and a temperature. `second`: second versions where a rule has one."""
    settings = case["settings"]
    least = max(settings.get("min_keep", 1), 1)
    listed = []

    def add(name, newest=1, **parameters):
        listed.append({"name": name, "version": newest if second else 1, **parameters})

    for name in ("repetition_penalty", "frequency_penalty", "presence_penalty"):
        if name in settings:
            add(name, penalty=settings[name])
    if "dry" in settings:
        dry = settings["dry"]
        window = {"window": dry["penalty_last_n"]} if dry["penalty_last_n"] > 0 else {}
        parameters = {name: dry[name] for name in ("multiplier", "base", "allowed_length")}
        add("dry", 2, **parameters, **window, breakers=dry["sequence_breakers"])
    if "no_repeat_ngram_size" in settings:
        add("no_repeat_ngram", size=settings["no_repeat_ngram_size"])
    if "bad_words" in settings:
        add("bad_words", words=[word for word in settings["bad_words"] if word != [settings.get("eos")]])
    if "logit_bias" in settings:
        biases = [(int(i), number(bias)) for i, bias in settings["logit_bias"].items()]
        # A bias of −∞ is a ban, and ours has a name of its own.
        add("deny", tokens=[i for i, bias in biases if bias == -math.inf])
        add("logit_bias", biases=[[i, bias] for i, bias in biases if bias != -math.inf])
    rules = {
        "top_k": lambda k: add("top_k", k=max(k, least)) if k > 0 else None,
        "typical_p": lambda p: add("typical", 2, p=p, min_keep=least),
        "top_p": lambda p: add("top_p", 2, p=p, min_keep=least),
        "min_p": lambda p: add("min_p", p=p, min_keep=least),
        "epsilon_cutoff": lambda cutoff: add("epsilon", cutoff=cutoff, min_keep=least),
        "eta_cutoff": lambda cutoff: add("eta", cutoff=cutoff, min_keep=least),
        "top_n_sigma": lambda n: add("top_n_sigma", n=n, min_keep=least) if n > 0 else None,
        "xtc": lambda xtc: add("xtc", **xtc),
    }
    for name in settings.get("order", rules):
        if name in settings:
            rules[name](settings[name])
    temperature = settings.get("temperature", 1.0)
    if "logits" in case["expect"] and temperature != 1.0:
        add("temperature", temperature=temperature)
        temperature = 1.0
    return listed, temperature


def peer_agrees(case, second):
    """Whether the reference gives what the case expects."""
    expect, tolerance = case["expect"], case.get("tolerance", 1e-6)
    if not set(case["settings"]) <= PEER_SETTINGS:
        return False
    try:
        listed, temperature = peer_list(case, second)
        # Where the peer's XTC acts, so must ours: a seed whose draw is below the probability.
        chance = case["settings"].get("xtc", {}).get("probability", 0)
        seed = next(seed for seed in range(1000) if chance == 0 or q.uniform(seed, 0, q.XTC) < chance)
        row = q.process(listed, peer_row(case), case.get("history", []), [], seed)
        q.check_logits(row)
    except q.Refused:
        return False

    def dense(row):
        p = q.distribution(row, temperature, 0, 1.0)
        return [p.get(i, 0.0) for i in range(len(row))]

    def close(found, expected, tolerance):
        return len(found) == len(expected) and all(a == b or abs(a - b) <= tolerance for a, b in zip(found, numbers(expected)))

    kept = q.allowed(row) if temperature > 0 else list(q.distribution(row, temperature, 0, 1.0))
    # A token of probability 0 counts as kept there; here it is banned from the start.
    banned = 1 if expect.get("kept_range", [1])[0] == 0 else 0
    checks = {
        "kept_ids": lambda ids: kept == ids,
        "kept_count": lambda count: len(kept) + banned == count,
        "kept_count_max": lambda count: len(kept) <= count,
        "kept_count_min": lambda count: len(kept) >= count,
        "kept_range": lambda ends: kept == list(range(max(ends[0], 1), ends[1] + 1)),
        "allowed_ids": lambda ids: set(kept) <= set(ids),
        "probs": lambda p: close(dense(row), p, tolerance),
        "probs_before": lambda p: close(dense(peer_row(case)), p, tolerance),
        "logits": lambda logits: close(row, logits, tolerance),
        "distribution": lambda p: close(dense(row), p, expect["distribution_tolerance"]),
        "picked": lambda token: all(q.sample_token(row, temperature, 0, 1.0, u) == token for u in (0.0, 0.3, 0.999)),
        "order": lambda ids: q.by_logit(row) == ids,
        "best_logit": lambda logit: max(row) == number(logit),
        "last_kept_logit": lambda logit: min(row[i] for i in kept) == number(logit),
    }
    beside = ("distribution_tolerance", "draws")
    return all(checks[name](value) for name, value in expect.items() if name not in beside)


def check_peers():
    """Returns what is wrong, or nothing."""
    data = json.loads((VECTORS / "peer_cases.json").read_text("utf-8"))
    listed = PEER_RULES.read_text("utf-8").split("const OTHERS", 1)[1].split("];", 1)[0]
    others = {case["id"] for case in data["cases"] if f'"{case["id"]}"' in listed}
    differ = {case["id"] for case in data["cases"] if not (peer_agrees(case, False) and peer_agrees(case, True))}
    if data["count"] != len(data["cases"]):
        return f"count is {data['count']}, but there are {len(data['cases'])} cases"
    if differ != others:
        return f"the reference and the list OTHERS in {PEER_RULES.name} disagree about {sorted(differ ^ others)}"
    return None


# ---- All of them -----------------------------------------------------------------------------------------------------


def first_difference(published, computed):
    """Where two files differ, in words."""
    for section, cases in computed.items():
        if not isinstance(cases, list):
            continue
        for at, (old, new) in enumerate(zip(published[section], cases)):
            if json.dumps(old) != json.dumps(new):
                names = [name for name in new if old.get(name) != new[name]] if isinstance(new, dict) else []
                return f"{section}[{at}]" + (f", {', '.join(names)}" if names else "")
        if len(published[section]) != len(cases):
            return f"{section} has {len(published[section])} cases, not {len(cases)}"
    return "the layout"


def main():
    parser = argparse.ArgumentParser(description="Computes the expected values in tests/vectors/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    check = parser.parse_args().check
    q.check_known_answers()
    wrong = 0
    for name, (fill, layout) in FILES.items():
        path = VECTORS / f"{name}.json"
        text = path.read_text("utf-8")
        published = json.loads(text)
        computed = copy.deepcopy(published)
        fill(computed)
        count = sum(len(cases) for cases in computed.values() if isinstance(cases, list))
        if layout(computed) == text:
            print(f"{path.name}: {count} cases, as computed")
        elif check:
            wrong += 1
            print(f"{path.name}: differs at {first_difference(published, computed)}")
        else:
            path.write_text(layout(computed), "utf-8")
            print(f"{path.name}: {count} cases, written; it differed at {first_difference(published, computed)}")
    problem = check_peers()
    print(f"peer_cases.json: {problem or 'the reference agrees but for the cases that are listed'}")
    if wrong:
        print(f"If the inputs are new, `{MENDS}` writes their expected values. Those of published cases must not change.")
    sys.exit(1 if wrong or problem else 0)


if __name__ == "__main__":
    main()
