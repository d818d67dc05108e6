"""Whether a commit may be published beside what others did since it began, and with which columns.

I/O, read only. Source: `TransactionUtils.resolveWriteConflictIfAny`, `ConcurrentOperation`,
`MetadataConversionUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from bucketfmt.errors import ConflictError
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import RequestedReplaceMetadata
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.snapshot.overtaken import find_undoing, find_what_may_be_archived
from bucketfmt.storage.store import Store
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import load_instant_content, load_requested_content
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant, Timeline
from bucketfmt.write.conflicts.find_conflicts import (
    ConcurrentOperation,
    concurrent_operation,
    conflict_error,
    find_candidates,
    find_conflicts,
)
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.schema_change import settle_columns
from bucketfmt.write.undo.rollback_conflicts import check_resizes_kept, check_still_there

__all__ = ["ProposedCommit", "load_concurrent_operations", "resolve_conflicts"]


@dataclass(frozen=True)
class ProposedCommit:
    """A commit that is to be published.

    Attributes:
        instant: Its instant, pending.
        metadata: What it wrote.
        basis: What it stands on.
        before: Whoever completed after this may be in conflict.
        may_overlap: Others may have logged to the same file groups: see `find_conflicts`.
    """

    instant: Instant
    metadata: CommitMetadata
    basis: Basis
    before: Timeline
    may_overlap: bool = False

    @property
    def copied_for(self) -> frozenset[str]:
        """The requested times of the pending resizes that rows were copied for."""
        pending = self.basis.snapshot.state.timeline.pending.of(*REPLACING_ACTIONS)
        resizes = pending.requested_times - {self.instant.requested_time}
        if not resizes:
            return frozenset()
        names = (stat.file_name for stat in self.metadata.write_stats)
        return frozenset(
            name.instant for name in names if name is not None and name.instant in resizes
        )

    @property
    def has_base_files(self) -> bool:
        """Whether it wrote base files, and not log files only."""
        return any(isinstance(stat.file_name, BaseFileName) for stat in self.metadata.write_stats)


def resolve_conflicts(
    store: Store, config: TableConfig, limits: Limits, commit: ProposedCommit, now: Timeline
) -> CommitMetadata:
    """Return what a commit wrote, with the columns that others have given the table meanwhile.

    Args:
        store: The table's files.
        config: The table's properties.
        limits: Bounds on what is read.
        commit: The commit.
        now: The timeline, as it is under the table lock.

    Raises:
        ConflictError: another writer has written to the same buckets, changed the columns that the
            commit changes, or took back what it stands on; or nobody can tell any more.
        CorruptError: a file of the timeline does not decode.
        StorageError: the store failed.
    """
    check_still_there(commit.before, now)
    _check_not_archived(store, config, limits, commit.before, now)
    if commit.basis.index.keeps_locations:
        _check_not_undone(commit.basis.snapshot.state.timeline, now)
    candidates = find_candidates(
        config,
        commit.before,
        now,
        commit.instant.requested_time,
        writes_base_files=commit.has_base_files,
    )
    others = load_concurrent_operations(store, config, candidates, limits)
    ours = concurrent_operation(replace(commit.instant, state=State.INFLIGHT), commit.metadata)
    ours = replace(ours, copied_for=commit.copied_for)
    check_resizes_kept(ours.copied_for, now)
    conflicts = find_conflicts(ours, others, commit.basis.index, may_overlap=commit.may_overlap)
    if conflicts:
        raise conflict_error(conflicts)
    basis, metadata = commit.basis, commit.metadata
    columns = settle_columns(ours, basis.stated_by, others, is_change=basis.is_schema_change)
    if columns is ours:
        return metadata
    stated = {"schema": columns.schema, "latest_schema": columns.latest_schema}
    kept = {k: v for k, v in metadata.extra_metadata.items() if k not in stated}
    stated = {name: text for name, text in stated.items() if text}
    return msgspec.structs.replace(metadata, extra_metadata={**kept, **stated})


def _check_not_archived(
    store: Store, config: TableConfig, limits: Limits, before: Timeline, now: Timeline
) -> None:
    """Refuse to publish where writes since the basis was read are no longer on the timeline.

    Whether they wrote to the same buckets could be read in the archive; it is as quick to
    write again.
    """
    since = find_what_may_be_archived(before, now)
    if since is None:
        return
    known = before.completed.requested_times
    archived = load_history(store, config, limits, since=since)
    for instant in Timeline(archived, now.layout).writes.completed.instants:
        if instant.requested_time not in known:
            raise ConflictError(
                f"{instant.action} {instant.requested_time} completed and was archived since "
                "the table was read for this write. Nothing was published; reload the table "
                "and retry"
            )


def _check_not_undone(before: Timeline, now: Timeline) -> None:
    """Refuse to publish where the index may have been read with what was taken back since.

    The index may be newer than the timeline that a write stands on: a key was found then where it
    was moved to, by a write that was completed and rolled back meanwhile.
    """
    undoing = find_undoing(before, now)
    if undoing is not None:
        raise ConflictError(
            f"{undoing.action} {undoing.requested_time} was begun since the record index was read "
            "for this write. Nothing was published; reload the table and retry"
        )


def load_concurrent_operations(
    store: Store,
    config: TableConfig,
    candidates: Iterable[Instant],
    limits: Limits = DEFAULT_LIMITS,
) -> list[ConcurrentOperation]:
    """Return what each of these instants touches (`conflicts.find_candidates`).

    Raises:
        CorruptError: a file does not decode.
        NotFoundError: a file is gone: reload the timeline, under the table lock.
    """
    return [
        concurrent_operation(instant, _load_content(store, config, instant, limits))
        for instant in candidates
    ]


def _load_content(
    store: Store, config: TableConfig, instant: Instant, limits: Limits
) -> InstantContent | None:
    if instant.is_completed and instant.action != "restore":
        return load_instant_content(store, config, instant, limits)
    plan = load_requested_content(store, config, instant, limits)
    is_overwrite = instant.action == "replacecommit" and not (
        isinstance(plan, RequestedReplaceMetadata) and plan.clustering_plan is not None
    )
    if is_overwrite and instant.state is State.INFLIGHT:
        return load_instant_content(store, config, instant, limits)
    return plan
