"""Writes derive_seed.json beside itself, with Python's hmac and hashlib only: nothing is shared with the crate.

python3 tests/vectors/derive_seed.py

HKDF-SHA256 as RFC 5869 writes it, over the bytes CONTRACT.md lists. It checks itself against test case 1 of the RFC
before it writes anything.
"""
import hashlib
import hmac
import json
import pathlib
import struct


def hkdf(salt, secret, info, length):
    key = hmac.new(salt, secret, hashlib.sha256).digest()
    out, block = b"", b""
    for number in range(1, -(-length // 32) + 1):
        block = hmac.new(key, block + info + bytes([number]), hashlib.sha256).digest()
        out += block
    return key, out[:length]


published = hkdf(bytes(range(13)), b"\x0b" * 22, bytes(range(0xF0, 0xFA)), 42)
assert published[0].hex() == "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5"
assert published[1].hex() == (
    "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
)


def derive_seed(root, label, attempt):
    label = label.encode("utf-8")
    assert 1 <= len(label) <= 255
    info = struct.pack("<I", len(label)) + label + struct.pack("<IQ", 8, attempt)
    _, seed = hkdf(b"quillmate derive_seed v1", struct.pack("<Q", root), info, 8)
    return info, int.from_bytes(seed, "little")


LAST = 2**64 - 1
cases = [
    ("a draft model's seed", 42, "draft-model", 0),
    ("the first repair", 42, "repair-attempt-1", 0),
    ("another root", 43, "draft-model", 0),
    ("another attempt", 42, "draft-model", 1),
    ("the first candidate", 42, "candidate", 1),
    ("the second candidate", 42, "candidate", 2),
    ("a root of nothing", 0, "draft-model", 0),
    ("the last root and the last attempt", LAST, "draft-model", LAST),
    ("a root JavaScript would round", 2**53 + 1, "draft-model", 2**53 + 1),
    ("a label of one byte", 42, "a", 0),
    ("a label that ends as another's length would begin", 42, "a\0", 0),
    ("a label with the attempt in it is not that attempt", 42, "candidate\1", 0),
    ("a label beyond ASCII", 42, "brouillon-été-日本-🪶", 3),
    ("the same letter composed otherwise is another label", 42, "brouillon-e\u0301te\u0301-日本-🪶", 3),
    ("capitals are another label", 42, "Draft-Model", 0),
    ("the longest label", 42, "x" * 255, 0),
    ("the longest label, the last of it two bytes", 42, "x" * 253 + "é", 0),
    ("a label longer than a block of the hash", 42, "y" * 64, 7),
]
vectors = {
    "about": "derive_seed(root, label, attempt), made by derive_seed.py with Python's hmac and hashlib alone. root, attempt "
    "and seed are decimal text; info is what HKDF is given, in hex.",
    "derive_seed": [],
}
for name, root, label, attempt in cases:
    info, seed = derive_seed(root, label, attempt)
    vectors["derive_seed"].append(
        {
            "name": name,
            "root": str(root),
            "label": label,
            "attempt": str(attempt),
            "info": info.hex(),
            "seed": str(seed),
        }
    )
assert len({case["seed"] for case in vectors["derive_seed"]}) == len(cases)
path = pathlib.Path(__file__).with_name("derive_seed.json")
path.write_text(json.dumps(vectors, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
