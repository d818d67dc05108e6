"""The table as it will be once a change is published: its columns, and its newest file slices.

I/O, read only: lists partitions, and reads what the timeline says of their file groups. The files
of the change are there already, but its instant is inflight: no snapshot shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bucketfmt.format.names.instants import State, comparable_action
from bucketfmt.format.names.names import FileGroupId, LogFileName
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.file_slices import TimelineView, find_file_slices
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema, find_stated_schema
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.load import load_replaced_file_groups
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.locked_table import PendingChange

__all__ = ["TableAfter"]


class TableAfter:
    """A table once a change is published. Made for as long as the table lock is held."""

    def __init__(self, before: TableState, change: PendingChange) -> None:
        """Set up.

        Args:
            before: The table as it is, whose lister has the files of the change too.
            change: What is about to be published.
        """
        self._before, self._change = before, change

    @cached_property
    def schema(self) -> TableSchema | None:
        """The columns of the table; None where no commit and no property states them.

        Raises:
            CorruptError: the schema in the change does not parse.
        """
        before, content = self._before, self._change.content
        commits = before.stating_commits
        if isinstance(content, CommitMetadata):
            time = self._change.instant.requested_time
            own = CommitRecord.from_metadata(time, time, content, before.limits)
            commits = (*commits, own)
        return find_stated_schema(commits, before.config, before.limits)

    def newest_slices(self, partition: str) -> list[FileSlice]:
        """Return the newest file slice of each file group of a partition.

        Raises:
            CorruptError: an instant's file is damaged.
            StorageError: the store failed.
        """
        before, own_time = self._before, self._change.instant.requested_time
        replaced = self._replaced
        groups = {
            file_id: files
            for file_id, files in before.lister.files(partition).items()
            if (partition, file_id) not in replaced
        }
        compactions = {
            file_id: instant.requested_time
            for (path, file_id), instant in before.pending_compactions.items()
            if path == partition and instant.requested_time != own_time
        }
        archived = self._load_archived(groups)
        view = TimelineView(self._timeline, before.config.table_version, archived)
        return find_file_slices(partition, groups, view, compactions)

    @cached_property
    def basis(self) -> ReadBasis:
        """What reading `newest_slices` needs to know: to it, what the change logged counts."""
        basis = Snapshot(self._before).basis
        return basis if basis.timeline is None else replace(basis, timeline=self._timeline)

    @cached_property
    def _timeline(self) -> Timeline:
        """The timeline, as far as file slices and log blocks go."""
        own, timeline = self._change.instant, self._before.timeline
        action = comparable_action(own.action, 2)
        # "~" is greater than any digit: the change completes after all that is there.
        done = Instant(own.requested_time, action, State.COMPLETED, f"{timeline.latest_time}~", "")
        others = [i for i in timeline.instants if i.requested_time != own.requested_time]
        instants = sorted([*others, done], key=lambda i: (i.requested_time, i.action))
        return replace(timeline, instants=tuple(instants))

    @cached_property
    def _replaced(self) -> set[FileGroupId]:
        """The file groups that have been replaced, and those that the change replaces."""
        before, content = self._before, self._change.content
        replaced = set(
            load_replaced_file_groups(before.store, before.config, before.timeline, before.limits)
        )
        if isinstance(content, CommitMetadata):
            for path, file_ids in content.partition_to_replace_file_ids.items():
                replaced.update((path, file_id) for file_id in file_ids)
        return replaced

    def _load_archived(self, groups: Mapping[str, Sequence[DataFile]]) -> tuple[Instant, ...]:
        """Return the archived instants that tell which file slices log files are of."""
        names = (file.name for files in groups.values() for file in files)
        times = {name.instant for name in names if isinstance(name, LogFileName)}
        timeline = self._timeline
        asked = [t for t in times if timeline.is_completed(t) and timeline.needs_history(t)]
        return self._before.archived_since(min(asked)) if asked else ()
