"""The damages that are tried on one file, in an order that the seed fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from bucketfmt.testing.corruptions import (
    Damage,
    duplicate,
    flip_bits,
    flip_every_bit,
    forge_fields,
    splice,
    truncate,
)

__all__ = ["DAMAGES", "damages_of"]

_CASES = 2_000  # of the kinds that have no end

DAMAGES: dict[str, Callable[[bytes, int], Iterable[Damage]]] = {
    "flip": flip_bits,
    "cut": lambda data, seed: truncate(data),
    "every-bit": lambda data, seed: flip_every_bit(data),
    "forge": lambda data, seed: forge_fields(data),
    "splice": lambda data, seed: splice(data, seed, _CASES),
    "repeat": lambda data, seed: duplicate(data, seed, _CASES),
}
"""By name: one bit of every byte flipped; every length; every bit of every byte; every place
taken for a length field; parts moved or removed; parts repeated."""


def damages_of(kind: str, data: bytes, seed: int, stride: int = 1) -> Iterator[Damage]:
    """Yield the cases of one kind for one file; every one, or one in `stride`."""
    return islice(DAMAGES[kind](data, seed), seed % stride, None, stride)
