#!/usr/bin/env python3
"""Makes prompts.json out of Debian's package r-cran-janeaustenr, and needs nothing but Python:

    apt-get download r-cran-janeaustenr
    python3 evaluate/prompts.py r-cran-janeaustenr_1.0.0-1_all.deb >evaluate/prompts.json

The novels lie in R's lazy-load format: an index of (offset, length) by name, and values that are each four bytes of
length and a zlib stream, in R's XDR serialization (R Internals, "Serialization Formats").
"""

import gzip
import io
import json
import re
import struct
import sys
import tarfile
import zlib

DATA = "./usr/lib/R/site-library/janeaustenr/data/Rdata."
NOVELS = [
    ("sensesensibility", "sense", "Sense and Sensibility"),
    ("prideprejudice", "pride", "Pride and Prejudice"),
    ("mansfieldpark", "mansfield", "Mansfield Park"),
    ("emma", "emma", "Emma"),
    ("northangerabbey", "northanger", "Northanger Abbey"),
    ("persuasion", "persuasion", "Persuasion"),
]
EACH = 10
SHORTEST, LONGEST = 200, 420
RULE = (
    "From each novel the chapters at places floor((2i + 1) * chapters / 20), i = 0 to 9, counted from 0. Of a chapter, "
    "the first paragraph whose first sentence, first two or first three have 200 to 420 characters together; of "
    "these the most sentences that fit. Lines are joined and underscores (italics) left out. A sentence ends with . ! or "
    "?, perhaps a quotation mark, and a space before a capital or a quotation mark, but not after Mr. Mrs. Dr. St. Rev. "
    "Esq. Messrs. or a single capital."
)


def package(path):
    """The files of a Debian package's data archive."""
    with open(path, "rb") as file:
        archive = file.read()
    at = 8
    while at < len(archive):
        name, size = archive[at : at + 16].decode().strip(), int(archive[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return tarfile.open(fileobj=io.BytesIO(archive[at + 60 : at + 60 + size]))
        at += 60 + size + size % 2
    sys.exit(f"{path} is not a Debian package")


class Reader:
    """As much of R's serialization as these files use."""

    def __init__(self, data):
        assert data[:2] == b"X\n"
        version, self.data, self.symbols = struct.unpack(">i", data[2:6])[0], data, []
        self.at = 14
        if version == 3:
            self.at += 4 + self.integer()

    def integer(self):
        self.at += 4
        return struct.unpack(">i", self.data[self.at - 4 : self.at])[0]

    def attributes(self):
        pairs = {}
        while True:
            flags = self.integer()
            if flags & 255 == 254:
                return pairs
            assert flags & 255 == 2 and flags >> 10 & 1
            name = self.value()
            pairs[name] = self.value()

    def value(self):
        flags = self.integer()
        kind = flags & 255
        if kind == 254:
            return None
        if kind == 255:
            return self.symbols[(flags >> 8) - 1]
        if kind == 1:
            self.symbols.append(self.value())
            return self.symbols[-1]
        if kind == 9:
            size = self.integer()
            self.at += size
            return self.data[self.at - size : self.at].decode("latin-1" if flags >> 12 & 4 else "utf-8")
        if kind in (10, 13):
            values = [self.integer() for _ in range(self.integer())]
        elif kind in (16, 19):
            values = [self.value() for _ in range(self.integer())]
        else:
            sys.exit(f"R type {kind} is not known here")
        if flags >> 9 & 1:
            names = self.attributes().get("names")
            if names:
                return dict(zip(names, values))
        return values


def novels(path):
    files = package(path)
    index = Reader(gzip.decompress(files.extractfile(DATA + "rdx").read())).value()
    base = files.extractfile(DATA + "rdb").read()
    return {
        name: Reader(zlib.decompress(base[at + 4 : at + size])).value() for name, (at, size) in index["variables"].items()
    }


def chapters(lines):
    found = []
    for line in lines:
        if re.fullmatch(r"(CHAPTER|Chapter) ([IVXLC]+|\d+)", line.strip()):
            found.append([])
        elif found:
            found[-1].append(line.strip())
    return found


def paragraphs(lines):
    for block in "\n".join(lines).split("\n\n"):
        text = " ".join(block.split()).replace("_", "")
        if text:
            yield text


def sentences(text):
    """Where each of the sentences of a paragraph ends."""
    for match in re.finditer(r"[.!?][\"']?(?= [A-Z\"'])|[.!?][\"']?$", text):
        if not re.search(r"\b(Mr|Mrs|Dr|St|Rev|Esq|Messrs|[A-Z])\.$", text[: match.end()]):
            yield match.end()


def opening(chapter):
    for text in paragraphs(chapter):
        ends = [end for end in list(sentences(text))[:3] if SHORTEST <= end <= LONGEST]
        if ends:
            return text[: ends[-1]]
    sys.exit("a chapter without an opening of the length asked for")


def main():
    texts = novels(sys.argv[1])
    prompts = []
    for name, short, title in NOVELS:
        parts = chapters(texts[name])
        for i in range(EACH):
            at = (2 * i + 1) * len(parts) // (2 * EACH)
            prompts.append({"id": f"{short}-{at + 1}", "book": title, "text": opening(parts[at])})
    print(json.dumps({
        "source": "Jane Austen's six novels as in Debian's r-cran-janeaustenr 1.0.0-1 (R package janeaustenr 1.0.0, by "
        "Julia Silge; texts of Project Gutenberg)",
        "licence": "The novels are in the public domain; the package is under the MIT licence.",
        "rule": RULE + " Made by prompts.py beside this file; the number in an id counts the chapters of the whole novel.",
        "prompts": prompts,
    }, indent=1, ensure_ascii=False))


main()
