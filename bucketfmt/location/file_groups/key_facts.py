"""Which keys base files may hold, by their footers: key ranges and bloom filters.

A base file never changes, so its facts are kept for as long as a table is open, within a bound on
memory. I/O: opens base files. Source: HoodieKeyLookupHandle, BloomIndexFileInfo.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.bloom import BloomFilter
from bucketfmt.limits import Limits
from bucketfmt.process import new_mutex
from bucketfmt.rows.recorded_keys import RecordedKeys
from bucketfmt.rows.row_file import RowFile
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.storage.store import Store

__all__ = ["KeyFacts", "KeyFactsCache", "base_file_of"]

_BYTES_MAX = 128 << 20  # of bloom filters, each of which has about 200 kB


class KeyFacts(NamedTuple):
    """What one base file says of its keys.

    Attributes:
        keys: The range and the bloom filter.
        num_rows: How many rows it has.
        data_bytes: What these take in the file, compressed.
    """

    keys: RecordedKeys
    num_rows: int
    data_bytes: int


class KeyFactsCache:
    """The facts of base files of one table. Safe to use from several threads."""

    def __init__(self, bytes_max: int = _BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._mutex = new_mutex()
        self._kept: OrderedDict[str, tuple[KeyFacts, int]] = OrderedDict()

    def find(self, file: DataFile) -> KeyFacts | None:
        """Return the facts of a file; None if they are not kept."""
        with self._mutex:
            found = self._kept.get(file.path)
            if found is None:
                return None
            self._kept.move_to_end(file.path)
            return found[0]

    def keep(self, file: DataFile, opened: RowFile) -> KeyFacts:
        """Return the facts of an open file, and keep them.

        Raises:
            CorruptError: the bloom filter does not decode.
            LimitError: it is too large.
        """
        bloom_filter = opened.keys.bloom_filter
        # Not `opened.keys`, which holds the text of the footer.
        keys = RecordedKeys(opened.keys.key_range, lambda: bloom_filter)
        data_bytes = sum(stored for stored, _ in opened.column_sizes().values())
        facts, size = KeyFacts(keys, opened.num_rows, data_bytes), _size_of(file, bloom_filter)
        with self._mutex:
            if file.path not in self._kept:
                self._kept[file.path] = facts, size
                self._bytes += size
            while self._bytes > self._bytes_max and len(self._kept) > 1:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed
        return facts

    def load(self, store: Store, file: DataFile, limits: Limits) -> KeyFacts:
        """Return the facts of a file, which is opened if they are not kept.

        Raises:
            CorruptError: the file is missing or damaged.
            LimitError, UnsupportedError: as `open_base_file`.
        """
        found = self.find(file)
        if found is not None:
            return found
        with open_base_file(store, file, limits) as opened:
            return self.keep(file, opened)


def base_file_of(file_slice: FileSlice) -> DataFile:
    """Return the base file, which tells the keys of a slice where buckets have several file groups.

    Raises:
        CorruptError: the slice has none.
    """
    if file_slice.base_file is None:
        raise CorruptError(
            f"file group {file_slice.file_id} has no base file, which would tell the keys that it "
            "has; another writer than bucketfmt has begun it: compact the table, then run check()",
            partition=file_slice.partition_path,
        )
    return file_slice.base_file


def _size_of(file: DataFile, bloom_filter: BloomFilter | None) -> int:
    rows = () if bloom_filter is None else bloom_filter.rows
    return 500 + len(file.path) + sum(map(len, rows))
