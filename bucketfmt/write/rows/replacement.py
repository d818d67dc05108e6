"""What an overwrite, or the drop of partitions, hides of a table, and the directories afterwards.

I/O: `find_replacement` lists partitions, and reads their directories. Source: spec EXT-15.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from bucketfmt.format.buckets.extendible_metadata import (
    EMPTY_GROUPS,
    ExtendibleMetadata,
    overwritten_extendible_metadata,
)
from bucketfmt.format.names.names import format_consistent_file_id
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import as_bucket_index
from bucketfmt.location.directory_files import load_directory
from bucketfmt.write.rows.basis import Basis

__all__ = ["Replacement", "find_replacement"]


@dataclass(frozen=True)
class Replacement:
    """What a write hides.

    Attributes:
        file_groups: Their ids, by partition path. Those of buckets without a file are among them:
            whoever begins them meanwhile is in conflict.
        extra_metadata: What the commit says of them besides.
        directories: Those that the write gives to partitions.
    """

    file_groups: dict[str, list[str]]
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[ExtendibleMetadata, ...] = ()


def find_replacement(
    basis: Basis,
    operation: WriteOperation,
    given: Collection[str],
    dropped: Collection[str],
    instant: str,
) -> Replacement:
    """Return what a write hides: nothing, unless it overwrites or drops partitions.

    Args:
        basis: What the write stands on.
        operation: What the write does.
        given: The partitions of its rows.
        dropped: The partitions that it drops.
        instant: Its requested time.

    Raises:
        CorruptError: a directory is damaged.
        LimitError: a directory is too large.
        StorageError: the store failed.
    """
    if not operation.replaces:
        return Replacement({})
    snapshot = basis.snapshot
    replaced = {*(given if operation.overwrites else ()), *dropped}
    if operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        replaced.update(snapshot.partitions)
    known = sorted(replaced & set(snapshot.partitions))
    file_groups = {path: [s.file_id for s in snapshot.slices(path)] for path in known}
    index = as_bucket_index(basis.index)
    empty: list[str] = []
    directories = []
    for path in sorted(replaced) if index is not None and index.has_directories else ():
        before = load_directory(snapshot, path)
        if before is not None:
            own = file_groups.setdefault(path, [])
            stated = [format_consistent_file_id(b.file_id_prefix) for b in before.buckets]
            empty += (without_file := sorted(set(stated) - set(own)))
            own += without_file
            after = overwritten_extendible_metadata(before, instant, is_emptied=path not in given)
            directories.append(after)
    found = {path: file_ids for path, file_ids in file_groups.items() if file_ids}
    extra = {EMPTY_GROUPS: ",".join(empty)} if empty else {}
    return Replacement(found, extra, tuple(directories))
