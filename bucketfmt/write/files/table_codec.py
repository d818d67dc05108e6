"""Which codec new parquet files have: the one that the table's files have.

I/O: opens the footer of one base file, if nothing else tells. Who reads a table may not know every
codec: the parquet of Flink's bundles for Hudi 0.14 has no zstd.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from bucketfmt.choices import Codec
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.properties.stated_codec import stated_codec

__all__ = ["DEFAULT_CODEC", "find_codec"]

DEFAULT_CODEC: Codec = "zstd"
"""Of a table that bucketfmt began: smaller than gzip, Hudi's default, and faster by far."""
_HUDIS_CODEC: Codec = "gzip"

_FILES_TRIED = 3  # of those that commits name, which a clean may have deleted


def find_codec(snapshot: Snapshot, partition_path: str) -> Codec:
    """Return the codec of a base file that takes the place of no other.

    That is what hoodie.properties states, or the codec of the newest base file of the partition,
    or of the table. Without base files it is that of Hudi's compaction if Hudi wrote to the table.

    Args:
        snapshot: The table.
        partition_path: Where the new file is to be, whose files are listed.
    """
    stated = stated_codec(snapshot.state.config)
    if stated is not None:
        return stated
    store, limits = snapshot.state.store, snapshot.state.limits
    for path in islice(_base_files(snapshot, partition_path), _FILES_TRIED):
        try:
            with store.open_arrow(path) as source:
                found = BaseFileReader(source, limits).codec
        except BucketfmtError:
            continue  # reading rows will tell what is wrong with it
        if found is not None:
            return found
    return _HUDIS_CODEC if any(commit.is_timed for commit in snapshot.commits) else DEFAULT_CODEC


def _base_files(snapshot: Snapshot, partition_path: str) -> Iterator[str]:
    slices = snapshot.slices(partition_path)
    known = [s.base_file for s in slices if s.base_file is not None]
    for file in sorted(known, key=lambda file: file.name.instant, reverse=True):
        yield file.path
    for commit in reversed(snapshot.commits):
        for _, _, path, name, *_ in commit.files:
            if isinstance(name, BaseFileName):
                yield path
                break
