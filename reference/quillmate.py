"""The sampling contract `quillmate-v1`, computed slowly and plainly.

It follows CONTRACT.md and docs/legacy-contract.md section by section and is written from that text, not from the Rust source. `vectors.py` computes
the expected values of `tests/vectors/` with it. README.md beside it lists what is left out.

Python's float is IEEE-754 binary64, and its + - * / and `math.sqrt` round to nearest even. The built-in `sum` is not used:
from Python 3.12 on it compensates for rounding, and the contract adds in order.
"""

import decimal
import fractions
import functools
import hashlib
import hmac
import json
import math
import struct
import zlib

import mpmath

INF = math.inf
MASK = 2**64 - 1


class Refused(Exception):
    """A refusal: its code, and the index where the contract names one."""

    def __init__(self, code, index=None):
        super().__init__(code)
        self.code, self.index = code, index


def bits_of(number):
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016x}"


def number_of(bits):
    return struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]


def running_sum(numbers):
    total = 0.0
    for number in numbers:
        total = total + number
    return total


# ---- exp and ln, correctly rounded ---------------------------------------------------------------------------------
#
# e^x and ln x of a double are never as near as 2^-120 (relatively) to the midpoint of two doubles, so 300 bits decide
# every rounding. `float(Fraction)` rounds once, to nearest even, subnormal results included.

WIDE = mpmath.mp.clone()
WIDE.prec = 300


def rounded(wide):
    return float(fractions.Fraction(*mpmath.libmp.to_rational(wide._mpf_)))


@functools.lru_cache(maxsize=None)
def exp(x):
    if math.isnan(x):
        return x
    if x < -746:  # e^x < 2^-1076, less than half of the least subnormal
        return 0.0
    if x > 710:  # e^x > 2^1024
        return INF
    return rounded(WIDE.exp(WIDE.mpf(x)))


@functools.lru_cache(maxsize=None)
def ln(x):
    if math.isnan(x) or x < 0:
        return math.nan
    if x == 0:
        return -INF
    if x == INF:
        return INF
    return rounded(WIDE.ln(WIDE.mpf(x)))


# ---- Inputs ----------------------------------------------------------------------------------------------------------


def check_temperature(temperature):
    if not (math.isfinite(temperature) and temperature >= 0):
        raise Refused("temperature_out_of_range")


def check_top_k(top_k):
    if not (0 <= top_k <= 2**32 - 1 and top_k == math.floor(top_k)):
        raise Refused("top_k_out_of_range")


def check_top_p(top_p):
    if not 0 <= top_p <= 1:
        raise Refused("top_p_out_of_range")


def check_uniform(u):
    if not 0 <= u < 1:
        raise Refused("uniform_out_of_range")


def check_logits(logits):
    if not logits:
        raise Refused("logits_empty")
    for i, logit in enumerate(logits):
        if math.isnan(logit):
            raise Refused("logits_nan", i)
        if logit == INF:
            raise Refused("logits_positive_infinity", i)
    if all(logit == -INF for logit in logits):
        raise Refused("logits_all_banned")


# ---- One token -------------------------------------------------------------------------------------------------------


def allowed(logits):
    return [i for i, logit in enumerate(logits) if logit != -INF]


def by_logit(logits):
    """The allowed ids, logit high first, id low first."""
    return sorted(allowed(logits), key=lambda i: (-logits[i], i))


def by_probability(p):
    """The ids of a dict of probabilities, probability high first, id low first."""
    return sorted(p, key=lambda i: (-p[i], i))


def until_reached(order, p, limit):
    """The ids of `order` up to and including the first at which the sum of their p is at least `limit`."""
    kept, total = [], 0.0
    for i in order:
        kept.append(i)
        total = total + p[i]
        if total >= limit:
            break
    return kept


def divided_by_sum(w):
    total = running_sum(w.values())
    return {i: w[i] / total for i in w}


def distribution(logits, temperature, top_k, top_p):
    """Steps 1 to 6: what the token is drawn from, as a dict from id to probability, ids ascending."""
    if temperature == 0:
        return {by_logit(logits)[0]: 1.0}
    candidates = by_logit(logits)
    if top_k > 0:
        candidates = candidates[: int(top_k)]
    m = max(logits[i] for i in candidates)
    w = {i: exp((logits[i] - m) / temperature) for i in sorted(candidates)}
    p = divided_by_sum(w)
    if top_p < 1:
        kept = until_reached(by_probability(p), p, top_p)
        p = {i: p[i] for i in sorted(kept)}
    return divided_by_sum(p)


def walk(q, u):
    """Step 7."""
    r = 0.0
    for i in q:
        r = r + q[i]
        if r > u:
            return i
    return [i for i in q if q[i] > 0][-1]


def sample_token(logits, temperature, top_k, top_p, u):
    check_temperature(temperature)
    if temperature > 0:
        check_top_k(top_k)
        check_top_p(top_p)
        check_uniform(u)
    check_logits(logits)
    if temperature == 0:
        return by_logit(logits)[0]
    return walk(distribution(logits, temperature, top_k, top_p), u)


# ---- Uniform numbers -------------------------------------------------------------------------------------------------

GAMMA = 0x9E3779B97F4A7C15
TOKENS, XTC = 0, 4  # reserved streams


def mix64(z):
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def base(seed, stream):
    if stream == 0:
        return seed
    return mix64(((seed ^ mix64((stream + GAMMA) & MASK)) + GAMMA) & MASK)


def draw(seed, step, stream):
    return mix64((base(seed, stream) + (step + 1) * GAMMA) & MASK)


def uniform(seed, step, stream):
    return (draw(seed, step, stream) >> 11) * 2.0**-53


# ---- Seeds derived from a seed ---------------------------------------------------------------------------------------


def hkdf_sha256(salt, material, info, length):
    """RFC 5869: extract, then expand."""
    key = hmac.new(salt, material, hashlib.sha256).digest()
    output, block, counter = b"", b"", 1
    while len(output) < length:
        block = hmac.new(key, block + info + bytes([counter]), hashlib.sha256).digest()
        output += block
        counter += 1
    return output[:length]


def derive_info(label, attempt):
    label = label.encode("utf-8")
    if not label:
        raise Refused("label_empty")
    if len(label) > 255:
        raise Refused("label_too_long")
    return struct.pack("<I", len(label)) + label + struct.pack("<IQ", 8, attempt)


def derive_seed(root, label, attempt):
    info = derive_info(label, attempt)
    output = hkdf_sha256(b"quillmate derive_seed v1", struct.pack("<Q", root), info, 8)
    return struct.unpack("<Q", output)[0]


# ---- A run -----------------------------------------------------------------------------------------------------------

CONTRACT = "quillmate-v1"
STATE_FORMAT = 1


def run_tokens(rows, seed, prompt, settings):
    """The tokens of a run from step 0, one a row."""
    tokens = []
    for row in rows:
        row = process(settings.get("processors", []), row, prompt, tokens, seed)
        u = uniform(seed, len(tokens), TOKENS)
        token = sample_token(row, settings["temperature"], settings["top_k"], settings["top_p"], u)
        tokens.append(token)
    return tokens


def state_text(seed, prompt, tokens, settings):
    """The stored form of a run. Its fields stand in the order of the contract's example."""
    state = {
        "contract": CONTRACT,
        "format": STATE_FORMAT,
        "seed": str(seed),
        "step": len(tokens),
        "prompt": prompt,
        "tokens": tokens,
        "settings": settings,
    }
    return json.dumps(state, separators=(",", ":"))


class Fields:
    """A JSON object whose fields are taken one by one, so that a missing, repeated or unknown one is noticed."""

    def __init__(self, pairs):
        self.pairs = pairs

    def take(self, name):
        values = [value for key, value in self.pairs if key == name]
        if not values:
            raise Refused("field_missing")
        if len(values) > 1:
            raise Refused("field_repeated")
        self.pairs = [pair for pair in self.pairs if pair[0] != name]
        return values[0]

    def nothing_left(self):
        if self.pairs:
            raise Refused("field_unknown")


def parse(text):
    """JSON as RFC 8259 has it: no NaN, no infinity, and no number that a double cannot hold."""

    def finite(literal):
        if math.isinf(float(literal)):
            raise ValueError(literal)
        return float(literal)

    def no_constant(literal):
        raise ValueError(literal)

    try:
        value = json.loads(text, object_pairs_hook=Fields, parse_float=finite, parse_constant=no_constant)
    except ValueError:
        raise Refused("json_syntax") from None
    if not isinstance(value, Fields):
        raise Refused("json_syntax")
    return value


def of_type(value, kind):
    """`value` if it is of the kind; a flag is no number, though Python's bool is an int."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused("field_type")
    return value


def integer(value, limit):
    if of_type(value, (int, float)) != math.floor(value) or not 0 <= value < limit:
        raise Refused("field_type")
    return int(value)


def token_ids(value):
    return [integer(i, 2**32) for i in of_type(value, list)]


def read_seed(seed):
    if not isinstance(seed, str):
        raise Refused("seed_not_string")
    plain = seed.isascii() and seed.isdigit() and str(int(seed)) == seed
    if not (plain and int(seed) <= MASK):
        raise Refused("seed_malformed")
    return int(seed)


def read_state(text):
    """Reads a state as section "The state" has it, or refuses it. Parameters of processors are not checked here."""
    fields = parse(text)
    if of_type(fields.take("contract"), str) != CONTRACT:
        raise Refused("contract_unknown")
    if integer(fields.take("format"), 2**64) != STATE_FORMAT:
        raise Refused("format_unknown")
    state = {"seed": read_seed(fields.take("seed"))}
    step = integer(fields.take("step"), 2**64)
    state["prompt"] = token_ids(fields.take("prompt"))
    state["tokens"] = token_ids(fields.take("tokens"))
    settings = of_type(fields.take("settings"), Fields)
    state["settings"] = {}
    for name, check in [("temperature", check_temperature), ("top_k", check_top_k), ("top_p", check_top_p)]:
        state["settings"][name] = of_type(settings.take(name), (int, float))
        check(state["settings"][name])
    if any(key == "processors" for key, _ in settings.pairs):
        state["settings"]["processors"] = [dict(of_type(p, Fields).pairs) for p in of_type(settings.take("processors"), list)]
    settings.nothing_left()
    if step != len(state["tokens"]):
        raise Refused("step_mismatch")
    fields.nothing_left()
    return state


def shown(number):
    """A number as messages show it: the shortest digits that read back, without an exponent from 0.00001 to 1e16."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    sign, digits, exponent = decimal.Decimal(repr(number)).normalize().as_tuple()
    digits, minus = "".join(map(str, digits)), "-" if sign else ""
    scientific = len(digits) - 1 + exponent  # of the first digit
    if number == 0 or -5 <= scientific < 16:
        text = f"{decimal.Decimal(repr(number)).normalize():f}"
        return text if "." in text else text + ".0"
    return minus + digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{scientific}"


# ---- Processors ------------------------------------------------------------------------------------------------------
#
# Each rule takes the row, its parameters p and the run (prompt, tokens, seed), and returns the row that follows.


class Run:
    def __init__(self, prompt, tokens, seed):
        self.prompt, self.tokens, self.seed = prompt, tokens, seed
        self.n = len(tokens)

    def history(self, p):
        h = (self.prompt if p.get("prompt", True) else []) + self.tokens
        return h[-p["window"] :] if "window" in p else h


class Softmax:
    """m, w, S, p, g and H of a row, over its allowed tokens."""

    def __init__(self, row):
        ids = allowed(row)
        self.m = max(row[i] for i in ids)
        self.w = {i: exp(row[i] - self.m) for i in ids}
        self.s = running_sum(self.w.values())
        self.p = {i: self.w[i] / self.s for i in ids}
        self.row = row

    def g(self):
        ln_s = ln(self.s)
        return {i: (self.row[i] - self.m) - ln_s for i in self.p}

    def entropy(self):
        g = self.g()
        return running_sum(-(self.p[i] * g[i]) for i in self.p)


def only(row, kept):
    return [logit if i in kept else -INF for i, logit in enumerate(row)]


def without(row, banned):
    return [-INF if i in banned else logit for i, logit in enumerate(row)]


def filtered(row, p, kept):
    """Keeps these, and at least min_keep by (logit high first, id low first)."""
    return only(row, set(kept) | set(by_logit(row)[: p.get("min_keep", 1)]))


def adjusted(row, change):
    """Every allowed logit changed by `change(i, logit)`, which must leave it finite."""
    changed = {i: change(i, row[i]) for i in allowed(row)}
    if not all(math.isfinite(logit) for logit in changed.values()):
        raise Refused("processor_overflow")
    return [changed.get(i, -INF) for i in range(len(row))]


def penalized(row, p, run, change):
    h, exempt = run.history(p), p.get("exempt", [])
    return adjusted(row, lambda i, logit: change(logit, h.count(i)) if i in h and i not in exempt else logit)


def repetition_penalty(row, p, run):
    r = p["penalty"]
    return penalized(row, p, run, lambda logit, c: logit / r if logit > 0 else logit * r)


def frequency_penalty(row, p, run):
    return penalized(row, p, run, lambda logit, c: logit - p["penalty"] * c)


def presence_penalty(row, p, run):
    return penalized(row, p, run, lambda logit, c: logit - p["penalty"])


def dry(row, p, run):
    h, breakers, least = run.history(p), p.get("breakers", []), p["allowed_length"]
    # R: how many tokens follow the breaker sequence that ends last.
    reach = 0
    while reach < len(h) and not any(h[: len(h) - reach][-len(b) :] == b for b in breakers):
        reach += 1
    longest = {}
    for j in range(1, len(h)):
        suffix = 0
        while suffix < j and h[j - 1 - suffix] == h[len(h) - 1 - suffix]:
            suffix += 1
        longest[h[j]] = max(longest.get(h[j], 0), min(suffix, reach))

    def change(i, logit):
        if longest.get(i, 0) < least or (p["version"] == 2 and [i] in breakers):
            return logit
        power = 1.0
        for _ in range(longest[i] - least):
            if power >= 2.0**100:
                break
            power = power * p["base"]
        return logit - p["multiplier"] * power

    return adjusted(row, change)


def no_repeat_ngram(row, p, run):
    h, size = run.history(p), p["size"]
    if len(h) < size - 1:
        return row
    last = h[len(h) - (size - 1) :]
    starts = range(len(h) - size + 1)
    return without(row, [h[at + size - 1] for at in starts if h[at : at + size - 1] == last])


def bad_words(row, p, run):
    context = run.prompt + run.tokens
    ends = [word[-1] for word in p["words"] if context[len(context) - len(word[:-1]) :] == word[:-1]]
    return without(row, ends)


def logit_bias(row, p, run):
    biases = dict(p["biases"])
    return adjusted(row, lambda i, logit: logit + biases[i] if i in biases else logit)


def allow(row, p, run):
    return only(row, p["tokens"])


def deny(row, p, run):
    return without(row, p["tokens"])


def forced_prefix(row, p, run):
    return only(row, [p["tokens"][run.n]]) if run.n < len(p["tokens"]) else row


def min_length(row, p, run):
    return without(row, p["end_tokens"]) if run.n < p["length"] else row


def forced_end(row, p, run):
    return only(row, p["end_tokens"]) if run.n >= p["length"] - 1 else row


def temperature(row, p, run):
    return adjusted(row, lambda i, logit: logit / p["temperature"])


def top_k(row, p, run):
    return only(row, by_logit(row)[: p["k"]])


def top_p(row, p, run):
    if p["p"] == 1:
        return row
    q = Softmax(row).p
    order = by_probability(q)
    kept = until_reached(order, q, p["p"])
    if p["version"] == 1:
        return filtered(row, p, kept)
    return only(row, kept + order[: p.get("min_keep", 1)])


def min_p(row, p, run):
    w = Softmax(row).w
    return filtered(row, p, [i for i in w if w[i] >= p["p"]])


def typical(row, p, run):
    if p["version"] == 2 and p["p"] == 1:
        return row
    soft = Softmax(row)
    g, entropy = soft.g(), soft.entropy()
    d = {i: abs(-g[i] - entropy) for i in g}
    order = sorted(d, key=lambda i: (d[i], i))
    kept = until_reached(order, soft.p, p["p"])
    if p["version"] == 1:
        return filtered(row, p, kept)
    return only(row, kept + order[: p.get("min_keep", 1)])


def epsilon(row, p, run):
    q = Softmax(row).p
    return filtered(row, p, [i for i in q if q[i] >= p["cutoff"]])


def eta(row, p, run):
    soft = Softmax(row)
    cutoff = min(p["cutoff"], math.sqrt(p["cutoff"]) * exp(-soft.entropy()))
    return filtered(row, p, [i for i in soft.p if soft.p[i] >= cutoff])


def top_n_sigma(row, p, run):
    ids = allowed(row)
    mean = running_sum(row[i] for i in ids) / len(ids)
    deviation = math.sqrt(running_sum((row[i] - mean) * (row[i] - mean) for i in ids) / len(ids))
    cutoff = max(row) - p["n"] * deviation
    if not math.isfinite(cutoff):
        raise Refused("processor_overflow")
    return filtered(row, p, [i for i in ids if row[i] >= cutoff])


def xtc(row, p, run):
    if not uniform(run.seed, run.n, XTC) < p["probability"]:
        return row
    q = Softmax(row).p
    top = [i for i in q if q[i] >= p["threshold"]]
    return without(row, [i for i in top if q[i] > min(q[j] for j in top) and i not in p.get("exempt", [])])


RULES = {
    rule.__name__: rule
    for rule in [
        repetition_penalty, frequency_penalty, presence_penalty, dry, no_repeat_ngram, bad_words, logit_bias, allow, deny,
        forced_prefix, min_length, forced_end, temperature, top_k, top_p, min_p, typical, epsilon, eta, top_n_sigma, xtc,
    ]
}  # fmt: skip


def check_parameters(p):
    """The ranges of the table."""
    share, count = lambda x: 0 <= x <= 1, lambda x: x >= 1 and x == math.floor(x)
    ranges = {
        "penalty": (lambda x: x > 0) if p["name"] == "repetition_penalty" else math.isfinite,
        "multiplier": lambda x: x >= 0,
        "base": lambda x: x >= 1,
        "temperature": lambda x: x > 0,
        "n": lambda x: x > 0,
        "cutoff": lambda x: 0 < x < 1,
        **dict.fromkeys(["p", "probability", "threshold"], share),
        **dict.fromkeys(["allowed_length", "size", "k", "min_keep", "window"], count),
    }
    if not all(ranges[name](p[name]) for name in p if name in ranges):
        raise Refused("processor_parameter")


def named_tokens(p):
    """Every token id among the parameters of a processor."""
    ids = p.get("exempt", []) + p.get("tokens", []) + p.get("end_tokens", []) + [i for i, _ in p.get("biases", [])]
    return ids + [i for sequence in p.get("breakers", []) + p.get("words", []) for i in sequence]


def process(processors, row, prompt, tokens, seed):
    """The row that all processors leave, in the order of the list."""
    for p in processors:
        check_parameters(p)
    if any(i >= len(row) for p in processors for i in named_tokens(p)):
        raise Refused("processor_token")
    run = Run(prompt, tokens, seed)
    for p in processors:
        row = RULES[p["name"]](row, p, run)
        if not allowed(row):
            raise Refused("processor_all_banned")
    return row


# ---- Speculation with one draft token --------------------------------------------------------------------------------


def speculative_step(p, q, draft, u_accept, u_resample):
    """The token, and whether it is the draft."""
    if u_accept * q[draft] < p[draft]:
        return draft, True
    residual = {i: max(0.0, p[i] - q[i]) for i in range(len(p))}
    if all(r == 0 for r in residual.values()):
        residual = dict(enumerate(p))
    return walk(divided_by_sum(residual), u_resample), False


# ---- The older contract `mosaic-splitmix64-top-k-top-p-v1` -----------------------------------------------------------


def mosaic_distribution(logits, temperature, top_k, top_p):
    """As a dict from id to probability in the order of the walk: scaled logit high first, id low first."""
    scaled = [logit / temperature for logit in logits]
    candidates = by_logit(scaled)[:top_k]
    w = {i: exp(scaled[i] - scaled[candidates[0]]) for i in candidates}
    p = divided_by_sum(w)
    kept = until_reached(candidates, p, top_p)
    return divided_by_sum({i: p[i] for i in kept})


def mosaic_run(logits, temperature, top_k, top_p, seed, count):
    """`count` tokens from one row. The n-th draw is the n-th output of SplitMix64."""
    q = mosaic_distribution(logits, temperature, top_k, top_p)
    tokens = []
    for n in range(count):
        u, r, token = uniform(seed, n, TOKENS), 0.0, list(q)[-1]
        for i in q:
            r = r + q[i]
            if r > u:
                token = i
                break
        tokens.append(token)
    return tokens


def mosaic_greedy(logits):
    """The greatest logit by IEEE 754's total order, which puts −0 below 0; the lower id of equal ones."""
    return min(range(len(logits)), key=lambda i: (-logits[i], -math.copysign(1, logits[i]), i))


# ---- Frames ----------------------------------------------------------------------------------------------------------

FRAME_HEAD = "<4sBBBBQIII"  # QMLF, format, layout, dtype, 0, step, V, n, largest top-k
FRAME_FORMAT = 1
DENSE, SPARSE = 0, 1
F32, BF16, F16 = 0, 1, 2
WIDTH = {F32: 4, BF16: 2, F16: 2}
MAX_VOCABULARY = 2**24


def logit_bytes(logit, dtype):
    """The bytes of a logit, or nothing where the dtype has another number."""
    if dtype == F32:
        return struct.pack("<f", logit)
    if dtype == BF16:
        low, high = struct.pack("<f", logit)[:2], struct.pack("<f", logit)[2:]
        return high if low == b"\0\0" else None
    try:
        half = struct.pack("<e", logit)
    except OverflowError:
        return None
    return half if bits_of(struct.unpack("<e", half)[0]) == bits_of(logit) else None


def logit_from(data, dtype):
    if dtype == BF16:
        return struct.unpack("<f", b"\0\0" + data)[0]
    return struct.unpack("<f" if dtype == F32 else "<e", data)[0]


def leb128(value):
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def frame_bytes(step, vocabulary, ids, logits, largest):
    """`ids`: None in a dense frame."""
    dtype = next(dtype for dtype in (BF16, F16, F32) if all(logit_bytes(logit, dtype) for logit in logits))
    layout = DENSE if ids is None else SPARSE
    data = struct.pack(FRAME_HEAD, b"QMLF", FRAME_FORMAT, layout, dtype, 0, step, vocabulary, len(logits), largest)
    following = 0
    for i in ids or []:
        data += leb128(i - following)
        following = i + 1
    data += b"".join(logit_bytes(logit, dtype) for logit in logits)
    return data + struct.pack("<I", zlib.crc32(data))


def dense_frame(step, logits):
    check_logits(logits)
    return frame_bytes(step, len(logits), None, logits, 0)


def sparse_frame(step, logits, k):
    """The k best logits, or all that are allowed where these are k or fewer."""
    check_logits(logits)
    ids = sorted(by_logit(logits)[:k])
    return frame_bytes(step, len(logits), ids, [logits[i] for i in ids], 0 if len(allowed(logits)) <= k else k)


class Bytes:
    """The bytes of a frame that are not read yet."""

    def __init__(self, data):
        self.data = data

    def take(self, count):
        if len(self.data) < count:
            raise Refused("frame_malformed")
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def take_leb128(self):
        value = 0
        for at in range(5):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                shortest = byte > 0 or at == 0
                if not shortest or value >= 2**32:
                    break
                return value
        raise Refused("frame_malformed")


def read_frame(data):
    """The step, the row of V logits (−∞ where none is sent) and the largest top-k (0: no limit), or a refusal."""
    head = struct.calcsize(FRAME_HEAD)
    if len(data) < head + 4:
        raise Refused("frame_truncated")
    body, stored = data[:-4], struct.unpack("<I", data[-4:])[0]
    magic, version, layout, dtype, zero, step, vocabulary, count, largest = struct.unpack(FRAME_HEAD, body[:head])
    if magic != b"QMLF":
        raise Refused("frame_not_a_frame")
    if version != FRAME_FORMAT:
        raise Refused("frame_format_unknown")
    if stored != zlib.crc32(body):
        raise Refused("frame_damaged")
    if dtype not in WIDTH or zero != 0:
        raise Refused("frame_malformed")
    if vocabulary > MAX_VOCABULARY:
        raise Refused("frame_vocabulary_too_large")
    # A count that the bytes cannot hold reserves no memory.
    if count > len(body) // 2:
        raise Refused("frame_malformed")
    rest, ids = Bytes(body[head:]), range(count)
    if layout == SPARSE:
        if largest not in (0, count):
            raise Refused("frame_malformed")
        ids, following = [], 0
        for _ in range(count):
            ids.append(following + rest.take_leb128())
            following = ids[-1] + 1
            if following > vocabulary:
                raise Refused("frame_malformed")
    elif layout != DENSE or count != vocabulary or largest != 0:
        raise Refused("frame_malformed")
    if len(rest.data) != count * WIDTH[dtype]:
        raise Refused("frame_malformed")
    logits = [logit_from(rest.take(WIDTH[dtype]), dtype) for _ in range(count)]
    check_logits(logits)
    if layout == SPARSE and len(allowed(logits)) < count:
        raise Refused("frame_malformed")
    row = [-INF] * vocabulary
    for i, logit in zip(ids, logits):
        row[i] = logit
    return step, row, largest


# ---- Known answers ---------------------------------------------------------------------------------------------------


def check_known_answers():
    """What CONTRACT.md names, and test case 1 of RFC 5869."""
    logits = [ln(p) for p in (0.05, 0.5, 0.15, 0.3)]
    assert list(distribution(logits, 1.0, 0, 0.75)) == [1, 3]
    assert [sample_token(logits, 1.0, 0, 0.75, u) for u in (0.5, 0.7)] == [1, 3]
    assert uniform(42, 0, 0) == 0.7415648787718233
    assert draw(0, 0, 0) == 16294208416658607535
    assert draw(1234567, 0, 0) == 6457827717110365317
    assert draw(2**53 + 1, 0, 0) == 386430782533759031
    assert draw(2**53, 0, 0) == 14898857794701533647
    assert mosaic_run([0, 1, 2, 3], 0.8, 3, 0.9, 42, 8) == [3, 3, 3, 3, 3, 2, 3, 2]
    output = hkdf_sha256(bytes(range(13)), b"\x0b" * 22, bytes(range(0xF0, 0xFA)), 42).hex()
    assert output == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
