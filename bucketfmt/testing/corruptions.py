"""Damage to bytes as by disks, networks and hostile writers, one case at a time.

Pure. Random choices follow the seed that the caller passes, so that a failing case can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

__all__ = [
    "FORGED_VALUES",
    "Damage",
    "duplicate",
    "flip_bits",
    "flip_every_bit",
    "forge_fields",
    "splice",
    "truncate",
]

FORGED_VALUES: tuple[int, ...] = (0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
"""What a length or a count is set to, besides the size of the data and its neighbours."""


class Damage(NamedTuple):
    """Damaged bytes.

    Attributes:
        what: Description of the damage. With the original and the seed it reproduces the damage.
        offset: The first byte that differs or is missing.
        data: The damaged bytes.
    """

    what: str
    offset: int
    data: bytes


def flip_bits(data: bytes, seed: int, offsets: Iterable[int] | None = None) -> Iterator[Damage]:
    """Yield `data` with one bit of one byte flipped, for each byte (or each of `offsets`)."""
    random = Random(seed)  # noqa: S311  (chooses cases, keeps no secret)
    bits = [random.randrange(8) for _ in data]
    for offset in range(len(data)) if offsets is None else offsets:
        yield _flipped(data, offset, bits[offset])


def flip_every_bit(data: bytes) -> Iterator[Damage]:
    """Yield `data` with one bit flipped, for each bit."""
    for offset in range(len(data)):
        for bit in range(8):
            yield _flipped(data, offset, bit)


def truncate(data: bytes, sizes: Iterable[int] | None = None) -> Iterator[Damage]:
    """Yield the beginning of `data`, of each size below its own (or each of `sizes`)."""
    for size in range(len(data)) if sizes is None else sizes:
        yield Damage(f"cut to {size} bytes", size, data[:size])


def forge_fields(
    data: bytes, offsets: Iterable[int] | None = None, widths: Iterable[int] = (4, 8)
) -> Iterator[Damage]:
    """Yield `data` with a big-endian integer at each offset: `FORGED_VALUES`, size and size±1.

    Values that do not fit one of the widths are written with the greater width only.
    """
    values = dict.fromkeys((*FORGED_VALUES, len(data) - 1, len(data), len(data) + 1))
    for width in widths:
        for offset in range(len(data) - width + 1) if offsets is None else offsets:
            for value in values:
                if -1 <= value < 1 << 8 * width and offset + width <= len(data):
                    field = (value % (1 << 8 * width)).to_bytes(width, "big")
                    forged = data[:offset] + field + data[offset + width :]
                    if forged != data:
                        yield Damage(f"i{8 * width} at {offset} set to {value}", offset, forged)


def splice(data: bytes, seed: int, cases: int) -> Iterator[Damage]:
    """Yield `data` with a part of it copied over another place, or removed. Sizes change."""

    def cut(random: Random, begin: int, end: int) -> Damage:
        at = random.randrange(len(data))
        if random.random() < 0.3:
            return Damage(f"bytes {begin}..{end} removed", begin, data[:begin] + data[end:])
        spliced = data[:at] + data[begin:end] + data[at + random.randrange(end - begin + 1) :]
        return Damage(f"bytes {begin}..{end} put at {at}", at, spliced)

    return _at_random(data, seed, cases, cut)


def duplicate(data: bytes, seed: int, cases: int) -> Iterator[Damage]:
    """Yield `data` with a part of it repeated right behind itself."""

    def repeat(random: Random, begin: int, end: int) -> Damage:
        times = random.choice((1, 1, 2, 50))
        repeated = data[:end] + data[begin:end] * times + data[end:]
        return Damage(f"bytes {begin}..{end} repeated {times} times", end, repeated)

    return _at_random(data, seed, cases, repeat)


def _flipped(data: bytes, offset: int, bit: int) -> Damage:
    flipped = bytes((data[offset] ^ 1 << bit,))
    damaged = data[:offset] + flipped + data[offset + 1 :]
    return Damage(f"bit {bit} of byte {offset} flipped", offset, damaged)


def _at_random(
    data: bytes, seed: int, cases: int, damage: Callable[[Random, int, int], Damage]
) -> Iterator[Damage]:
    random = Random(seed)  # noqa: S311
    for _ in range(cases if data else 0):
        begin = random.randrange(len(data))
        end = min(len(data), begin + 1 + int(random.expovariate(1 / 16)))
        yield damage(random, begin, end)
