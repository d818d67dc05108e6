"""A table and its model, with whatever may be done to a table in whatever order.

Hypothesis chooses: writes, services, crashes in the midst of either, processes that end and
begin, a second writer at the same time, looks into the past. After each step the table reads as
the model.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import bucketfmt as bf
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.crashes import SimulatedProcess, strike
from bucketfmt.testing.faulty_store import Fault, FaultPlan
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.table_model import TableModel
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.plan_create import plan_properties
from soak.works.works import KINDS, Kind, schedule

__all__ = ["MACHINES", "Crash", "TableMachine"]

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("p", pa.string())])
_PARTITIONS = ("a", "b", "c")
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 7).map("k{}".format),
            "v": st.integers(0, 99),
            "ts": st.integers(0, 5),
            "p": st.sampled_from(_PARTITIONS),
        }
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda row: (row["id"], row["p"]),
)
_CRASHES = st.none() | st.tuples(
    st.integers(1, 30), st.sampled_from([Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN])
)
"""None, or at which write the process dies, and how."""

_RETAINED = 3
_SERVICES = bf.Services(
    compact_after=2,
    clean=bf.Retention(retain=_RETAINED),
    clean_after=1,
    archive=bf.ArchivePolicy(4, 6),
)

Act = Callable[[bf.Table], Any]
Crash = tuple[int, Fault] | None


class TableMachine(RuleBasedStateMachine):
    """One table of some kind. The numbers count over all tables: runs, steps and deaths."""

    kind: ClassVar[Kind]
    writer: ClassVar[bf.WriterConfig]
    begun: ClassVar[int] = 0
    steps: ClassVar[int] = 0
    deaths: ClassVar[int] = 0

    @initialize(is_ordered=st.booleans())
    def begin(self, is_ordered: bool) -> None:
        """Make the table."""
        type(self).begun += 1
        ordering = ["ts"] if is_ordered else []
        kind, self.is_ordered = self.kind, is_ordered
        self.files = MemoryStore()
        self.process = 0
        properties = plan_properties(
            name="t",
            schema=SCHEMA,
            record_key=["id"],
            partition_by=["p"],
            ordering=ordering,
            index=kind.index,
            table_type="MERGE_ON_READ" if kind.is_logged else "COPY_ON_WRITE",
            table_version=kind.version,
        )
        create_table(self.files, properties, kind.index)
        self.model = TableModel(["id"], ["p"], ordering)
        self.savepoints: list[tuple[str, str]] = []  # and what the model returns to
        self.entangled: set[str] = set()  # of which the requested times tell no order
        self._open()
        self.write("upsert", [{"id": "k0", "v": 0, "ts": 0, "p": "a"}], None)

    # -- writes

    @rule(
        operation=st.sampled_from(["upsert", "upsert", "upsert", "insert"]),
        rows=_ROWS,
        crash=_CRASHES,
    )
    def write(self, operation: str, rows: list[dict[str, Any]], crash: Crash) -> None:
        """Add and replace rows."""
        self.model.upsert(rows)
        self._commit(lambda t: getattr(t, operation)(_table(rows)), crash)

    @rule(rows=_ROWS, crash=_CRASHES)
    def delete(self, rows: list[dict[str, Any]], crash: Crash) -> None:
        """Delete keys, there or not."""
        self.model.delete(rows)
        self._commit(lambda t: t.delete(_table(rows).select(["id", "p"])), crash)

    @rule(v=st.integers(0, 99), crash=_CRASHES)
    def delete_where(self, v: int, crash: Crash) -> None:
        """Delete what a filter finds."""
        self.model.delete_where(lambda row: row["v"] < v)
        self._commit(lambda t: t.delete(filter=[("v", "<", v)]), crash)

    @precondition(lambda self: not self.kind.keeps_file_ids)
    @rule(rows=_ROWS, table=st.booleans(), crash=_CRASHES)
    def insert_overwrite(self, rows: list[dict[str, Any]], table: bool, crash: Crash) -> None:
        """Replace partitions, or all."""
        self.model.insert_overwrite(rows, table=table)
        self._commit(lambda t: t.insert_overwrite(_table(rows), table=table), crash)

    @precondition(lambda self: not self.kind.keeps_file_ids)
    @rule(data=st.data(), crash=_CRASHES)
    def delete_partitions(self, data: st.DataObject, crash: Crash) -> None:
        """Hide partitions."""
        known = self.table.inspect.partitions().column("partition_path").to_pylist()
        gone = data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
        self.model.delete_partitions([path] for path in gone)
        self._commit(lambda t: t.delete_partitions(gone), crash)

    @precondition(lambda self: not self.kind.has_several_groups)
    @rule(first=_ROWS, second=_ROWS, is_first_first=st.booleans())
    def write_at_a_time(
        self, first: list[dict[str, Any]], second: list[dict[str, Any]], is_first_first: bool
    ) -> None:
        """Two writers: a conflict if they write to one bucket, and else both succeed."""
        tables = [self.table, self._begin(chance=10_000 + self.process)]
        given = [first, second]
        with ExitStack() as stack:
            started = [stack.enter_context(table.start_write("upsert", SCHEMA)) for table in tables]
            receipts = [
                list(write.task.write(_table(rows), f"{n}-0-0"))
                for n, (write, rows) in enumerate(zip(started, given, strict=True))
            ]
            results: dict[int, bf.CommitResult] = {}
            order = (0, 1) if is_first_first else (1, 0)
            for n in order:
                try:
                    results[n] = started[n].publish(receipts[n])
                except bf.ConflictError:  # noqa: PERF203
                    continue
            is_conflict = not self._buckets(first).isdisjoint(self._buckets(second))
        # A service after the first commit may be what the second is in conflict with.
        may_conflict = is_conflict or self.writer.services is not None
        if order[0] not in results or (is_conflict and len(results) == 2):
            raise AssertionError(f"{len(results)} of two committed, is_conflict={is_conflict}")
        if len(results) == 1 and not may_conflict:
            raise AssertionError(f"{len(results)} of two committed, is_conflict={is_conflict}")
        for n, result in results.items():
            self.model.upsert(given[n])
            self.model.commit(result)
            if len(results) == 2 and not is_first_first:
                self.entangled.add(result.instant)
        self._forget_served()

    # -- services

    @rule(retain=st.integers(1, 4), crash=_CRASHES)
    def clean(self, retain: int, crash: Crash) -> None:
        """Delete what the last commits do not need."""
        self._forget(retain)
        self._serve(lambda t: t.clean(retain=retain, dry_run=False), crash)

    @rule(left=st.integers(1, 4), crash=_CRASHES)
    def archive(self, left: int, crash: Crash) -> None:
        """Move old instants to the archive."""
        self._serve(lambda t: t.archive(min_commits=left, max_commits=left), crash)

    @precondition(lambda self: self.kind.is_logged)
    @rule(crash=_CRASHES, only_plan=st.booleans())
    def compact(self, crash: Crash, only_plan: bool) -> None:
        """Compact, or plan to."""
        self._serve(schedule if only_plan else lambda t: t.compact(), crash)

    @precondition(lambda self: self.kind.is_directory)
    @rule(crash=_CRASHES, splits=st.booleans())
    def resize(self, crash: Crash, splits: bool) -> None:
        """Split the buckets of directories, or merge them."""
        size, most = (1, 8) if splits else (1 << 40, 8)
        self._serve(lambda t: t.resize(max_file_size=size, min_buckets=1, max_buckets=most), crash)

    @precondition(lambda self: self.kind.is_ring)
    @rule(splits=st.booleans())
    def resize_ring(self, splits: bool) -> None:
        """Split or merge the buckets of rings, to the end.

        While a resize is pending, writes of keys that were deleted meanwhile may be refused.
        """
        size, most = (1, 8) if splits else (1 << 40, 8)
        self._serve(lambda t: t.resize(max_file_size=size, min_buckets=1, max_buckets=most), None)

    @precondition(lambda self: bool(self.model.commits))
    @rule(crash=_CRASHES)
    def roll_back(self, crash: Crash) -> None:
        """Take the newest write back, where that may be."""
        newest = self.model.commits[-1].instant
        if newest not in {instant.requested_time for instant in self._completed()}:
            return  # archived: requested before another, and completed after it
        try:
            self._serve(lambda t: t.rollback(newest), crash, again=True)
        except bf.ConflictError:
            return
        self.model.return_to(
            self.model.commits[-2].instant if len(self.model.commits) > 1 else None
        )

    @precondition(lambda self: bool(self.model.commits))
    @rule(crash=_CRASHES)
    def savepoint(self, crash: Crash) -> None:
        """Savepoint the newest write: until version 6 that requested last, then that completed."""
        completed = self.model.commits[-1].instant
        requested = max(commit.instant for commit in self.model.commits)
        newest = completed if self.kind.version >= 8 else requested
        try:
            self._serve(lambda t: t.savepoint(newest), crash, again=True)
        except ValueError:  # archived meanwhile: rolled back to what was
            return
        if (newest, completed) not in self.savepoints:
            self.savepoints.append((newest, completed))

    @precondition(lambda self: bool(self.savepoints))
    @rule(crash=_CRASHES)
    def delete_savepoint(self, crash: Crash) -> None:
        """Give the newest savepoint up."""
        newest, _ = self.savepoints.pop()
        self._serve(lambda t: t.delete_savepoint(newest), crash, again=True)

    @precondition(lambda self: bool(self.savepoints))
    @rule(crash=_CRASHES)
    def restore(self, crash: Crash) -> None:
        """Return to the newest savepoint."""
        newest, completed = self.savepoints[-1]
        self._serve(lambda t: t.restore(newest), crash, again=True)
        self.model.return_to(completed)

    # -- looks

    @rule()
    def reopen(self) -> None:
        """The process ends, and another begins."""
        self._open()

    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        """Read the table as it was."""
        commits = [c for c in self.model.retained if c.instant not in self.entangled]
        if commits:
            commit = data.draw(st.sampled_from(commits))
            found = self.table.scan(as_of=commit.instant).to_arrow()
            self.model.check_rows(found, commit.rows)

    @precondition(lambda self: not (self.is_ordered and self.kind.is_logged))
    @rule(data=st.data())
    def read_changes(self, data: st.DataObject) -> None:
        """Read what was written since a commit.

        Where rows are logged and have an order, Hudi's changes are those among themselves: one
        that does not stand against an older row is told too.
        """
        commits = self.model.retained
        if commits:
            commit = data.draw(st.sampled_from(commits))
            by_completion = self.kind.version >= 8
            since = commit.completion_time if by_completion else commit.instant
            found = self.table.changes(since).to_arrow()
            wanted = self.model.changes(commit.instant, by_completion=by_completion)
            self.model.check_rows(found, wanted)

    @invariant()
    def reads_as_the_model(self) -> None:
        """All rows, no more and no other."""
        type(self).steps += 1
        self.model.check(self.table)

    @rule()
    def check(self) -> None:
        """The check finds nothing, but for a dead writer's write until the next takes it back."""
        findings = [
            finding
            for finding in self.table.check(depth="full").findings
            if finding.severity != "info" and not (finding.id == "T001" and self._failed())
        ]
        if findings:
            raise AssertionError(f"{findings}")

    def teardown(self) -> None:
        """Write and look once more."""
        if hasattr(self, "table"):
            self.write("upsert", [{"id": "last", "v": 0, "ts": 0, "p": "a"}], None)
            if self._failed():
                raise AssertionError(f"still pending: {self._failed()}")
            self.check()
            self.reads_as_the_model()

    # -- how

    def _open(self) -> None:
        self.process += 1
        self.table = self._begin()

    def _begin(self, chance: int | None = None) -> bf.Table:
        return SimulatedProcess(self.files, self.process, self.writer, chance=chance).open()

    def _buckets(self, rows: list[dict[str, Any]]) -> set[tuple[str, int]]:
        located = self.table.locate(_table(rows)).to_pylist()
        return {(row["partition_path"], row["bucket_id"]) for row in located}

    def _commit(self, act: Act, crash: Crash) -> None:
        """Do a write whose change the model has made already.

        The timeline tells whether the write added a commit: a delete that finds no row adds none,
        and a write whose process died may have added its commit. The model's change is undone
        only where a process died without a commit. After a write that returned, the change
        stays, so that a table that lost the change differs from the model.
        """
        known = self._completed()
        result = None if crash is not None and self._die(act, crash) else act(self.table)
        added = [
            instant
            for instant in self._completed()
            if instant not in known and not self._is_compaction(instant)
        ]
        if result is not None:
            told = [result.instant] if result.committed else []
            if told != [instant.requested_time for instant in added]:
                raise AssertionError(f"the write told of {told}, and added {added}")
            self.model.commit(result)
        elif added:
            (instant,) = added
            completed = instant.completion_time or instant.requested_time
            self.model.commit(
                bf.CommitResult(instant.requested_time, completed, instant.action, "")
            )
        else:
            self.model.undo()
        self._forget_served()

    def _forget_served(self) -> None:
        """Have the model forget what a clean after a commit makes unreadable."""
        if self.writer.services is not None:
            self._forget(_RETAINED)

    def _is_compaction(self, instant: Instant) -> bool:
        return self.kind.is_logged and instant.action == "commit"

    def _forget(self, retained: int) -> None:
        """Have the model forget what a clean that keeps so many commits makes unreadable."""
        writes = self.table.timeline.writes.completed.instants
        if len(writes) > retained:
            self.model.forget(writes[-retained].requested_time)

    def _serve(self, act: Act, crash: Crash, *, again: bool = False) -> None:
        """Do what changes no commit; after a crash do it `again` in another process."""
        if crash is None or not self._die(act, crash):
            act(self.table)
        elif again:
            try:
                act(self.table)
            except ValueError:  # it was done before the crash
                return

    def _die(self, act: Act, crash: Crash) -> bool:
        """Do something in a process that dies of it; return False if it does not come to that."""
        at, fault = crash  # type: ignore[misc]
        plan = FaultPlan(at, fault, WRITE_VERBS)
        self.process += 1
        left = strike(self.files, act, plan, process=self.process, writer=self.writer)
        if left is not None:
            type(self).deaths += 1
            self.files = left.store
        self._open()
        return left is not None

    def _failed(self) -> tuple[Instant, ...]:
        """Return what dead processes left: writes, and rollbacks of writes that are gone."""
        actions = ("commit", "deltacommit", "replacecommit", "rollback")
        return self.table.timeline.pending.of(*actions).instants

    def _completed(self) -> tuple[Instant, ...]:
        return self.table.timeline.writes.completed.instants


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def _machine_of(kind: Kind, services: bf.Services | None) -> type[TableMachine]:
    writer = replace(kind.writer, services=services)
    return type(f"Machine{kind}", (TableMachine,), {"kind": kind, "writer": writer})


MACHINES = {str(kind): _machine_of(kind, None) for kind in KINDS}
MACHINES |= {f"{kind}-served": _machine_of(kind, _SERVICES) for kind in KINDS}
"""Two machines for each kind of table: in the second, services run by themselves."""
