"""Parts of a file slice, which several tasks read side by side. Pure.

A part has some of the row groups of the base file. Each part reads the whole log, and the keys of
the row groups before its own, so that the parts together return what the slice returns.
"""

from __future__ import annotations

from typing import NamedTuple

from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["WHOLE", "SlicePart", "count_parts"]

_PARTS_WITH_LOG_MAX = 8  # each reads the log and, on average, half of the keys of the base file
_SHARE_OF_LOG = 4  # a part has at least so many times the bytes of the log


class SlicePart(NamedTuple):
    """One of several parts of a file slice.

    Attributes:
        number: From 0.
        of: The number of parts.
    """

    number: int
    of: int

    @property
    def is_last(self) -> bool:
        """Whether the part has the rows of the log that are in no row group, too."""
        return self.number == self.of - 1

    def own_groups(self, num_row_groups: int) -> range:
        """Return the numbers of the row groups of this part; there may be none."""
        return range(self._start(num_row_groups), self._next._start(num_row_groups))

    def earlier_groups(self, num_row_groups: int) -> range:
        """Return the numbers of the row groups of the parts before this part."""
        return range(self._start(num_row_groups))

    @property
    def _next(self) -> SlicePart:
        return SlicePart(self.number + 1, self.of)

    def _start(self, num_row_groups: int) -> int:
        return num_row_groups * self.number // self.of


WHOLE = SlicePart(0, 1)
"""The only part of a slice that is not divided."""


def count_parts(file_slice: FileSlice, part_bytes: int) -> int:
    """Return into how many parts of about `part_bytes` a file slice is divided.

    Only the base file is divided. A slice with log files has at most 8 parts, and parts that are at
    least four times as large as its log, because each part reads the log again.
    """
    base = file_slice.base_file.size or 0 if file_slice.base_file is not None else 0
    found = -(-base // max(part_bytes, 1))
    if file_slice.log_files:
        log = sum(file.size or 0 for file in file_slice.log_files)
        found = min(found, _PARTS_WITH_LOG_MAX, base // max(_SHARE_OF_LOG * log, 1))
    return max(found, 1)
