"""Commits by the key that their writer gave them, so that one key never commits twice.

I/O: reads the commits of the active timeline, and of the archive the newest files.
"""

from __future__ import annotations

from bucketfmt.format.names.instants import State
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.history import list_archive_files, load_archive_file
from bucketfmt.timeline.load import load_commit_metadata
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.result import CommitResult, result_of

__all__ = ["IDEMPOTENCY_KEY", "KeyedCommits"]

IDEMPOTENCY_KEY = "bucketfmt.idempotency_key"
"""Entry of a commit's `extraMetadata`."""

_ARCHIVED_INSTANTS_MAX = 10_000


class KeyedCommits:
    """Finds commits of one table by their keys; reads each file of the archive once."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self._limits = store, limits
        self._archived: dict[tuple[str, int], tuple[int, dict[str, CommitResult]]] = {}

    def find(self, timeline: Timeline, config: TableConfig, key: str) -> CommitResult | None:
        """Return the newest commit with the key, active or archived."""
        for instant in reversed(timeline.writes.completed.instants):
            metadata = load_commit_metadata(self._store, config, instant, self._limits)
            if metadata.extra_metadata.get(IDEMPOTENCY_KEY) == key:
                return result_of(instant, metadata, repeated=True)
        # An instant is archived before it leaves the timeline that was just looked at.
        return self._find_archived(config, key)

    def _find_archived(self, config: TableConfig, key: str) -> CommitResult | None:
        seen = 0
        for file in reversed(list_archive_files(self._store, config, self._limits)):
            if file not in self._archived:
                self._archived[file] = self._load(config, file[0])
            number, found = self._archived[file]
            if key in found:
                return found[key]
            seen += number
            if seen >= _ARCHIVED_INSTANTS_MAX:
                break
        return None

    def _load(self, config: TableConfig, name: str) -> tuple[int, dict[str, CommitResult]]:
        number, found = 0, {}
        for entry in load_archive_file(self._store, config, name, self._limits):
            number += 1
            metadata = entry.metadata
            if entry.state is not State.COMPLETED or not isinstance(metadata, CommitMetadata):
                continue
            key = metadata.extra_metadata.get(IDEMPOTENCY_KEY)
            if key is not None:
                instant = Instant(
                    entry.requested_time, entry.action, entry.state, entry.completion_time, name
                )
                found[key] = result_of(instant, metadata, repeated=True)
        return number, found
