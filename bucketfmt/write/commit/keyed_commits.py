"""Commits by the key that their writer gave them, so that one key never commits twice.

I/O: reads the commits of the active timeline, and of the archive the newest files.
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.written_files import IDEMPOTENCY_KEY
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.history import list_archive_files, load_archived_commits
from bucketfmt.timeline.load import load_commit_metadata
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.result import CommitResult, result_of

__all__ = ["KeyedCommits"]

_ARCHIVED_COMMITS_MAX = 10_000


class KeyedCommits:
    """Finds commits of one table by their keys; reads each commit, and archive file, once.

    Attributes:
        kept: The commits that were read or written.
    """

    def __init__(self, store: Store, limits: Limits, kept: KeptCommits) -> None:
        self._store, self._limits, self.kept = store, limits, kept
        self._listed: tuple[Instant, Sequence[tuple[str, int]]] | None = None
        self._archived: dict[tuple[str, int], tuple[int, dict[str, CommitResult]]] = {}

    def find(self, timeline: Timeline, config: TableConfig, key: str) -> CommitResult | None:
        """Return the newest commit with the key, active or among the last ten thousand archived."""
        instants = timeline.writes.completed.instants
        records = self.kept.load(config, timeline)
        for instant, record in zip(reversed(instants), reversed(records), strict=True):
            if record.idempotency_key == key:
                metadata = load_commit_metadata(self._store, config, instant, self._limits)
                return result_of(instant, metadata, repeated=True)
        # An instant is archived before it leaves the timeline that was just looked at.
        return self._find_archived(config, instants, key)

    def _list_archive(
        self, config: TableConfig, instants: Sequence[Instant]
    ) -> Sequence[tuple[str, int]]:
        """Return the files of the archive, which are those of before if no write left since.

        Writes leave the timeline in their order: if the first is still there, no other has left.
        """
        if self._listed is None or self._listed[0] not in instants[:1]:
            files = list_archive_files(self._store, config, self._limits)
            listed = {*files}  # others were merged, or removed
            self._archived = {f: own for f, own in self._archived.items() if f in listed}
            if not instants:
                return files
            self._listed = instants[0], files
        return self._listed[1]

    def _find_archived(
        self, config: TableConfig, instants: Sequence[Instant], key: str
    ) -> CommitResult | None:
        seen = 0
        for file in reversed(self._list_archive(config, instants)):
            if file not in self._archived:
                self._archived[file] = self._load(config, file[0])
            number, found = self._archived[file]
            if key in found:
                return found[key]
            seen += number
            if seen >= _ARCHIVED_COMMITS_MAX:
                break
        return None

    def _load(self, config: TableConfig, name: str) -> tuple[int, dict[str, CommitResult]]:
        number, found = 0, {}
        for instant, metadata in load_archived_commits(self._store, config, name, self._limits):
            number += 1
            key = metadata.extra_metadata.get(IDEMPOTENCY_KEY)
            if key is not None:
                found[key] = result_of(instant, metadata, repeated=True)
        return number, found
