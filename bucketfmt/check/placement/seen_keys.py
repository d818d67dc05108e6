"""What the file slices of a table have in common, for the second look after all were examined.

Pure.
"""

from __future__ import annotations

from collections import Counter

from bucketfmt.check.placement.keys import KeyTally
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["SeenKeys"]

_SLICES_KEPT = 8  # with keys of each encoding, for a second look
_SUSPICIOUS_SLICES_MAX = 1_000  # that get a second look


class SeenKeys:
    """What is kept of the tallies until all file slices were examined.

    Attributes:
        keys: The number of keys of each partition path.
        collapsed: How many keys of each partition path give no value to hash.
        named: Some slices with keys that have the name of their field in front, by path and id.
        plain: Some slices with keys that do not.
        suspicious: The tallies with misplaced keys, by partition path.
        left_out: How many more file slices have misplaced keys.
    """

    def __init__(self) -> None:
        self.keys: Counter[str] = Counter()
        self.collapsed: Counter[str] = Counter()
        self.named: dict[str, FileSlice] = {}
        self.plain: dict[str, FileSlice] = {}
        self.suspicious: dict[str, list[KeyTally]] = {}
        self.left_out = 0

    def add(self, tally: KeyTally) -> None:
        """Take over the tally of one file slice."""
        file_slice = tally.file_slice
        path = file_slice.partition_path
        self.keys[path] += tally.keys
        if tally.collapsed:
            self.collapsed[path] += tally.collapsed
        if tally.prefix is not None:
            for slices, count in (
                (self.named, tally.named),
                (self.plain, tally.keys - tally.named),
            ):
                if count and len(slices) < _SLICES_KEPT:
                    slices[f"{path}/{file_slice.file_id}"] = file_slice
        if tally.misplaced:
            if sum(map(len, self.suspicious.values())) < _SUSPICIOUS_SLICES_MAX:
                self.suspicious.setdefault(path, []).append(tally)
            else:
                self.left_out += 1
