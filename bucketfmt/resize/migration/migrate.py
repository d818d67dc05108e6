"""Migration: a table with another index, or without one, becomes a table with a bucket index.

I/O. Each replacecommit moves the rows of some partitions to buckets. The table has its old index
until all partitions are moved and nobody is writing: then, under the table lock, hoodie.properties
state the new index, and its rings or rules are put. Decision 26.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from bucketfmt.choices import Codec
from bucketfmt.errors import ConflictError, IndexUnknownError, OvertakenError, UnsupportedError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.migrations import MIGRATION, Migrated
from bucketfmt.format.buckets.rehashes import REHASH
from bucketfmt.format.keys.record_keys import KeyEncoding, dialect_for_table_version
from bucketfmt.format.metadata.metadata_keys import is_secondary_index
from bucketfmt.format.table.table_config import KeyGenerator, TableConfig
from bucketfmt.index.resolve import check_hash_fields, find_stray_file_group
from bucketfmt.location.hashing_files import replace_ring
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.location.rule_files import RuleFiles, put_rules
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.bucket_service import BucketService
from bucketfmt.resize.execution import Execute
from bucketfmt.resize.growth import estimate_duration
from bucketfmt.resize.migration.plan_migrate import (
    MigratePreview,
    MigrateResult,
    Migration,
    find_migrating,
    find_ring,
    find_what_changes,
    is_migrated,
    plan_layout,
    plan_steps,
    preview_migration,
)
from bucketfmt.resize.migration.settle_keys import KeySettling
from bucketfmt.resize.numbered.rehash import slices_to_divide
from bucketfmt.resize.plan_rewrite import check_new_number, rescale_operation
from bucketfmt.resize.rewrite import (
    RewritePlan,
    check_nothing_pending,
)
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.metadata.initialise import drop_partitions, forget_definitions
from bucketfmt.write.rows.basis import Basis

__all__ = ["Migrator"]

_ROUNDS_MAX = 8
"""How often partitions that others write to meanwhile are moved again, before it gives up."""


class Migrator(BucketService):
    """Moves one table to a bucket index."""

    def preview(self, migration: Migration, partitions_per_commit: int) -> MigratePreview:
        """Return what `run` would do now. Reads only; raises the errors of its planning."""

        def plan(snapshot: Snapshot) -> MigratePreview:
            self._check(snapshot, migration)
            left = self._find_left(snapshot, migration)
            slices = slices_to_divide(snapshot, left)
            size = sum(each.size for each in slices)
            return preview_migration(
                migration,
                slices,
                len(snapshot.partitions) - len(left),
                partitions_per_commit,
                estimate_duration(size, snapshot.commits),
                self._notes(snapshot.state.config, migration),
            )

        return on_newest(self._snapshot, plan)

    def run(
        self,
        migration: Migration,
        partitions_per_commit: int,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
        execute: Execute | None = None,
    ) -> MigrateResult | None:
        """Move the partitions that are left, and record the index; None if there is nothing to do.

        The steps of a replacecommit are executed by `execute`, or on the threads of this process.

        Raises:
            UnsupportedError: the table has other buckets already, or is of a kind that is not
                written; or keys have several rows, or several encodings.
            ConflictError: a compaction or a clustering is pending; others write faster than
                partitions can be moved, or are writing when the index is to be recorded. What was
                moved stays moved: a later call goes on.
            LockTimeoutError: the table lock could not be acquired.
        """

        def check(snapshot: Snapshot) -> tuple[str, ...]:
            self._check(snapshot, migration)
            return self._notes(snapshot.state.config, migration)

        def find_left(snapshot: Snapshot) -> tuple[Snapshot, tuple[str, ...]]:
            return snapshot, self._find_left(snapshot, migration)

        # A table that is refused waits for nothing.
        on_newest(self._snapshot, lambda newest: self._check_kind(newest, migration))
        self._await_compactions()
        notes, (snapshot, left) = on_newest(self._snapshot, lambda s: (check(s), find_left(s)))
        done: list[CommitResult] = []
        partitions, has_recorded = 0, False
        for _ in range(_ROUNDS_MAX):
            for paths in _batches(left, partitions_per_commit):
                try:
                    commit = self._move(migration, paths, codec, progress, execute)
                except OvertakenError:
                    continue  # in the next round
                done += [] if commit is None else [commit]
                partitions += len(paths)
            if left:
                snapshot, left = on_newest(self._snapshot, find_left)
            if not left:
                has_rings_to_put = bool(done) and migration.index.has_rings
                if self._is_ended(snapshot, migration) and not has_rings_to_put:
                    break
                has_recorded = self._record(snapshot, migration)
                if has_recorded:
                    break
                snapshot, left = on_newest(self._snapshot, find_left)
        else:
            raise ConflictError(
                "others write to the table faster than its partitions can be moved; stop them, "
                "and migrate again: partitions that are moved are not moved again"
            )
        if not done and not has_recorded:
            return None
        return MigrateResult(
            migration.index.text,
            tuple(commit.instant for commit in done),
            partitions,
            sum(commit.rows_inserted + commit.rows_updated for commit in done),
            sum(commit.rows_updated for commit in done),
            sum(commit.rows_deleted for commit in done),
            notes,
        )

    # -- decisions

    def _check(self, snapshot: Snapshot, migration: Migration) -> None:
        """Refuse what cannot be migrated now, before anything is written.

        Raises:
            ConflictError: a compaction or a clustering is pending.
            BucketfmtError: as `_check_kind`.
        """
        self._check_kind(snapshot, migration)
        check_nothing_pending(snapshot.state)

    def _check_kind(self, snapshot: Snapshot, migration: Migration) -> None:
        """Refuse a table that cannot be migrated, whatever is pending.

        Raises:
            ValueError: the index is not for such a table.
            UnsupportedError: the table has other buckets already, or no record key.
        """
        state, index = snapshot.state, migration.index
        config = state.config
        if not config.record_key_fields:
            raise UnsupportedError(
                "a bucket index for a table whose record keys Hudi generates: there is no column "
                "to hash. Write the rows to a new table with a record key"
            )
        check_hash_fields(index, config.record_key_fields)
        if index.has_rings and config.table_type != "MERGE_ON_READ":
            raise ValueError(
                "index: consistent hashing is for merge-on-read tables, and this table is "
                "copy-on-write"
            )
        index.check_creatable(config.table_type, config.table_version)
        if index.has_directories or index.group_bytes is not None:
            raise ValueError(f"{index} is for new tables; give another index")
        if migration.key_encoding is not None:
            _check_key_encoding(config, migration)
        for path in snapshot.partitions:
            check_new_number(path, index.num_buckets_of(path, state.limits))
        Basis(snapshot, self._finder, index=index)
        self._find_encoding(snapshot, migration)
        try:
            present = self._finder.resolve(snapshot).bucket_index
        except IndexUnknownError:  # hoodie.properties contradict themselves
            present = None
        is_alike = type(present) is type(index)  # not rules beside the number that they replaced
        if present is None or (is_alike and self._is_recorded(config, migration)):
            return
        renames = migration.key_encoding is not None and present.agrees_with(index)
        entry = migration.entry(config.record_key_fields)
        is_begun = bool(find_migrating(snapshot.commits, entry))
        is_stated = "hoodie.bucket.index.num.buckets" in config.properties
        if not (renames or (is_begun and not is_stated)):
            raise UnsupportedError(
                f"the table has the index {present.text} already: rehash() gives it another number "
                "of buckets, rescale() other rules, resize() splits and merges the buckets of "
                "rings, and pin_index() records its index"
            )

    def _find_left(self, snapshot: Snapshot, migration: Migration) -> tuple[str, ...]:
        """Return the partitions that are to be moved, or moved again."""
        config = snapshot.state.config
        own = find_migrating(snapshot.commits, migration.entry(config.record_key_fields))
        snapshot.slices_of(snapshot.partitions)  # lists them side by side
        left = [p for p in snapshot.partitions if not is_migrated(snapshot.slices(p), own)]
        if migration.key_encoding is None and self._is_recorded(config, migration):
            # Migrated before, and written to since; unless it was restored to before.
            left = [path for path in left if not self._has_layout(snapshot, path)]
        return tuple(left)

    def _has_layout(self, snapshot: Snapshot, partition_path: str) -> bool:
        try:
            layout = self._finder.layout(snapshot, partition_path)
        except IndexUnknownError:
            return False
        return find_stray_file_group(layout, snapshot.file_ids(partition_path)) is None

    def _is_recorded(self, config: TableConfig, migration: Migration) -> bool:
        """Whether hoodie.properties state the index."""
        stated = migration.index.properties(config.record_key_fields)
        return stated.items() <= config.properties.items()

    def _is_ended(self, snapshot: Snapshot, migration: Migration) -> bool:
        """Whether the last step is done: to state the index, and to drop what it leaves behind."""
        config = snapshot.state.config
        if not self._is_recorded(config, migration):
            return False
        entry = migration.entry(config.record_key_fields)
        return not (_find_outdated(config) and find_migrating(snapshot.commits, entry))

    def _find_moved(self, snapshot: Snapshot, migration: Migration) -> str | None:
        """Return the last commit that moved rows to another index than the table has; else None."""
        config = snapshot.state.config
        if self._is_recorded(config, migration):
            return None
        if migration.key_encoding is not None:
            try:
                present = self._finder.resolve(snapshot).bucket_index
            except IndexUnknownError:
                present = None
            if present is not None and present.agrees_with(migration.index):
                return None  # keys are renamed, and stay in their buckets
        entry = migration.entry(config.record_key_fields)
        return max(find_migrating(snapshot.commits, entry), default=None)

    def _find_encoding(self, snapshot: Snapshot, migration: Migration) -> KeyEncoding | None:
        """Return how all keys have to be written; None where keys have one form only.

        Raises:
            UnsupportedError: keys are written in several ways.
        """
        config = snapshot.state.config
        if not _has_encodings(config):
            return None
        if migration.key_encoding is not None:
            return migration.key_encoding
        return KeyEncoding.NAMED if config.table_version >= 9 else find_key_encoding(snapshot)

    def _notes(self, config: TableConfig, migration: Migration) -> tuple[str, ...]:
        if self._is_recorded(config, migration):
            return ()
        stated = config.properties.get("hoodie.index.type")
        return find_what_changes(config, stated, config.metadata_partitions)

    # -- effects

    def _move(
        self,
        migration: Migration,
        paths: Sequence[str],
        codec: Codec | None,
        progress: ProgressCallback | None,
        execute: Execute | None,
    ) -> CommitResult | None:
        """Move the rows of some partitions to buckets, as one commit; None if they are gone."""
        started = self._begin(partial(self._plan, migration, paths), codec, migration.index)
        with started:
            if not started.payloads:
                return None
            if execute is not None:
                return started.run(execute)
            return started.run_in_threads("migrating", progress)

    def _plan(
        self, migration: Migration, paths: Sequence[str], instant: str, basis: Basis
    ) -> RewritePlan:
        """Return the plan for some partitions.

        Raises:
            ConflictError: a compaction or a clustering is pending.
        """
        snapshot, index = basis.snapshot, migration.index
        state = snapshot.state
        config = state.config
        check_nothing_pending(state)
        there = tuple(path for path in paths if path in set(snapshot.partitions))
        dialect = dialect_for_table_version(config.table_version)
        layouts = {
            path: plan_layout(index, path, config, dialect, state.limits, instant) for path in there
        }
        settling = KeySettling(
            config,
            self._find_encoding(snapshot, migration),
            renames=migration.key_encoding is not None,
            keeps_latest=migration.keeps_latest,
        )
        return RewritePlan(
            basis,
            list(plan_steps(slices_to_divide(snapshot, there), layouts)),
            rescale_operation(config.table_version),
            {MIGRATION: migration.entry(config.record_key_fields)},
            settling,
        )

    def _record(self, snapshot: Snapshot, migration: Migration) -> bool:
        """State the index, if the table is as it was found and nobody is writing.

        Returns:
            Whether it is stated; False if others have written since, so that partitions may be
            left.

        Raises:
            ConflictError: others are writing by the old index.
            LockTimeoutError: the table lock could not be acquired.
        """
        index = migration.index
        with self._owner.recovered() as table:
            writes = table.load_timeline().writes
            if writes.completed.instants != snapshot.state.timeline.writes.completed.instants:
                return False
            pending = writes.pending.instants
            if pending:
                raise ConflictError(
                    f"all partitions are moved, but {pending[0].action} "
                    f"{pending[0].requested_time} is under way, by the old index. Once it has "
                    "ended, migrate again, which records the new index"
                )
            moved = self._find_moved(snapshot, migration)
            _put_index_files(table, snapshot, migration)
            stated = index.properties(table.config.record_key_fields)

            def change(old: Mapping[str, str]) -> dict[str, str]:
                before = {k: v for k, v in old.items() if k in {*IndexSettings.KEYS, REHASH}}
                kept = {k: v for k, v in old.items() if k not in before}
                if moved is not None:
                    stated.update(Migrated(moved, before).entries())
                return {**kept, **stated}

            outdated = _find_outdated(table.change_properties(change))
            drop_partitions(table, outdated)
            forget_definitions(table, outdated)
        return True


def _put_index_files(table: LockedTable, snapshot: Snapshot, migration: Migration) -> None:
    """Put the rules or the rings of the index; nobody goes by them before the index is stated."""
    index = migration.index
    if index.hashing_config is not None:
        put_rules(table.store, index.hashing_config)
        if RuleFiles(snapshot.state).in_force(snapshot) != index.hashing_config:
            raise UnsupportedError(
                "the table has bucket rules of an index that it does not have; remove the files "
                "below .hoodie/.bucket_index/partition_bucket_index_meta, and migrate again"
            )
    if not index.has_rings:
        return
    for path in snapshot.partitions:
        ring = find_ring(path, index.num_buckets_of(path), snapshot.slices(path))
        if ring is not None:
            # A migration that died here may have put the ring of file groups that are gone.
            replace_ring(table.store, ring, table.limits, table.check_held)


def _find_outdated(config: TableConfig) -> list[str]:
    """Return the partitions of the metadata table that Hudi's bucket writers do not keep right.

    They count keys that they log to a bucket as known, and leave new ones out of a record index, on
    which secondary indexes stand: readers of Hudi that go by it miss rows.
    """
    return [
        name
        for name in config.metadata_partitions
        if name == RECORD_INDEX or is_secondary_index(name)
    ]


def _has_encodings(config: TableConfig) -> bool:
    """Whether Hudi releases have differed in how they write the table's keys."""
    is_single = len(config.record_key_fields) == 1
    is_complex = config.key_generator is KeyGenerator.COMPLEX
    return is_single and is_complex and config.populate_meta_fields


def _check_key_encoding(config: TableConfig, migration: Migration) -> None:
    """Refuse an encoding that the table's keys cannot have.

    Raises:
        ValueError: it is such an encoding.
        UnsupportedError: the table has rings.
    """
    if not _has_encodings(config):
        raise ValueError(
            "keys are written anew only where they are stored, and are complex keys of one field: "
            "of other keys there is one encoding"
        )
    if migration.index.has_rings:
        raise UnsupportedError("writing keys anew in a table with rings, whose buckets they leave")
    if migration.key_encoding is KeyEncoding.VALUE and config.table_version >= 9:
        raise ValueError("Hudi writes the keys of table version 9 with their field's name: named")


def _batches(paths: Sequence[str], number: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), number):
        yield paths[start : start + number]
