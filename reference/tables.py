"""Derives the constants of exp, ln, the fast path and the model's elementary functions, compares them with the Rust source,
and computes their error bounds.

    make vectors    compares, before it computes the vectors
    PYTHONPATH=$(scripts/get/mpmath) python3 reference/tables.py COARSE    prints the words of a constant, as derived too

A constant of another value, or a bound above the one that a comment in the source states, is a failure that names it.

The polynomial of the coarse weights is the minimax polynomial, its coefficients written with eight digits and read as f32.
The coefficients of the fine weights cannot be derived: they come from a fit whose settings were not kept. Their error is
computed, and compared with the least that any polynomial of this degree has.
"""

import fractions
import itertools
import pathlib
import re
import struct
import sys

from mpmath import libmp, mp, mpf

from paths import EXP, FAST, LN, MODEL, NUCLEUS, ROOT, ROWS, SPLITMIX

NAME = f"reference/{pathlib.Path(__file__).name}"
mp.prec = 400
LN2 = mp.ln(2)
wrong = []
derived = {}


def report(path, what, good, detail):
    print(f"{path.relative_to(ROOT)}: {what}: {detail}{'' if good else '  WRONG'}")
    if not good:
        wrong.append(what)


# ---- Numbers ---------------------------------------------------------------------------------------------------------


def double(x):
    """x rounded to the nearest double. (x is known to 400 bits, so the rounding is right.)"""
    return float(fractions.Fraction(*libmp.to_rational(mpf(x)._mpf_)))


def single(x):
    return struct.unpack("<f", struct.pack("<f", double(x)))[0]


def bits(number):
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def from_bits(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


def to_bits_of_significand(x, count):
    """x in [1, 2), rounded to so many bits."""
    return mp.nint(mp.ldexp(x, count - 1)) / mpf(2) ** (count - 1)


def half_ulp(bound, precision=53):
    """The error of one rounding to nearest of a number below `bound` in size."""
    return mpf(2) ** (mp.ceil(mp.log(bound, 2)) - 1 - precision)


# ---- The Rust source -------------------------------------------------------------------------------------------------


def source(path):
    return path.read_text("utf-8")


def after(path, start, end=";"):
    """The text from `start`, which must stand in the file once, to the next `end`."""
    parts = source(path).split(start)
    if len(parts) != 2:
        return ""
    return parts[1].split(end, 1)[0]


def words(text):
    """The hexadecimal literals of more than eight digits."""
    return [int(word.replace("_", ""), 16) for word in re.findall(r"0x([0-9a-f_]{9,})", text)]


def decimals(text):
    """The decimal literals of an f32."""
    return [single(mpf(literal.replace("_", ""))) for literal in re.findall(r"-?\d\.\d[\d_]*(?:e-?\d+)?", text)]


def literal(path, pattern):
    """The integer in the source, which must stand there once."""
    [found] = re.findall(pattern, source(path))
    return int(found)


def constant(path, name, expected):
    """Compares all literals of a constant with these."""
    derived[name] = expected
    found = words(after(path, f"const {name}: ", ";\n"))
    same = found == expected
    detail = f"{len(found)} {'word' if len(found) == 1 else 'words'}, as derived"
    if not same:
        at = next((at for at, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
        shown = [f"{some[at]:#x}" if at < len(some) else "nothing" for some in (found, expected)]
        detail = f"word {at} is {shown[0]}, derived {shown[1]}"
    report(path, name, same, detail)


def claim(path, words, what, value):
    """The source states a bound in these words, which end with it: `2^-74`, `2^-64 + 2^-72` or `0.03`."""
    said = words in re.sub(r"\s*\n\s*//[/!]?\s*", " ", source(path))
    stated = re.search(r"(2\^-[\d.]+( \+ 2\^-[\d.]+)*|[\d.]+)\)?$", words)[1]
    bound = sum(mpf(2) ** mpf(term[2:]) if term.startswith("2^") else mpf(term) for term in stated.split(" + "))
    size = f"2^{mp.nstr(mp.log(value, 2), 6)}" if "^" in stated else mp.nstr(value, 6)
    detail = f"{size}, stated {stated}" if said else f"{size}; the source no longer says \"{words}\": bring {NAME} in line"
    report(path, what, said and value <= bound, detail)


# ---- exp -------------------------------------------------------------------------------------------------------------


def split(root, count, bits_of_head):
    """2^(i/root) for i below count, as heads of so many bits and rounded tails."""
    exact = [mpf(2) ** (mpf(i) / root) for i in range(count)]
    heads = [to_bits_of_significand(x, bits_of_head) for x in exact]
    return [(double(head), double(x - head)) for head, x in zip(heads, exact)]


def exp():
    step = LN2 / 4096
    head = to_bits_of_significand(step * 2**13, 30) / 2**13
    tail = double(step - head)
    constant(EXP, "INV_STEP", [bits(double(1 / step))])
    constant(EXP, "STEP_HEAD", [bits(double(head))])
    constant(EXP, "STEP_TAIL", [bits(tail)])
    constant(EXP, "FAST_ERROR", [bits(2.0**-63)])
    constant(EXP, "INV_LN2", [bits(double(1 / LN2))])
    constant(EXP, "LN2", [int(mp.floor(mp.ldexp(LN2, 126)))])
    constant(EXP, "LN2_NEXT", [int(mp.floor(mp.ldexp(LN2, 190))) % 2**64])
    coarse, fine = split(64, 64, 26), split(4096, 64, 27)
    constant(EXP, "COARSE", [bits(x) for pair in coarse for x in pair])
    constant(EXP, "FINE", [bits(x) for pair in fine for x in pair])

    # The fast phase, |x| < 708.
    j = mp.ceil(708 / step)
    d = mpf(2) ** -13.5
    claim(EXP, "|d| ≤ 2^-13.5", "|d|", step / 2 + j * abs(mpf(tail)) * mpf(2) ** -53)
    claim(EXP, "j·L2 (2^-74)", "d, rounding of j·L2", half_ulp(j * abs(mpf(tail))))
    claim(EXP, "subtraction (2^-67)", "d, rounding of the last subtraction", half_ulp(d))
    represented = abs(step - head - mpf(tail))
    claim(EXP, "(j·2^-96)", "d, representation of L2, for each of j", represented)
    series = [1 / mp.factorial(n) for n in range(5)]
    truncation = mp.exp(d) - mp.polyval(series[::-1], d)
    claim(EXP, "truncation 2^-74", "p, truncation of the series", truncation)
    claim(EXP, "addition 2^-67", "p, rounding of the last addition", half_ulp(mp.expm1(d)))
    # In doubles, as the source computes it.
    products = [(h1 * h2, h1 * t2 + h2 * t1 + t1 * t2) for (h1, t1), (h2, t2) in itertools.product(coarse, fine)]
    exact = itertools.product(coarse, fine)
    assert all(mpf(hi) == mpf(h1) * mpf(h2) for (hi, _), ((h1, _), (h2, _)) in zip(products, exact)), "hi is exact"
    claim(EXP, "|t| < 2^-24", "|t|", max(abs(mpf(t)) for _, t in products))
    off = max(abs(mpf(hi) + mpf(t) - mpf(2) ** (mpf(i) / 4096)) for i, (hi, t) in enumerate(products))
    claim(EXP, "error 2^-77", "t, error", off)
    claim(EXP, "sum: 2^-66", "rounding of hi·p", half_ulp(2 * mp.expm1(d)))
    # Before the last addition of p: two products and three sums of numbers near d²/2 and below.
    error_of_p = truncation + half_ulp(mp.expm1(d)) + 5 * half_ulp(d * d)
    error_of_d = half_ulp(j * abs(mpf(tail))) + half_ulp(d) + j * represented
    t = mpf(2) ** -24
    together = (
        2 * (error_of_p + error_of_d * mp.exp(d))
        + 2 * half_ulp(2 * mp.expm1(d))
        + half_ulp(t * d)
        + half_ulp(t + t * d)
        + off * (1 + d)
    )
    claim(EXP, "2^-64 + 2^-72", "fast phase", together)
    # hi + (tail ± 2^-63) rounds the sum in brackets, which is below 2^-12.
    report(EXP, "FAST_ERROR", together + half_ulp(mpf(2) ** -12) < mpf(2) ** -63, "covers the fast phase and its own rounding")

    # The accurate phase, in units of 2^-126: r errs by 2, each step by 2, and passes on less than ln 2.
    claim(EXP, "less than 0.7", "accurate phase, passed on", LN2)
    terms = literal(EXP, r"const INVERSE_FACTORIALS: \[u128; (\d+)\]")
    left_out = mp.ldexp(sum(LN2**n / mp.factorial(n) for n in range(terms, terms + 30)), 126)
    units = 2 / (1 - LN2) + 2 * 2 + left_out
    report(EXP, "accurate phase", units < 12, f"{mp.nstr(units, 4)} units of 2^-126, stated below 12")
    claim(EXP, "2^-122", "accurate phase", units * mpf(2) ** -126)


# ---- ln --------------------------------------------------------------------------------------------------------------


def ln():
    root = int(mp.floor(mp.sqrt(2) * 2**52))
    found = words(after(LN, "let half = if significand >", "{"))
    report(LN, "the significand of √2", found == [root], f"{root:#x}")
    z = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)
    claim(LN, "|z| ≤ 0.1716", "z", z)
    last = literal(LN, r"let mut i = (\d+);")
    claim(LN, "2^-137", "first term left out", z ** (2 * last + 2) / (2 * last + 3))
    claim(LN, "less than 0.03", "passed on by a step", z * z)
    claim(LN, "s·P < 2.02", "s·P", 2 * mp.atanh(z) / z)
    # In units of 2^-126, s is cut, and so is s/2 before it is multiplied.
    units = 0
    for e in (3, 4):
        # s and z at most, where z = s·2^-e; for a larger e both are smaller than for 4.
        largest_s = min(z * 2**e, mpf(2))
        largest_z = largest_s * mpf(2) ** -e
        p = mp.atanh(largest_z) / largest_z
        # dP/d(z²) = 1/3 + 2·z²/5 + …; z² is s·(s/2), cut, times 2^(1-2e), cut.
        slope = mp.diff(lambda square: mp.atanh(mp.sqrt(square)) / mp.sqrt(square), largest_z**2)
        square = (largest_s + largest_s / 2 + 1) * mpf(2) ** (1 - 2 * e) + 1
        # The last step of the scheme cuts its product only: it adds the exact 1.
        error_of_p = 1 + largest_z**2 * 2 / (1 - largest_z**2) + slope * square
        units = max(units, 2 * (largest_s / 2 * error_of_p + p + 1))
    report(LN, "s·P", units < 7 and "7 units" in source(LN), f"{mp.nstr(units, 4)} units of 2^-126, stated below 7")
    claim(LN, "2^-122", "k = 0, relative", units * mpf(2) ** -126)
    # k ≠ 0, in units of 2^-F: the cuts of k·ln 2 (of 190 bits, then of F) and of the tail, and the tail's own error.
    worst = 0
    for k in range(1, 1076):
        f = 125 - k.bit_length()
        tail = units * mpf(2) ** (-126 - 3 + 1) * mpf(2) ** f
        error = 1 + mpf(2) ** (f - 126) + 1 + tail
        assert error < 4, "stated: less than 4 units"
        worst = max(worst, error * mpf(2) ** -f / ((k - mpf(1) / 2) * LN2))
    claim(LN, "2^-121", "k ≠ 0, relative", worst)


# ---- The weights of the fast path ------------------------------------------------------------------------------------


def relative_error(coefficients, f):
    """Of a polynomial, highest degree first, as 2^f."""
    return mp.polyval(coefficients, f) * mpf(2) ** -f - 1


def extrema(coefficients, count=4001):
    """Where the relative error on [−1/2, 1/2] is greatest between two changes of sign."""
    points = [mpf(i) / (count - 1) - mpf(1) / 2 for i in range(count)]
    errors = [relative_error(coefficients, f) for f in points]
    found = []
    for _, run in itertools.groupby(range(count), key=lambda i: errors[i] > 0):
        at = max(run, key=lambda i: abs(errors[i]))
        # Closer, by the parabola through three points.
        if 0 < at < count - 1:
            left, middle, right = errors[at - 1 : at + 2]
            shift = (left - right) / (left - 2 * middle + right) / 2
            found.append(points[at] + shift / (count - 1))
        else:
            found.append(points[at])
    return found


def largest_error(coefficients):
    return max(abs(relative_error(coefficients, f)) for f in extrema(coefficients))


def minimax(degree):
    """Remez's algorithm for 2^f on [−1/2, 1/2], relative error. Coefficients, highest degree first, and the error."""
    points = [-mp.cos(mp.pi * i / (degree + 1)) / 2 for i in range(degree + 2)]
    for _ in range(8):
        system = mp.matrix(degree + 2, degree + 2)
        for row, f in enumerate(points):
            for column in range(degree + 1):
                system[row, column] = f ** (degree - column) * mpf(2) ** -f
            system[row, degree + 1] = (-1) ** row
        *coefficients, error = mp.lu_solve(system, mp.matrix([1] * (degree + 2)))
        points = extrema(coefficients)
        assert len(points) == degree + 2
    return coefficients, abs(error)


def evaluated(coefficients, precision):
    """A bound on the relative rounding error of Horner's scheme in f with |f| ≤ 1/2, for coefficients that fall."""
    half = mpf(1) / 2
    value, error = abs(coefficients[0]), mpf(0)
    for coefficient in coefficients[1:]:
        product = (value + error) * half
        value = product + abs(coefficient)
        error = error * half + half_ulp(product, precision) + half_ulp(value, precision)
    return error * mp.sqrt(2)  # 2^f is 2^-1/2 at least


def rows():
    fine = [from_bits(word) for word in words(after(ROWS, "fn power_of_2", "f64::from_bits(p.to_bits()"))]
    report(ROWS, "power_of_2, its coefficients", len(fine) == 9, f"{len(fine)} of degree 8; from a fit that was not kept")
    _, least = minimax(8)
    off = largest_error([mpf(c) for c in fine])
    claim(ROWS, "2^-40.23", "power_of_2, polynomial", off)
    detail = f"within 0.1 % of the least error, 2^{mp.nstr(mp.log(least, 2), 7)}"
    report(ROWS, "power_of_2, polynomial", off < least * 1.001, detail)
    rounding = evaluated([mpf(c) for c in fine], 53)
    claim(ROWS, "2^-51", "power_of_2, evaluation", rounding)
    claim(ROWS, "error below 2^-39.5", "power_of_2", off + rounding)

    coefficients, least = minimax(5)
    expected = [single(mpf(mp.nstr(c, 8))) for c in coefficients]
    text = after(ROWS, "fn coarse_power_of_2", "f32::from_bits(p.to_bits()").split("let mut p", 1)[-1]
    found = decimals(text)
    detail = "6, as derived" if found == expected else f"{found}, derived {expected}"
    report(ROWS, "coarse_power_of_2, its coefficients", found == expected, detail)
    off = largest_error([mpf(c) for c in found])
    claim(ROWS, "2^-23.66", "coarse_power_of_2, before its coefficients are rounded", least)
    rounding = evaluated([mpf(c) for c in found], 24)
    claim(ROWS, "error below 2^-21.5", "coarse_power_of_2", off + rounding)


def fast():
    found = words(after(FAST, "let (eta, each) = match precision", "};"))
    powers = [-40, -88, -17, -55]
    report(FAST, "Bound::new", found == [bits(2.0**power) for power in powers], f"2^{powers}")
    e53, e24 = mpf(2) ** -53, mpf(2) ** -24
    division = 90 * 4 * e53 * LN2
    claim(FAST, "below 2^-44", "fine, y", division)
    claim(FAST, "η = 2^-40", "fine, η", division + mpf(2) ** -40.23 + mpf(2) ** -51 + 7 * e53)
    division = 40 * (3 * e24 + 5 * e53) * LN2
    claim(FAST, "below 2^-17.6", "coarse, y", division)
    claim(FAST, "η = 2^-17", "coarse, η", division + mpf(2) ** -21.5 + 11 * e24)
    # log2(1 + x) − x is greatest at 1/ln 2 − 1.
    x = 1 / LN2 - 1
    claim(NUCLEUS, "less than 0.09", "floor_of_log2", mp.log(1 + x, 2) - x)
    found = words(after(SPLITMIX, "as f64 * f64::from_bits(", ")"))
    report(SPLITMIX, "uniform", found == [bits(2.0**-53)], "2^-53")


# ---- The model's elementary functions --------------------------------------------------------------------------------

# expf.c of the Cephes library, highest degree first, as its author prints them.
CEPHES = ["1.9875691500E-4", "1.3981999507E-3", "8.3334519073E-3", "4.1665795894E-2", "1.6666665459E-1", "5.0000001201E-1"]


def model():
    text = after(MODEL, "fn exp(x: f32)", "let power =")
    head = mpf(355) / 512  # of 9 bits, as in expf.c
    found = [int(word.replace("_", ""), 16) for word in re.findall(r"0x([0-9a-f_]+)", text)]
    report(MODEL, "LN2_HEAD", found == [struct.unpack("<I", struct.pack("<f", double(head)))[0]], "355/512")
    [tail] = decimals(text.split("LN2_TAIL", 1)[1].split(";", 1)[0])
    report(MODEL, "LN2_TAIL", tail == single(LN2 - head), "ln 2 − 355/512, rounded")
    found = decimals(text.split("let mut p", 1)[-1])
    cephes = [single(mpf(decimal)) for decimal in CEPHES]
    report(MODEL, "exp, its coefficients", found == cephes, f"{len(found)}, those of expf.c")
    # Errors of e^r, |r| ≤ ln 2/2. At most 127 times the tail and its rounding; the product is taken off with one rounding.
    limit, n = LN2 / 2 * (1 + mpf(2) ** -15), 127
    of_r = n * abs(LN2 - head - mpf(tail)) + half_ulp(n * abs(mpf(tail)), 24) + half_ulp(limit, 24)
    whole = [mpf(c) for c in found] + [1, 1]
    polynomial = max(abs(mp.polyval(whole, limit * i / 2000) - mp.exp(limit * i / 2000)) for i in range(-2000, 2001))
    # r², the polynomial's last sum (near 1/2), their product (below 0.08), and the sum with r.
    rounding = half_ulp(limit**2, 24) * mpf("0.6") + half_ulp(mpf("0.6"), 24) * limit**2 * 2
    rounding += half_ulp(mpf("0.08"), 24) + half_ulp(mp.expm1(limit), 24)
    before_1 = of_r * mp.exp(limit) + polynomial + rounding
    # Adding 1 rounds by half a unit. A unit is 2^-23 above 1 and 2^-24 below.
    units = mpf(1) / 2 + before_1 / mpf(2) ** -24
    report(MODEL, "exp", units < 2, f"{mp.nstr(units, 3)} units in the last place, stated 2")

    first = mp.floor(mp.ldexp(mp.pi / 2, 32)) / mpf(2) ** 32
    second = mp.floor(mp.ldexp(mp.pi / 2 - first, 66)) / mpf(2) ** 66
    parts = [first, second, mp.pi / 2 - first - second]
    found = words(after(MODEL, "const PARTS: [f64; 3] = ", "];"))
    report(MODEL, "PARTS", found == [bits(double(part)) for part in parts], "π/2 in 33 bits, 33 bits and the rest")
    left_out = (mp.pi / 4) ** 20 / mp.factorial(20)
    report(MODEL, "cos_sin", left_out < mpf(2) ** -60, f"first term left out 2^{mp.nstr(mp.log(left_out, 2), 4)}")


if __name__ == "__main__":
    exp()
    ln()
    rows()
    fast()
    model()
    for name in sys.argv[1:]:
        print(name, *(f"{word:#018x}" for word in derived[name]), sep="\n")
    if wrong:
        sys.exit(f"The source and its derivation differ: {', '.join(wrong)}")
