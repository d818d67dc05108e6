"""The bloom filter of a base file, for the metadata table.

I/O, read only. Source: BaseFileUtils.readBloomFilterFromMetadata.
"""

from __future__ import annotations

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.keys.bloom import encode_bloom_filter
from bucketfmt.format.metadata.metadata_records import BloomFilterEntry
from bucketfmt.limits import Limits
from bucketfmt.rows.row_file import open_row_file
from bucketfmt.storage.store import Store

__all__ = ["read_bloom_filter"]


def read_bloom_filter(
    store: Store, path: str, instant: str, limits: Limits
) -> BloomFilterEntry | None:
    """Return the bloom filter in the footer of a base file; None if it has none.

    Raises:
        CorruptError: the file is damaged.
        StorageError: the store failed.
    """
    try:
        with store.open_arrow(path) as source:
            reader = open_row_file(source, path.rpartition(".")[2], limits)
            bloom_filter = reader.keys.bloom_filter
    except BucketfmtError as error:
        raise error.within(path=path) from None
    if bloom_filter is None:
        return None
    kind, text = bloom_filter.filter_type.value, encode_bloom_filter(bloom_filter)
    return BloomFilterEntry(kind, instant, text.encode(), False)
