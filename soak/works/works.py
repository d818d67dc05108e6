"""What is struck: tables of every kind, and everything that is done to them.

In memory, by simulated processes: 0 made the table, 1 died in a write to it where that is
wanted, 2 does the work, 3 comes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import Store
from bucketfmt.testing.crashes import SimulatedProcess, strike
from bucketfmt.testing.faulty_store import Fault, FaultPlan
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.plan_create import plan_properties
from bucketfmt.write.services.compaction import Compactor

__all__ = [
    "KINDS",
    "NEXT",
    "SCHEMA",
    "WORKS",
    "Kind",
    "Row",
    "Work",
    "grow_old",
    "is_migrated",
    "is_ring",
    "lose_buckets",
    "make",
    "migrate",
    "newest_write",
    "read_rows",
    "rows",
    "schedule",
]

_PROPERTIES = ".hoodie/hoodie.properties"
_BACKUP = f"{_PROPERTIES}.backup"

Row = tuple[str, int, str]
Act = Callable[[bf.Table], object]

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])
_FIRST: list[Row] = [(f"k{i}", 1, "ab"[i % 2]) for i in range(8)]
NEXT: list[Row] = [("k0", 9, "a"), ("z", 9, "b")]
"""What is written by whoever comes after."""


@dataclass(frozen=True)
class Kind:
    """A kind of table, the lock of its writers, and the partitions of its metadata table."""

    version: int
    is_logged: bool
    index: bf.Index
    writer: bf.WriterConfig
    metadata: tuple[str, ...] = ()

    @property
    def keeps_file_ids(self) -> bool:
        """Whether a bucket has one file id for ever, so that nothing is overwritten."""
        return self.index.keeps_file_ids

    @property
    def is_ring(self) -> bool:
        """Whether partitions have rings."""
        return isinstance(self.index, bf.ConsistentHashingIndex)

    @property
    def is_directory(self) -> bool:
        """Whether file ids belong to a directory."""
        return isinstance(self.index, bf.ExtendibleHashingIndex)

    @property
    def has_several_groups(self) -> bool:
        """Whether a bucket may have several file groups: other processes cannot write its files."""
        return isinstance(self.index, bf.MultiGroupBucketIndex)

    def __str__(self) -> str:
        is_virtual = getattr(self.index, "virtual_logs", False)
        name = "virtual" if is_virtual else _NAMES[type(self.index)]
        suffix = "-metadata" if self.metadata else ""
        return f"{self.version}-{'mor' if self.is_logged else 'cow'}-{name}{suffix}"


_NAMES: dict[type[bf.Index], str] = {
    bf.SimpleBucketIndex: "simple",
    bf.PartitionBucketIndex: "rules",
    bf.ConsistentHashingIndex: "ring",
    bf.ExtendibleHashingIndex: "directory",
    bf.MultiGroupBucketIndex: "groups",
}
_LOCKS = {
    6: bf.WriterConfig(lock="filesystem", lock_expire_minutes=10, services=None),
    8: bf.WriterConfig(lock="process", services=None),
    9: bf.WriterConfig(lock="storage", services=None),
}
_SIMPLE, _RING = bf.SimpleBucketIndex(2), bf.ConsistentHashingIndex(2)
KINDS = [
    Kind(version, is_logged, index, _LOCKS[version])
    for version in (6, 8, 9)
    for is_logged, index in ((False, _SIMPLE), (True, _SIMPLE), (True, _RING))
]
KINDS += [Kind(9, m, bf.PartitionBucketIndex(1, "b,2"), _LOCKS[9]) for m in (False, True)]
KINDS += [Kind(9, True, bf.ConsistentHashingIndex(2, virtual_logs=True), _LOCKS[9])]
_DIRECTORY = bf.ExtendibleHashingIndex(2)
KINDS += [Kind(6, True, _DIRECTORY, _LOCKS[6]), Kind(9, False, _DIRECTORY, _LOCKS[9])]
_NEW_GROUPS = bf.MultiGroupBucketIndex(1, group_bytes=3072)  # for three rows, by an estimate
KINDS += [Kind(6, False, _NEW_GROUPS, _LOCKS[6]), Kind(8, True, _NEW_GROUPS, _LOCKS[8])]
KINDS += [Kind(9, True, bf.MultiGroupBucketIndex(1), _LOCKS[9])]  # whose file group takes keys
_METADATA = ("files", "column_stats", "record_index")
KINDS += [
    Kind(6, True, _SIMPLE, _LOCKS[6], _METADATA),
    Kind(8, True, _SIMPLE, _LOCKS[8], (*_METADATA, "partition_stats")),
    Kind(9, False, _SIMPLE, _LOCKS[9], (*_METADATA, "partition_stats", "bloom_filters")),
]


@dataclass(frozen=True)
class Work:
    """Something done to a table.

    Attributes:
        name: What it is called.
        act: Does it.
        prepare: What is done before.
        resume: What completes it, where a crash leaves it to be done again: whoever writes next
            does not.
        is_stepwise: Whoever writes next completes it, also after a typed error; before that
            readers may see the table after some of its steps.
        is_possible: Whether tables of a kind can have it done.
        dies: Before it a process died in a write, after its files were written.
        may_leave: A file that a crash may leave for good, which the check tells of.
    """

    name: str
    act: Act
    prepare: Act | None = None
    resume: Act | None = None
    is_stepwise: bool = False
    is_possible: Callable[[Kind], bool] = lambda kind: True
    dies: bool = False
    may_leave: str | None = None


def rows(*given: Row) -> pa.Table:
    """Return rows to write."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in given]
    return pa.Table.from_pylist(named, SCHEMA)


def read_rows(store: Store) -> list[Row]:
    """Return what a table holds, in order."""
    table = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())  # type: ignore[misc]


def make(kind: Kind, work: Work) -> MemoryStore:
    """Return a table as the work finds it."""
    store = MemoryStore()
    properties = plan_properties(
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=kind.index,
        table_type="MERGE_ON_READ" if kind.is_logged else "COPY_ON_WRITE",
        table_version=kind.version,
    )
    create_table(store, properties, kind.index)
    table = SimulatedProcess(store, 0, kind.writer).open()
    table.upsert(rows(*_FIRST))
    if kind.metadata:
        table.metadata_table.init(*kind.metadata)
    if kind.is_logged:
        table.upsert(rows(("k1", 1, "b")))
    if work.prepare is not None:
        work.prepare(table)
    return _after_a_death(store, kind) if work.dies else store


def _after_a_death(store: MemoryStore, kind: Kind) -> MemoryStore:
    """Return the table after a process died right before it published a write."""
    whole = SimulatedProcess(store.copy(), 1, kind.writer)
    _upsert(whole.open())
    folder = ".hoodie/timeline/" if kind.version >= 8 else ".hoodie/2"
    puts = [
        number
        for number, (verb, path) in enumerate(whole.store.operations, 1)
        if verb == "put_if_absent" and path.startswith(folder)
    ]
    plan = FaultPlan(puts[-1], Fault.KILL_BEFORE)
    aftermath = strike(store, _upsert, plan, process=1, writer=kind.writer)
    if aftermath is None:
        raise AssertionError("a process that was to die has not")
    return aftermath.store


def _upsert(t: bf.Table) -> object:
    return t.upsert(rows(("k0", 2, "a"), ("k1", 2, "b"), ("k2", 2, "a"), ("n", 2, "b")))


def _write_on(t: bf.Table) -> None:
    t.upsert(rows(("k0", 3, "a"), ("k1", 3, "b")))
    t.delete(rows(("k5", 0, "b")))


def grow_old(t: bf.Table) -> None:
    """Leave files that nobody needs, and commits to archive."""
    for v in (3, 4):
        t.upsert(rows(("k0", v, "a"), ("k1", v, "b")))
        t.compact()
    t.upsert(rows(("k0", 5, "a")))


def _fill_timeline(t: bf.Table) -> None:
    """Leave commits to archive. A metadata table that has not merged its records keeps them all."""
    grow_old(t)
    for v in range(6, 20):
        if t.archive(min_commits=1, max_commits=1, dry_run=True):
            return
        t.upsert(rows(("k0", v, "a")))
    raise AssertionError("there is nothing to archive")


def _savepoint_and_write_on(t: bf.Table) -> None:
    t.savepoint()
    _write_on(t)


def _forget_index(t: bf.Table) -> None:
    """Leave keys that prove the index, and take the index out of hoodie.properties."""
    t.upsert(rows(*((f"m{i:02}", 1, "ab"[i % 2]) for i in range(24))))
    properties = t.store.read(_PROPERTIES, DEFAULT_LIMITS.properties_bytes_max)
    stated = (b"hoodie.index.", b"hoodie.bucket.index.")
    lines = properties.splitlines(keepends=True)
    t.store.replace(_PROPERTIES, b"".join(line for line in lines if not line.startswith(stated)))


def lose_buckets(t: bf.Table) -> None:
    """Make it a table with a record index, without buckets, whose rows are in several files."""
    _delete_all(t.store, "")
    properties = plan_properties(
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=bf.RecordIndex(),
        table_type=t.config.table_type,
        table_version=t.config.table_version,
    )
    create_table(t.store, properties, bf.RecordIndex())
    writer = t._writer_config
    for act in (
        lambda made: made.metadata_table.init("record_index"),
        lambda made: made.upsert(rows(*_FIRST)),
        lambda made: made.upsert(rows(("k1", 1, "b"), ("k2", 1, "a"))),
    ):
        config = load_config(t.store, DEFAULT_LIMITS)
        act(bf.Table(t.store, config, DEFAULT_LIMITS, None, writer))


def _delete_all(store: Store, folder: str) -> None:
    for entry in list(store.list(folder)):
        if entry.is_dir:
            _delete_all(store, entry.path)
        else:
            store.delete(entry.path)


def migrate(t: bf.Table) -> object:
    """Give it buckets, a partition by each commit."""
    return t.migrate(bf.SimpleBucketIndex(3), partitions_per_commit=1)


def newest_write(t: bf.Table) -> str:
    """Return the instant of the write that was requested last."""
    newest = t.timeline.writes.completed.last
    if newest is None:
        raise ValueError("nothing was written")
    return newest.requested_time


def _newest_savepoint(t: bf.Table) -> str:
    newest = t.timeline.of("savepoint").last
    if newest is None:
        raise ValueError("there is no savepoint")
    return newest.requested_time


def _first_write(t: bf.Table) -> str:
    first = t.timeline.writes.completed.first
    if first is None:
        raise ValueError("nothing was written")
    return first.requested_time


def _failed_write(t: bf.Table) -> str | None:
    failed = t.timeline.writes.pending.first
    return None if failed is None else failed.requested_time


def _roll_back_failed(t: bf.Table) -> object:
    failed = _failed_write(t)
    return None if failed is None else t.rollback(failed)


def _delete_savepoint(t: bf.Table) -> None:
    if t.timeline.of("savepoint").instants:
        t.delete_savepoint(_newest_savepoint(t))


def _clean(t: bf.Table) -> object:
    return t.clean(retain=1, dry_run=False)


def _archive(t: bf.Table) -> object:
    return t.archive(min_commits=1, max_commits=1)


def _compact(t: bf.Table) -> object:
    return t.compact()


def schedule(t: bf.Table) -> object:
    """Plan a compaction, and leave it to others to execute."""
    return Compactor(t._snapshot, t._transactions).schedule()


def _schedule_resize(t: bf.Table) -> object:
    return t.schedule_resize(max_file_size=1, max_buckets=4)


def _schedule_resize_and_upsert(t: bf.Table) -> None:
    _schedule_resize(t)
    _upsert(t)


def _roll_back_resize(t: bf.Table) -> object:
    pending = t.timeline.pending.of("clustering", "replacecommit").first
    return None if pending is None else t.rollback(pending.requested_time)


def _roll_back_or_resize(t: bf.Table) -> object:
    """Roll a pending resize back, or execute it where a virtual log points to its file groups."""
    try:
        return _roll_back_resize(t)
    except bf.ConflictError:
        if not t.index.has_virtual_logs:  # type: ignore[union-attr]
            raise
        return _resize(t)


def _resize(t: bf.Table) -> object:
    return t.resize(max_file_size=1, max_buckets=4)


def _restore(t: bf.Table) -> object:
    return t.restore(_newest_savepoint(t))


def _savepoint_and_rehash(t: bf.Table) -> None:
    t.savepoint()
    t.rehash(4)
    t.rehash(3)


def _rebuild(t: bf.Table) -> None:
    """Make the partitions anew that the table was to have, also where a crash left none."""
    listed = [partition.name for partition in t.metadata_table.list()]
    if listed:
        t.metadata_table.rebuild(*listed)
    else:
        t.metadata_table.init("files", "column_stats", "record_index")


def _is_logged(kind: Kind) -> bool:
    return kind.is_logged


def _is_simple(kind: Kind) -> bool:
    return isinstance(kind.index, bf.SimpleBucketIndex)


def is_ring(kind: Kind) -> bool:
    """Whether buckets are ranges of a ring."""
    return isinstance(kind.index, bf.ConsistentHashingIndex)


def is_migrated(kind: Kind) -> bool:
    """Whether tables with a record index are migrated in its place."""
    return _is_simple(kind) and not kind.metadata


def _knows_rules(kind: Kind) -> bool:
    simple = bf.SimpleBucketIndex | bf.PartitionBucketIndex
    return kind.version >= 9 and isinstance(kind.index, simple)


def _may_replace(kind: Kind) -> bool:
    return not kind.keeps_file_ids


_GONE = [("k1", 0, "b"), ("k2", 0, "a"), ("x", 0, "a")]


def _merge(t: bf.Table) -> object:
    return t.resize(max_file_size=1 << 40, min_buckets=1)


WORKS = [
    Work("upsert", _upsert),
    Work("upsert over a dead write", _upsert, dies=True),
    Work("insert into a new partition", lambda t: t.insert(rows(("n", 3, "c"), ("m", 3, "c")))),
    Work(
        "bulk_insert",
        lambda t: t.bulk_insert(rows(("n", 3, "c"), ("m", 3, "d"))),
        is_possible=lambda kind: kind.index.group_bytes is None,
    ),
    Work("delete", lambda t: t.delete(rows(*_GONE))),
    Work("delete by filter", lambda t: t.delete(filter=[("id", "=", "k3")])),
    Work(
        "insert_overwrite",
        lambda t: t.insert_overwrite(rows(("n", 3, "a"))),
        is_possible=_may_replace,
    ),
    Work(
        "insert_overwrite of the table",
        lambda t: t.insert_overwrite(rows(("n", 3, "a")), table=True),
        is_possible=_may_replace,
    ),
    Work("delete_partitions", lambda t: t.delete_partitions(["b"]), is_possible=_may_replace),
    Work("schedule a compaction", schedule, resume=_compact, is_possible=_is_logged),
    Work("compact", _compact, prepare=schedule, resume=_compact, is_possible=_is_logged),
    Work("clean", _clean, prepare=grow_old, resume=_clean),
    Work("archive", _archive, prepare=_fill_timeline, resume=_archive),
    Work("roll back", lambda t: t.rollback(newest_write(t)), prepare=_write_on, is_stepwise=True),
    Work("roll back a dead write", _roll_back_failed, dies=True),
    Work(
        "savepoint",
        lambda t: t.savepoint(_first_write(t)),
        resume=lambda t: t.savepoint(_first_write(t)),
    ),
    Work(
        "delete_savepoint",
        _delete_savepoint,
        prepare=_savepoint_and_write_on,
        resume=_delete_savepoint,
    ),
    Work(
        "restore",
        _restore,
        prepare=_savepoint_and_write_on,
        is_stepwise=True,
        may_leave=_BACKUP,  # the metadata table is dropped
    ),
    Work(
        "upsert that records the index",
        _upsert,
        prepare=_forget_index,
        is_possible=_is_simple,  # index files state others
        may_leave=_BACKUP,
    ),
    Work("rehash", lambda t: t.rehash(3), is_possible=_is_simple, may_leave=_BACKUP),
    Work(
        "roll back a rehash",
        lambda t: t.rollback(newest_write(t)),
        prepare=lambda t: t.rehash(4),
        is_stepwise=True,
        is_possible=_is_simple,
        may_leave=_BACKUP,
    ),
    Work(
        "restore to before two rehashes",
        _restore,
        prepare=_savepoint_and_rehash,
        is_stepwise=True,
        is_possible=_is_simple,
        may_leave=_BACKUP,
    ),
    Work("resize directories", _resize, is_possible=lambda kind: kind.is_directory),
    Work("merge directories", _merge, prepare=_resize, is_possible=lambda kind: kind.is_directory),
    Work(
        "roll back a resize of directories",
        lambda t: t.rollback(newest_write(t)),
        prepare=_resize,
        is_stepwise=True,
        is_possible=lambda kind: kind.is_directory,
    ),
    Work("schedule a resize", _schedule_resize, resume=_resize, is_possible=is_ring),
    Work("resize", _resize, prepare=_schedule_resize, resume=_resize, is_possible=is_ring),
    Work(
        "upsert during a resize",
        _upsert,
        prepare=_schedule_resize,
        resume=_resize,
        is_possible=is_ring,
    ),
    Work(
        "delete during a resize",
        lambda t: t.delete(rows(*_GONE)),
        prepare=_schedule_resize,
        resume=_resize,
        is_possible=is_ring,
    ),
    Work(
        "roll back a write during a resize",
        lambda t: t.rollback(newest_write(t)),
        prepare=_schedule_resize_and_upsert,
        resume=_resize,
        is_stepwise=True,
        is_possible=is_ring,
    ),
    Work(
        "resize what others wrote for",
        _resize,
        prepare=_schedule_resize_and_upsert,
        resume=_resize,
        is_possible=is_ring,
    ),
    Work("rescale", lambda t: t.rescale("a,3;b,1"), is_possible=_knows_rules),
    Work(
        "roll back a rescale",
        lambda t: t.rollback(newest_write(t)),
        prepare=lambda t: t.rescale("a,3"),
        is_stepwise=True,
        is_possible=_knows_rules,
    ),
    Work(
        "roll back a resize",
        lambda t: t.rollback(newest_write(t)),
        prepare=_resize,
        is_stepwise=True,
        is_possible=is_ring,
    ),
    Work(
        "migrate",
        migrate,
        prepare=lose_buckets,
        resume=migrate,
        is_possible=is_migrated,
        may_leave=_BACKUP,
    ),
    Work(
        "roll back a pending resize",
        _roll_back_resize,
        prepare=_schedule_resize,
        resume=_roll_back_or_resize,
        is_possible=is_ring,
    ),
    Work(
        "rebuild the metadata table",
        _rebuild,
        resume=_rebuild,
        is_possible=lambda kind: bool(kind.metadata),
    ),
]
"""Every write, and every service."""
