"""Bytes that are nearly sound: what decoders go wrong on, where random bytes fail at once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

from bucketfmt.testing.corruptions import FORGED_VALUES

_EDITS = ("flip", "set", "cut", "remove", "insert", "repeat", "copy", "int32", "int64")


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to four edits."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        data = edited(data, draw(st.sampled_from(_EDITS)), Random(draw(st.integers(0, 2**32))))
    return data


def edited(data: bytes, edit: str, random: Random) -> bytes:
    """`data` with one change at a place that `random` chooses."""
    begin = random.randrange(len(data) + 1)
    end = min(len(data), begin + 1 + int(random.expovariate(1 / 12)))
    match edit:
        case "flip":
            changed = bytes(byte ^ 1 << random.randrange(8) for byte in data[begin : begin + 1])
            return data[:begin] + changed + data[begin + 1 :]
        case "set":
            return (
                data[:begin]
                + random.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * (end - begin)
                + data[end:]
            )
        case "cut":
            return data[:begin]
        case "remove":
            return data[:begin] + data[end:]
        case "insert":
            return data[:begin] + random.randbytes(end - begin) + data[begin:]
        case "repeat":
            return data[:end] + data[begin:end] * random.choice((1, 2, 40)) + data[end:]
        case "copy":
            at = random.randrange(len(data) + 1)
            return data[:at] + data[begin:end] + data[at + end - begin :]
    width = 4 if edit == "int32" else 8
    value = random.choice((*FORGED_VALUES, len(data), random.randrange(-5, 300)))
    field = (value % (1 << 8 * width)).to_bytes(width, "big")
    return data[:begin] + field + data[begin + width :]
