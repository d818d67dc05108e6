"""The frames of an Avro data block: i32 version, i32 count, then per record i32 length + bytes.

Each length tells where the next one is, a chain that can only be followed in order. A long chain is
entered in many places at once, at bytes that look like a length, and the pieces are followed side
by side. If every piece ends exactly at the beginning of the next piece, the pieces are the chain.
Otherwise the chain is followed step by step. Source: Hudi `HoodieAvroDataBlock`. Pure: no I/O.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.limits import Limits

__all__ = ["find_frames"]

_Positions = npt.NDArray[np.int64]

_HEADER_BYTES = 8
_VERSIONS = range(1, 4)  # 3 is written since 0.5; 1 and 2 have the same layout
_RECORDS_PER_LANE = 256
_LANES_MAX = 2048
_ALONE_MAX = 4096  # records up to which one chain is followed alone
_ENTRY_HOPS = 12  # lengths that must follow one another for an entry to be believed
_ENTRY_LENGTH_RATIO = 32  # longer than this many mean records is taken for a wrong place


def find_frames(data: npt.NDArray[np.uint8], limits: Limits) -> _Positions:
    """Return the offset of each record's length, and last the size of `data`.

    Record i is `data[frames[i] + 4 : frames[i + 1]]`; `data` is the content of one data block.

    Raises:
        CorruptError: lengths or the count disagree with the size of the content.
        UnsupportedError: the block version is not 1 to 3.
        LimitError: the block has more records than `limits` allow.
    """
    header = Cursor(data.data, limits=limits)
    version = header.i32("data block version")
    if version not in _VERSIONS:
        raise UnsupportedError(f"data block version {version}; 1 to 3 are known", offset=0)
    count = header.count(header.i32("record count"), 4, "records")
    limits.check("records_per_block_max", count)
    frames = _follow_lanes(data, count) if count > _ALONE_MAX else None
    return _follow_alone(data, count) if frames is None else frames


def _follow_alone(data: npt.NDArray[np.uint8], count: int) -> _Positions:
    """Return the frames, found one after the other."""
    view, unpack = data.data, struct.Struct(">i").unpack_from
    position, size, frames = _HEADER_BYTES, len(data), [_HEADER_BYTES]
    for index in range(count):
        length = unpack(view, position)[0] if position <= size - 4 else -1
        position += 4 + length
        if length < 0 or position > size:
            raise CorruptError(
                f"record {index} of {count} has a length that leads out of the block",
                offset=frames[-1],
            )
        frames.append(position)
    if position != size:
        raise CorruptError(f"{size - position} bytes follow the last record", offset=position)
    return np.array(frames, np.int64)


def _follow_lanes(data: npt.NDArray[np.uint8], count: int) -> _Positions | None:
    """Return the frames, or None if the pieces did not meet."""
    size, lengths = len(data), _lengths(data)
    entries = _find_entries(data, lengths, count)
    goals = np.append(entries[1:], size)
    steps = [entries]
    for _ in range(4 * count // len(entries) + 16):
        position = steps[-1]
        running = position < goals
        if not running.any():
            break
        length = lengths[np.minimum(position, len(lengths) - 1)].astype(np.int64)
        position = np.where(running, position + 4 + length, position)
        if (position > goals).any():
            return None
        steps.append(position)
    lanes = np.stack(steps, axis=1)
    frames = np.append(lanes[lanes < goals[:, np.newaxis]], size)
    return frames if len(frames) == count + 1 else None


def _find_entries(
    data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.uint32], count: int
) -> _Positions:
    """Return positions, ascending, where a record's length seems to begin; the first is sure.

    Every zero byte in a window is tried as the first byte of a length. Chains from wrong places end
    or join the true chain within a few steps, or crawl through zeros; so the position of the chain
    that got furthest is taken.
    """
    body = len(data) - _HEADER_BYTES
    lanes = min(count // _RECORDS_PER_LANE, _LANES_MAX)
    spread, mean = body // lanes, body // count
    window = min(2 * mean + 64, spread)
    grid = data[_HEADER_BYTES : _HEADER_BYTES + lanes * spread].reshape(lanes, spread)
    zeros = np.flatnonzero(grid[1:, :window] == 0)
    lane, inside = np.divmod(zeros, window)
    position = _HEADER_BYTES + (lane + 1) * spread + inside
    for _ in range(_ENTRY_HOPS):
        alive = position < len(lengths)
        lane, position = lane[alive], position[alive]
        length = lengths[position].astype(np.int64)
        alive = length < _ENTRY_LENGTH_RATIO * mean
        lane, position = lane[alive], (position + 4 + length)[alive]
    _, first = np.unique(lane, return_index=True)
    furthest = np.maximum.reduceat(position, first) if len(first) else position
    return np.unique(np.append(_HEADER_BYTES, furthest[furthest < len(data)]))


def _lengths(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return a view of the length that would begin at each byte; a negative length is huge."""
    lengths: npt.NDArray[np.uint32] = np.ndarray(len(data) - 3, ">u4", data, 0, (1,))
    return lengths
