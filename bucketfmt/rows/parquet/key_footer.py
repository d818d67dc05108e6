"""The footer entries of a base file about its record keys, by which Hudi finds keys.

Pure. Sources: HoodieBloomFilterAvroWriteSupport, BloomFilterUtils.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, LimitError, UnsupportedError
from bucketfmt.format.keys.bloom import (
    BloomFilter,
    BloomFilterBuilder,
    HashType,
    encode_bloom_filter,
)
from bucketfmt.format.keys.hashing_kernels import string_buffers
from bucketfmt.process import new_mutex
from bucketfmt.rows.parquet.base_file import (
    BLOOM_KEY,
    BLOOM_TYPE_KEY,
    MAX_KEY,
    MIN_KEY,
    BaseFileReader,
)
from bucketfmt.rows.row_file import RowFile

__all__ = ["FILTER_KEYS_MAX", "HUDIS_RATE", "KeyFooter"]

FILTER_KEYS_MAX = 60_000
"""The most keys that a row of a bloom filter is made for: 430 kB in a footer.

The default of `hoodie.index.bloom.num_entries`, which Hudi makes every filter for. A file with
fewer keys has a filter for its keys (docs/decisions/0039).
"""

HUDIS_RATE = 1e-9
"""How many absent keys a filter takes for present ones: the default of `hoodie.index.bloom.fpp`."""

_FILTER_KEYS_MIN = 64

_turn = new_mutex()
"""Held to hash keys: thousands of calls of NumPy, each of which takes microseconds.

Two threads that make such calls at the same time wait for Python's own lock at every call, and take
hardly less time than one after the other. In turns, one encodes columns while another hashes.
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
        stored: BloomFilter | None = None,
        key_range: tuple[str, str] | None = None,
        as_it_was: dict[str, str] | None = None,
        *,
        rate: float = HUDIS_RATE,
    ) -> None:
        """Begin with the keys of a filter; without a filter, with no key.

        `rate`: of false positives of a new filter.
        """
        self._rate = rate
        self._stored = stored
        self._begun: BloomFilterBuilder | None = None
        self._waiting: list[pa.Array] = []  # keys, until it is known how large a filter they need
        self._num_waiting = 0
        self._range = key_range
        self._as_it_was = as_it_was  # until keys are added

    @classmethod
    def resume(cls, replaced: RowFile, num_keys_max: int) -> KeyFooter | None:
        """Return a KeyFooter with the keys of a file; None if the keys are to be added again.

        The entries are not checked against the file's keys, which would cost as much as hashing all
        keys again. They are not resumed where the file lacks them, or where the filter was made
        for few keys and may be too small for the keys to add.

        Args:
            replaced: The file.
            num_keys_max: How many keys may be added.
        """
        if not isinstance(replaced, BaseFileReader):
            return None
        try:
            bloom_filter, key_range = replaced.keys.bloom_filter, replaced.keys.key_range
            if bloom_filter is None or (key_range is None and replaced.num_rows):
                return None
            if bloom_filter.hash_type is not HashType.MURMUR:
                return None
            if not _has_room(bloom_filter, num_keys_max):
                return None
            entries = {key: replaced.key_values.get(key, "") for key in _ENTRIES}
            return cls(bloom_filter, key_range, entries)
        except (CorruptError, UnsupportedError, LimitError):
            return None

    def add(self, record_keys: pa.Array | pa.ChunkedArray) -> None:
        """Add a column of keys.

        Raises:
            ValueError: a key is null or empty.
        """
        if not len(record_keys):
            return
        found = None if record_keys.null_count else _java_range(record_keys)
        if found is None or not found[0]:
            raise ValueError("a record key is null or empty")
        self._as_it_was = None
        builder = self._builder
        if builder is None:
            self._keep(record_keys)
        else:
            _hash(builder, [record_keys])
        low, high = zip(found, self._range or found, strict=True)
        self._range = min(low, key=_utf16), max(high, key=_utf16)

    @property
    def _builder(self) -> BloomFilterBuilder | None:
        """What takes keys; None until there are enough keys to tell how large a filter they need.

        A stored filter is unpacked by the first use: mostly no keys are added.
        """
        if self._begun is None and self._stored is not None:
            self._begun = BloomFilterBuilder.resume(self._stored)
        return self._begun

    def _keep(self, record_keys: pa.Array | pa.ChunkedArray) -> None:
        self._num_waiting += len(record_keys)
        if self._num_waiting > FILTER_KEYS_MAX:
            self._begun = self._build(FILTER_KEYS_MAX)
            self._waiting = []
            _hash(self._begun, [record_keys])
            return
        chunked = isinstance(record_keys, pa.ChunkedArray)
        chunks = record_keys.chunks if chunked else [record_keys]
        # With an empty array, so that the keys are copied: rows of theirs are not held.
        self._waiting.append(pa.concat_arrays([*chunks, pa.array([], record_keys.type)]))

    def _build(self, num_keys: int) -> BloomFilterBuilder:
        """Return a filter for a number of keys, with the keys that wait."""
        builder = BloomFilterBuilder(num_entries=num_keys, false_positive_rate=self._rate)
        _hash(builder, self._waiting)
        return builder

    @property
    def entries(self) -> dict[str, str]:
        """The footer entries; a file without rows has no range."""
        if self._as_it_was is not None and all(self._as_it_was.values()):
            return self._as_it_was
        builder = self._builder or self._build(_filter_size(self._num_waiting))
        bloom_filter = builder.build()
        entries = {
            BLOOM_KEY: encode_bloom_filter(bloom_filter),
            BLOOM_TYPE_KEY: bloom_filter.filter_type.value,
        }
        if self._range is not None:
            entries[MIN_KEY], entries[MAX_KEY] = self._range
        return entries


def _hash(builder: BloomFilterBuilder, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
    """Add columns of keys to a filter, in this thread's turn."""
    with _turn:
        for keys in columns:
            builder.add(keys)


def _filter_size(num_keys: int) -> int:
    """Return how many keys to make a filter for: a power of two, so that some more fit."""
    size = max(_FILTER_KEYS_MIN, 1 << max(num_keys - 1, 0).bit_length())
    return min(size, FILTER_KEYS_MAX)


def _has_room(bloom_filter: BloomFilter, num_keys: int) -> bool:
    """Whether keys may be added to a filter. Those of Hudi's size grow by a row of that size."""
    size, in_last_row = bloom_filter.keys_per_row, bloom_filter.keys_in_last_row
    if size is None or in_last_row is None or size >= FILTER_KEYS_MAX:
        return True
    return in_last_row + num_keys <= size


def _java_range(keys: pa.Array | pa.ChunkedArray) -> tuple[str, str]:
    """Return the least and the greatest key, as Java compares text: by UTF-16 units."""
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
