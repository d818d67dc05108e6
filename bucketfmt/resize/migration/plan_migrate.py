"""What moving a table to a bucket index rewrites: whole partitions, some by each commit.

Pure. A migration is done for a partition once all that a reader opens there are base files that
commits of the same migration wrote. So a write by the old index, which changes a file group or
begins another one, makes its partition one of those that are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bucketfmt.format.buckets.hashing_metadata import HashingMetadata
from bucketfmt.format.buckets.migrations import format_migration
from bucketfmt.format.buckets.ring import HashingNode, initial_ring
from bucketfmt.format.keys.record_keys import KeyDialect, KeyEncoding
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import NOTHING_STORED, BucketIndex, StoredBuckets
from bucketfmt.limits import Limits
from bucketfmt.resize.growth import Duration
from bucketfmt.resize.plan_rewrite import RewriteStep
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.data_files.written_files import CommitRecord

__all__ = [
    "PARTITIONS_PER_COMMIT",
    "MigratePreview",
    "MigrateResult",
    "Migration",
    "find_migrating",
    "find_ring",
    "find_what_changes",
    "is_migrated",
    "plan_layout",
    "plan_steps",
    "preview_migration",
]

PARTITIONS_PER_COMMIT = 64


@dataclass(frozen=True, slots=True)
class Migration:
    """What a table becomes.

    Attributes:
        index: Its index.
        key_encoding: How complex keys of one field are written anew; None if keys stay.
        keeps_latest: Whether of several rows with one key the latest stays; otherwise such a table
            is refused.
    """

    index: BucketIndex
    key_encoding: KeyEncoding | None = None
    keeps_latest: bool = False

    def entry(self, record_key_fields: Sequence[str]) -> str:
        """Return what its commits say, by which they are told from those of other migrations."""
        encoding = None if self.key_encoding is None else self.key_encoding.name
        return format_migration(self.index.properties(record_key_fields), encoding)


@dataclass(frozen=True, slots=True)
class MigratePreview:
    """What `Table.migrate` would do.

    Attributes:
        index: The index that the table would have, as `parse_index` takes it.
        partitions: How many partitions would be rewritten.
        partitions_done: How many are as they should be, by an earlier migration that did not end.
        file_groups: How many file groups would be read and hidden.
        bytes: The sizes of their files together, which is about what is written too.
        commits: How many replacecommits.
        duration: How long that is expected to take.
        notes: What changes for those who use the table.
    """

    index: str
    partitions: int
    partitions_done: int
    file_groups: int
    bytes: int
    commits: int
    duration: Duration
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MigrateResult:
    """What `Table.migrate` did.

    Attributes:
        index: The index that the table has, as `parse_index` takes it.
        instants: The requested times of the replacecommits, in their order.
        partitions: How many partitions were rewritten. A partition that others wrote to meanwhile
            counts as often as it was rewritten.
        rows: How many rows were written.
        keys_renamed: How many of them have another key than before.
        rows_dropped: How many rows were left out, because a later row has the same key.
        notes: What changes for those who use the table.
    """

    index: str
    instants: tuple[str, ...]
    partitions: int
    rows: int
    keys_renamed: int
    rows_dropped: int
    notes: tuple[str, ...] = ()


def find_migrating(commits: Iterable[CommitRecord], entry: str) -> frozenset[str]:
    """Return the instants of the commits that say that they belong to a migration."""
    return frozenset(commit.requested_time for commit in commits if commit.migration == entry)


def is_migrated(slices: Iterable[FileSlice], instants: Collection[str]) -> bool:
    """Whether a migration is done for a partition.

    Args:
        slices: What a reader opens there.
        instants: The commits of the migration.
    """
    return all(
        each.base_file is not None and each.base_instant in instants and not each.log_files
        for each in slices
    )


def plan_layout(
    index: BucketIndex,
    partition_path: str,
    config: TableConfig,
    dialect: KeyDialect,
    limits: Limits,
    instant: str,
) -> BucketLayout:
    """Return the buckets that a partition gets.

    The nodes of a ring get file groups of their own for each commit, since a file group that was
    replaced stays hidden for ever.

    Raises:
        CorruptError, LimitError, UnsupportedError: as `BucketIndex.num_buckets_of`.
    """
    stored = NOTHING_STORED
    if index.has_rings:
        number = index.num_buckets_of(partition_path, limits)
        stored = StoredBuckets(ring=_ring_of(partition_path, number, instant))
    return index.unproved_layout(partition_path, config.record_key_fields, dialect, limits, stored)


def _ring_of(partition_path: str, num_buckets: int, instant: str) -> tuple[HashingNode, ...]:
    """Return equal ranges, whose file groups are named after the instant too."""
    return initial_ring(f"{instant}/{partition_path}", num_buckets)


def find_ring(
    partition_path: str, num_buckets: int, slices: Sequence[FileSlice]
) -> HashingMetadata | None:
    """Return the hashing metadata of a migrated partition; None if it has no file groups.

    Args:
        partition_path: The partition.
        num_buckets: Of the ring.
        slices: What a reader opens there.

    Raises:
        ValueError: the file groups are not those of a migration.
    """
    instants = {each.base_instant for each in slices}
    if not instants:
        return None
    nodes = _ring_of(partition_path, num_buckets, max(instants))
    known = {node.file_id for node in nodes}
    if len(instants) > 1 or any(each.file_id not in known for each in slices):
        raise ValueError(f"partition {partition_path!r} has file groups of no migration")
    return HashingMetadata(0, partition_path, INIT_INSTANT, num_buckets, 0, nodes)


def plan_steps(
    slices: Iterable[FileSlice], layouts: Mapping[str, BucketLayout]
) -> Iterator[RewriteStep]:
    """Yield a step for each partition.

    Args:
        slices: What is read of the file groups of the partitions.
        layouts: The buckets that each of the partitions gets.
    """
    of_partition: dict[str, list[FileSlice]] = {}
    for each in slices:
        of_partition.setdefault(each.partition_path, []).append(each)
    for path, own in sorted(of_partition.items()):
        layout = layouts[path]
        ordered = tuple(sorted(own, key=lambda each: each.file_id))
        yield RewriteStep(path, ordered, layout, tuple(layout.bucket_ids))


def preview_migration(
    migration: Migration,
    slices: Sequence[FileSlice],
    partitions_done: int,
    partitions_per_commit: int,
    duration: Duration,
    notes: tuple[str, ...],
) -> MigratePreview:
    """Return a migration in numbers.

    Args:
        migration: What the table becomes.
        slices: What would be read.
        partitions_done: How many partitions are as they should be.
        partitions_per_commit: As it says.
        duration: How long it takes.
        notes: What changes.
    """
    partitions = len({each.partition_path for each in slices})
    return MigratePreview(
        migration.index.text,
        partitions,
        partitions_done,
        len(slices),
        sum(each.size for each in slices),
        -(-partitions // partitions_per_commit),
        duration,
        notes,
    )


def find_what_changes(
    config: TableConfig, index_type: str | None, metadata_partitions: Collection[str]
) -> tuple[str, ...]:
    """Return what changes for those who use a table, as sentences.

    Args:
        config: The table's properties.
        index_type: As Hudi names the present index; None if nothing states it.
        metadata_partitions: The partitions of the metadata table.
    """
    notes = []
    if index_type is None:
        notes.append(
            "Nothing in the table states its present index: stop Hudi's writers, whose options "
            "have it, and start them again without an index type, or with the new one."
        )
    else:
        notes.append(
            f"Writers with hoodie.index.type={index_type} in their options have to be stopped, and "
            "started again without it."
        )
    if index_type is None or index_type.startswith("GLOBAL") or index_type == "RECORD_INDEX":
        notes.append(
            "Where keys were unique in the table, they are unique in their partition from then "
            "on: a row with another partition is another row."
        )
    if "record_index" in metadata_partitions:
        notes.append(
            "The record index of the metadata table, and secondary indexes, are dropped at the "
            "end: Hudi's bucket writers leave new keys out of them. Where bucketfmt alone writes, "
            'metadata_table.init("record_index") makes it anew.'
        )
    if config.table_type == "MERGE_ON_READ":
        notes.append("Logs are merged into base files on the way.")
    return tuple(notes)
