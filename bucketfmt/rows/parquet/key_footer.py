"""The footer entries of a base file about its record keys, by which Hudi finds keys.

Pure. Sources: HoodieBloomFilterAvroWriteSupport, BloomFilterUtils.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, LimitError, UnsupportedError
from bucketfmt.format.keys.bloom import BloomFilterBuilder, encode_bloom_filter
from bucketfmt.format.keys.hashing_kernels import string_buffers
from bucketfmt.rows.parquet.base_file import (
    BLOOM_KEY,
    BLOOM_TYPE_KEY,
    MAX_KEY,
    MIN_KEY,
    BaseFileReader,
)
from bucketfmt.rows.row_file import RowFile

__all__ = ["KEYS_EXPECTED", "KeyFooter"]

KEYS_EXPECTED = 60_000
"""The number of keys that the bloom filter of a new file is made for: 430 kB in each footer.

The default of `hoodie.index.bloom.num_entries`. Tests, whose files have few rows, set less.
"""

_ENTRIES = (BLOOM_KEY, BLOOM_TYPE_KEY, MIN_KEY, MAX_KEY)
_FIRST_DISPUTED_BYTE = 0xEE  # from U+E000 on, UTF-8 and UTF-16 order text differently


class KeyFooter:
    """The footer entries about a file's record keys: a bloom filter, least and greatest key.

    A file that keeps the keys of the file that it replaces, and adds keys, can start from the
    filter and the range of the old file and add only the new keys: both may include absent keys.
    """

    def __init__(
        self,
        bloom_filter: BloomFilterBuilder | None = None,
        key_range: tuple[str, str] | None = None,
        as_it_was: dict[str, str] | None = None,
    ) -> None:
        self._bloom_filter = bloom_filter or BloomFilterBuilder(num_entries=KEYS_EXPECTED)
        self._range = key_range
        self._as_it_was = as_it_was  # until keys are added

    @classmethod
    def resume(cls, replaced: RowFile) -> KeyFooter | None:
        """Return a KeyFooter with the keys of a file; None if the file's footer lacks the entries.

        The entries are not checked against the file's keys, which would cost as much as hashing all
        keys again.
        """
        if not isinstance(replaced, BaseFileReader):
            return None
        try:
            bloom_filter, key_range = replaced.keys.bloom_filter, replaced.keys.key_range
            if bloom_filter is None or (key_range is None and replaced.num_rows):
                return None
            entries = {key: replaced.key_values.get(key, "") for key in _ENTRIES}
            return cls(BloomFilterBuilder.resume(bloom_filter), key_range, entries)
        except (CorruptError, UnsupportedError, LimitError):
            return None

    def add(self, record_keys: pa.Array | pa.ChunkedArray) -> None:
        """Add a column of keys.

        Raises:
            ValueError: a key is null or empty.
        """
        if not len(record_keys):
            return
        self._as_it_was = None
        self._bloom_filter.add(record_keys)
        found = _java_range(record_keys)
        if found is not None:
            low, high = zip(found, self._range or found, strict=True)
            self._range = min(low, key=_utf16), max(high, key=_utf16)

    @property
    def entries(self) -> dict[str, str]:
        """The footer entries; a file without rows has no range."""
        if self._as_it_was is not None and all(self._as_it_was.values()):
            return self._as_it_was
        bloom_filter = self._bloom_filter.build()
        entries = {
            BLOOM_KEY: encode_bloom_filter(bloom_filter),
            BLOOM_TYPE_KEY: bloom_filter.filter_type.value,
        }
        if self._range is not None:
            entries[MIN_KEY], entries[MAX_KEY] = self._range
        return entries


def _java_range(keys: pa.Array | pa.ChunkedArray) -> tuple[str, str] | None:
    """Return the least and the greatest key, as Java compares text: by UTF-16 units."""
    if not len(keys):
        return None
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    if any(_greatest_byte(chunk) >= _FIRST_DISPUTED_BYTE for chunk in chunks):
        texts = keys.to_pylist()
        return min(texts, key=_utf16), max(texts, key=_utf16)
    found = pc.min_max(keys).as_py()
    return found["min"], found["max"]


def _greatest_byte(keys: pa.Array) -> int:
    data, offsets = string_buffers(keys)  # `data` may be that of a much longer array
    return int(data[offsets[0] : offsets[-1]].max(initial=0))


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")
