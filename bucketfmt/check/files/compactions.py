"""Pending compactions: whether the files that their plans name are there.

Reads plans and listings; the archived timeline only where a planned file is gone. T007.
"""

from __future__ import annotations

from collections.abc import Iterator

from bucketfmt.check.examined import ExaminedState, event_of_instant
from bucketfmt.check.report import Event, Finding
from bucketfmt.errors import BucketfmtError
from bucketfmt.snapshot.data_files.committed_logs import find_missing_files, load_never_committed
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.load import load_compaction_plan, load_unplanned
from bucketfmt.timeline.timeline import Instant

__all__ = ["load_compaction_faults", "unplanned_finding"]


def load_compaction_faults(state: ExaminedState, snapshot: Snapshot) -> Iterator[Event]:
    """Yield T007 for each pending compaction that cannot be executed as it was planned.

    And T001 for each whose plan was never written.
    """
    unplanned = load_unplanned(state.store, state.config, state.timeline)
    for path, instant in unplanned.items():
        fix = "Compact the table by `compact()`, which removes the file."
        yield unplanned_finding("T001", instant, path, fix)
    for instant in state.timeline.pending.of("compaction").instants:
        if instant in unplanned.values():
            continue
        try:
            plan = load_compaction_plan(state.store, state.config, instant, state.limits)
            gone = [p for each in plan.operations for p in find_missing_files(snapshot, each)]
            never = load_never_committed(snapshot, plan.operations) if gone else frozenset()
        except BucketfmtError as error:
            yield event_of_instant(error, instant)
            continue
        recorded = [path for path in gone if path not in never]
        if recorded:
            yield _finding(
                instant,
                "files that an archived commit wrote are gone",
                recorded,
                fix="Restore the files, or the table to a savepoint before the compaction.",
                data_loss=True,
            )
        if never:
            yield _finding(
                instant,
                "files are gone that no completed instant wrote",
                sorted(never),
            )


def unplanned_finding(finding_id: str, instant: Instant, path: str, fix: str) -> Finding:
    """Return that the plan of a compaction was never written."""
    return Finding.of(
        finding_id,
        "the requested file of a compaction is empty: Hudi died before it wrote the plan, and "
        "fails on the file",
        paths=[path],
        instants=[instant.requested_time],
        fix=fix,
        data_loss=False,
    )


def _finding(
    instant: Instant,
    evidence: str,
    paths: list[str],
    *,
    fix: str | None = None,
    data_loss: bool | None = None,
) -> Finding:
    text = f"compaction {instant.requested_time} cannot be executed as it was planned: {evidence}"
    instants = [instant.requested_time]
    return Finding.of("T007", text, paths=paths, instants=instants, fix=fix, data_loss=data_loss)
