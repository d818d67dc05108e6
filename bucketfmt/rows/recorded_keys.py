"""Entries of a base file about its record keys, by which readers leave row groups unread.

Pure. Source: BloomIndexFileInfo, HoodieKeyLookupHandle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.bloom import BloomFilter
from bucketfmt.process import cached_property
from bucketfmt.rows.row_ranges import ColumnRange

__all__ = ["RecordedKeys", "find_groups_of_keys"]

# Java compares keys by UTF-16 units, Spark by UTF-8 bytes; below this character they agree.
_FIRST_DISPUTED_CHARACTER = "\ue000"
_KEYS_COMPARED_MAX = 16  # in Python: a call of Arrow costs as much, and lets other threads in


class RecordedKeys:
    """The range of a file's record keys, and a bloom filter over the keys.

    Attributes:
        key_range: The least and the greatest key; None if the file does not record them.
    """

    def __init__(
        self,
        key_range: tuple[str, str] | None,
        load_bloom_filter: Callable[[], BloomFilter | None],
    ) -> None:
        """Keep what is recorded.

        Args:
            key_range: As the attribute.
            load_bloom_filter: Decodes the bloom filter; called once, when it is first needed.
        """
        self.key_range = key_range
        self._load_bloom_filter = load_bloom_filter

    @cached_property
    def bloom_filter(self) -> BloomFilter | None:
        """The bloom filter over the record keys; None if the file has no bloom filter.

        Raises:
            CorruptError: the filter does not decode.
        """
        return self._load_bloom_filter()

    def may_hold(self, record_keys: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each record key whether the file may hold it; False is certain.

        Uses the recorded key range and the bloom filter, as Hudi's bloom index does.

        Raises:
            CorruptError: the bloom filter does not decode.
        """
        possible = np.ones(len(record_keys), np.bool_)
        if self.key_range is not None:
            low, high = self.key_range
            if max(low, default="") < _FIRST_DISPUTED_CHARACTER:
                possible &= _truth(pc.greater_equal(record_keys, low))
            if max(high, default="") < _FIRST_DISPUTED_CHARACTER:
                possible &= _truth(pc.less_equal(record_keys, high))
        if possible.any() and self.bloom_filter is not None:
            candidates = record_keys.filter(pa.array(possible))
            possible[possible] = self.bloom_filter.might_contain_many(candidates)
        return possible

    def check_range(self, groups: Sequence[ColumnRange | None]) -> None:
        """Check that the recorded range equals the range of the statistics of the key column.

        Args:
            groups: The key column's statistics in each row group.

        Raises:
            CorruptError: the ranges differ, so one of the two is damaged.
        """
        lows = [group.low for group in groups if group is not None and isinstance(group.low, str)]
        highs = [
            group.high for group in groups if group is not None and isinstance(group.high, str)
        ]
        if self.key_range is None or not len(groups) == len(lows) == len(highs) > 0:
            return
        low, high = self.key_range
        # Where the two orders pick different keys, they part at such a character.
        if max(f"{low}{high}{min(lows)}{max(highs)}", default="") >= _FIRST_DISPUTED_CHARACTER:
            return
        # Statistics may be cut short: then they are prefixes.
        if not (low.startswith(min(lows)) and high.startswith(max(highs))):
            raise CorruptError(
                f"parquet footer: keys {low!r} to {high!r}, and {min(lows)!r} to {max(highs)!r} "
                "by the statistics of the key column; restore the file"
            )


def find_groups_of_keys(groups: Sequence[ColumnRange | None], record_keys: pa.Array) -> list[int]:
    """Return the numbers of the row groups that may hold any of the keys.

    Args:
        groups: The key column's statistics in each row group; None where there are none.
        record_keys: The keys looked for.
    """
    if not len(record_keys):
        return []
    keys = record_keys if len(record_keys) > _KEYS_COMPARED_MAX else record_keys.to_pylist()
    return [number for number, group in enumerate(groups) if _may_hold_any(group, keys)]


def _may_hold_any(keys: ColumnRange | None, candidates: pa.Array | list[str]) -> bool:
    if keys is None or not isinstance(keys.low, str) or not isinstance(keys.high, str):
        return True
    # The greatest may have been cut short by the writer: then it is a prefix.
    low, high = keys.low, keys.high
    if isinstance(candidates, list):  # Python orders text as its UTF-8
        return any(low <= key and (key <= high or key.startswith(high)) for key in candidates)
    below = pc.or_(pc.less_equal(candidates, high), pc.starts_with(candidates, high))
    return bool(pc.any(pc.and_(pc.greater_equal(candidates, low), below)).as_py())


def _truth(answer: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A boolean array as numpy, null as False."""
    truth: np.ndarray[Any, np.dtype[np.bool_]] = answer.fill_null(False).to_numpy(
        zero_copy_only=False
    )
    return truth
