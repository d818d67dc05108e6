"""One partition, by names and index files: everything that needs no data file opened.

I/O: lists, and reads hashing metadata unless only names are wanted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from bucketfmt.check.examined import ExaminedState
from bucketfmt.check.files.committed_files import (
    WriteLedger,
    find_leftovers,
    find_lost_files,
    find_rows_in_root,
    find_wrong_sizes,
)
from bucketfmt.check.files.strays import (
    find_faulty_entries,
    find_foreign_files,
    find_log_files_in_cow,
)
from bucketfmt.check.placement.buckets import (
    DuplicateGroups,
    find_duplicate_groups,
    find_foreign_groups,
    find_groups_beyond,
    find_numbers,
    find_skew,
)
from bucketfmt.check.placement.directories import DirectoryCheck
from bucketfmt.check.placement.index_view import IndexView
from bucketfmt.check.placement.rings import (
    Ring,
    find_lost_ring,
    find_off_ring_groups,
    find_ring_faults,
    load_ring,
)
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import StoredBuckets
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.timeline.load import load_clustering_plan
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant

__all__ = ["PartitionChecker"]


class PartitionChecker:
    """Checks partitions of one table. Safe to use from several threads."""

    def __init__(
        self,
        state: ExaminedState,
        view: IndexView,
        slices: Mapping[str, Sequence[FileSlice]],
        names_only: bool,
    ) -> None:
        self._state = state
        self._slices = slices
        self._view = view
        self._names_only = names_only
        self._rings: dict[str, Ring] = {}
        self._directories: dict[str, DirectoryCheck] = {}
        self._groups = sum(map(len, slices.values()))
        # A migration that did not end has moved some partitions to buckets.
        self._moved: Mapping[str, set[str]] = defaultdict(set)
        for commit in state.commits:
            if commit.migration is not None:
                for path, file_id, *_ in commit.files:
                    self._moved[path].add(file_id)
        self._ledger = WriteLedger.of(
            self._state.timeline, self._state.config.table_version, self._state.commits
        )

    def check(self, partition_path: str) -> Iterator[Event | DuplicateGroups]:
        """Yield what is wrong; buckets with several file groups as such, to be looked into."""
        state, view = self._state, self._view
        slices = self._slices[partition_path]
        listed = state.lister.files(partition_path)
        yield Counted("partitions")
        yield Counted("file groups", len(slices))
        yield Counted("files listed", sum(map(len, listed.values())))
        numbered = [] if view.has_stored_buckets else find_numbers(slices)
        explained: set[str] = set()
        if view.is_ring:
            yield from self._check_ring(partition_path, slices)
        elif view.has_directories:
            directory = DirectoryCheck(state, partition_path, slices)
            self._directories[partition_path] = directory
            resized = self._replaced(partition_path)
            faults = directory.find_faults(resized, names_only=self._names_only)
            yield from self._unless_overtaken(partition_path, faults)
        elif view.has_buckets:
            duplicates = (
                () if view.has_several_groups else find_duplicate_groups(numbered, self._ledger)
            )
            for duplicate in duplicates:
                explained.update(stray.file_id for stray in duplicate.strays)
                yield duplicate
            num_buckets = view.num_buckets(partition_path)
            if num_buckets is not None and not view.is_contradicted:
                yield from find_groups_beyond(numbered, num_buckets, view.has_rules)
        if not view.has_stored_buckets:
            moved = self._moved.get(partition_path, ())
            others = [each for each in numbered if each[1].file_id not in moved]
            yield from find_foreign_groups(others, view.has_buckets, self._groups)
        if view.has_stored_buckets or view.has_buckets:
            yield from find_skew(partition_path, slices)
        yield from self._check_files(partition_path, slices, explained)

    def layout(self, partition_path: str) -> BucketLayout | None:
        """Return the layout to compare keys with; None where nobody can tell."""
        ring = self._rings.get(partition_path)
        nodes = ring.metadata.nodes if ring is not None and ring.metadata is not None else None
        directory = self._directories.get(partition_path)
        buckets = None if directory is None else directory.buckets
        return self._view.unproved_layout(partition_path, StoredBuckets(nodes, buckets))

    def _check_files(
        self, partition_path: str, slices: Sequence[FileSlice], explained: Collection[str]
    ) -> Iterator[Event]:
        lost = list(find_lost_files(slices))
        if lost and self._state.has_changed():
            why = "the table was written to while it was checked; check again"
            yield NotChecked(lost[0].paths[0], why)
        else:
            yield from lost
        yield from find_wrong_sizes(slices, self._state.config.table_version, self._names_only)
        yield from find_rows_in_root(partition_path, slices, self._state.config.partition_fields)
        live = {file_slice.file_id for file_slice in slices}
        listed = self._state.lister.files(partition_path)
        leftovers = [
            finding
            for finding in find_leftovers(listed, live, self._ledger, explained)
            if not self._has_begun_since(finding)
        ]
        told: set[str] = set()
        if self._state.config.table_type == "COPY_ON_WRITE":
            told |= {path for f in leftovers if f.severity != "info" for path in f.paths}
            logs = list(find_log_files_in_cow(partition_path, slices, listed, told))
            yield from logs
            named = {path for f in logs if f.severity == "info" for path in f.paths}
            leftovers = [f for f in leftovers if named.isdisjoint(f.paths)]
        yield from leftovers
        told |= {path for finding in leftovers for path in finding.paths}
        told |= {path for finding in lost for path in finding.paths}
        yield from find_faulty_entries(
            partition_path, self._state.lister.faulty_entries(partition_path), told
        )
        yield from find_foreign_files(
            partition_path, self._state.lister.other_files(partition_path)
        )

    def _has_begun_since(self, finding: Finding) -> bool:
        """Whether a leftover is of a write that began after the timeline was listed.

        A write is requested before its first file is there, and a rollback deletes the files
        before the instant: a file that is there and whose instant is not is left over.
        """
        if not any(map(self._ledger.is_newest, finding.instants)):
            return False
        return self._state.came_or_went(finding.instants, finding.paths)

    def _unless_overtaken(self, partition_path: str, events: Iterable[Event]) -> Iterator[Event]:
        """Yield events; not those about file groups that a clean or an archival overtook.

        A clean deletes the ring or directory that was in force when the timeline was listed, once
        the timeline begins after the next one. The ring in force then leads to none of the file
        groups that were live, nor does an older one.
        """
        for event in events:
            is_of_groups = isinstance(event, Finding) and bool(event.subject.file_groups)
            if is_of_groups and self._state.load_what_overtook() is not None:
                why = "the table was written to while it was checked; check again"
                yield NotChecked(f"the buckets of partition {partition_path!r}", why)
            else:
                yield event

    # -- rings

    def _check_ring(self, partition_path: str, slices: Sequence[FileSlice]) -> Iterator[Event]:
        events: list[Event] = []
        ring = load_ring(self._state, partition_path, slices, events, self._names_only)
        self._rings[partition_path] = ring
        yield from events
        yield from self._unless_overtaken(partition_path, find_lost_ring(ring, slices))
        if self._names_only:
            return
        timeline = self._state.timeline
        yield from find_ring_faults(
            ring,
            slices,
            completed=timeline.commits.completed.requested_times,
            pending_resizes=self._pending_resizes,
            pending=timeline.pending.requested_times,
            archived={i.requested_time for i in self._state.archived_instants},
            listed=self._state.lister.files(partition_path).keys(),
        )
        off = find_off_ring_groups(ring, slices, self._replaced(partition_path))
        yield from self._unless_overtaken(partition_path, off)

    def _replaced(self, partition_path: str) -> set[str]:
        return {
            file_id
            for commit in self._state.commits
            for path, file_id in commit.replaced
            if path == partition_path
        }

    @cached_property
    def _pending_resizes(self) -> frozenset[str]:
        pending = self._state.timeline.pending.of(*REPLACING_ACTIONS).instants
        return frozenset(i.requested_time for i in pending if self._has_plan(i))

    def _has_plan(self, instant: Instant) -> bool:
        state = self._state
        try:
            plan = load_clustering_plan(state.store, state.config, instant, state.limits)
        except BucketfmtError:
            return True  # T001 tells
        return plan is not None
