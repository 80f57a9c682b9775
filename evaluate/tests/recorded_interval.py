#!/usr/bin/env python3
"""Prints the interval that src/statistics.rs has recorded in a test: the same definition, and not a line of its code."""

MASK = (1 << 64) - 1
RESAMPLES = 10_000


def draw(seed, step):
    z = (seed + (step + 1) * 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


values = [(draw(7, at) >> 11) * 2.0**-53 - 0.4 for at in range(60)]
means = []
for resample in range(RESAMPLES):
    total = 0.0
    for place in range(60):
        total += values[draw(0, 60 * resample + place) * 60 >> 64]
    means.append(total / 60)
means.sort()
print(means[RESAMPLES // 40], means[RESAMPLES - 1 - RESAMPLES // 40])
