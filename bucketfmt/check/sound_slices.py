"""File slices that another process examined and found sound, so that a check opens them no more.

Pure. Only slices without any fault are told of: a slice with a fault is examined again by the
process that makes the report, which compares such slices with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from bucketfmt.check.placement.keys import KeyTally
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import CorruptError
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["SoundSlice", "decode_sound_slice", "files_of"]

_File = tuple[str, int | None]


class SoundSlice(msgspec.Struct, frozen=True, array_like=True):
    """What examining a sound file slice gave.

    Attributes:
        files: The paths and sizes of the files of the slice.
        counts: How many things of each kind were looked at.
        notes: (what, why) of what was left out, where that is no gap.
        keys: The number of keys.
        named: How many of them have the name of their field in front.
    """

    files: tuple[_File, ...]
    counts: dict[str, int]
    notes: tuple[tuple[str, str], ...]
    keys: int
    named: int

    @classmethod
    def of(
        cls, file_slice: FileSlice, events: Iterable[Event], tally: KeyTally
    ) -> SoundSlice | None:
        """Return what is told of an examined slice; None if something is wrong with it."""
        counts: Counter[str] = Counter()
        notes = []
        for event in events:
            if isinstance(event, Counted):
                counts[event.what] += event.number
            elif isinstance(event, Finding) or event.is_gap:
                return None
            else:
                notes.append((event.what, event.why))
        if tally.misplaced or tally.endless or tally.collapsed:
            return None
        files = files_of(file_slice)
        return cls(files, dict(counts), tuple(notes), tally.keys, tally.named)

    def events(self) -> Iterator[Event]:
        """Return the events of the examination."""
        yield from (Counted(what, number) for what, number in self.counts.items())
        yield from (NotChecked(what, why, is_gap=False) for what, why in self.notes)

    def encode(self) -> bytes:
        """Return the slice as few bytes."""
        return _ENCODER.encode(self)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(SoundSlice)


def decode_sound_slice(data: bytes) -> SoundSlice:
    """Return what `SoundSlice.encode` made the bytes of.

    Raises:
        CorruptError: they are not such bytes.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"not an examined file slice as it was sent: {error}") from None


def files_of(file_slice: FileSlice) -> tuple[_File, ...]:
    """Return the paths and sizes of the files of a slice."""
    return tuple((file.path, file.size) for file in file_slice.files)
