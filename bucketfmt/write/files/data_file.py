"""How a data file is put on the store: a marker announces it, then it is there, whole.

I/O. Whoever takes an instant back, or publishes it, finds by the markers which files to delete.
Source: HoodieWriteHandle, DirectWriteMarkers, HoodiePartitionMetadata.
"""

from __future__ import annotations

import pyarrow as pa

from bucketfmt.errors import ConflictError, StorageError
from bucketfmt.format.names.layout import PARTITION_METAFILE
from bucketfmt.format.names.names import MarkerName
from bucketfmt.format.names.paths import join_path, nested_partition_error, parent_paths
from bucketfmt.format.table.properties import PartitionMetadata, encode_partition_metadata
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.snapshot.listing import is_partition
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store, has_content
from bucketfmt.timeline.locking.heartbeat import check_beating
from bucketfmt.write.files.announcer import Announcer

__all__ = ["check_apart", "put_data_file", "put_partition_metafile"]


def put_data_file(
    announcer: Announcer,
    marker: MarkerName,
    file_id: str,
    data: bytes | pa.Buffer,
    *,
    is_partition_known: bool = True,
) -> WriteStat:
    """Put a data file of a pending instant, and return what is known of the file by its bytes.

    Args:
        announcer: Of the instant.
        marker: What announces the file, and names it.
        file_id: The file group that the file belongs to.
        data: The file.
        is_partition_known: The partition has its metadata file; else it gets one first.

    Raises:
        ConflictError: the instant has ended meanwhile.
        StorageError: the store failed, or a file of that name is there.
    """
    store, requested_time = announcer.store, announcer.requested_time
    partition_path, path = marker.partition_path, marker.data_file_path
    check_beating(store, requested_time)
    announcer.announce(marker)
    if not is_partition_known:
        put_partition_metafile(store, partition_path, requested_time)
    # The name has a write token that no other attempt has: over a network a request is sent again
    # where its answer was lost, and finds its own file.
    if not store.put_if_absent(path, data) and (
        store.failures_are_final or not has_content(store, path, data)
    ):
        raise StorageError("a file of that name is there already; try again", path=path)
    try:
        check_beating(store, requested_time)
    except ConflictError:
        store.delete(path)  # it may have come when the files of the instant had been removed
        raise
    return WriteStat(
        file_id=file_id,
        path=path,
        partition_path=partition_path,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
    )


def put_partition_metafile(store: Store, partition_path: str, instant: str) -> None:
    """Put the metadata file that makes a folder a partition, unless the folder has one.

    Args:
        store: The files of the table.
        partition_path: The folder.
        instant: The requested time of the first write to it.

    Raises:
        StorageError: the store failed.
    """
    depth = partition_path.count("/") + 1 if partition_path else 0
    metadata = encode_partition_metadata(PartitionMetadata(instant, depth))
    store.put_if_absent(join_path(partition_path, PARTITION_METAFILE), metadata)


def check_apart(state: TableState, new: str) -> None:
    """Refuse a new partition that lies within another one, or has another one in its folder.

    Values of several fields have no `/`, so that all partitions are equally deep.

    Args:
        state: The table.
        new: The path of the partition, which has no metadata file yet.

    Raises:
        SchemaError: it does.
        StorageError: the store failed.
    """
    if len(state.config.partition_fields) != 1:
        return
    lister = state.lister
    for outer in parent_paths(new):
        if is_partition(lister, outer):
            raise nested_partition_error(new, outer)
    if any(entry.is_dir for entry in state.store.list(new)):
        for inner in lister.partitions:
            if inner.startswith(f"{new}/"):
                raise nested_partition_error(inner, new)
