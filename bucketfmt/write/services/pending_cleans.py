"""The files that cleans which have begun will delete. I/O, read only."""

from __future__ import annotations

from contextlib import suppress

from bucketfmt.errors import NotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import CleanerPlan
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.load import load_requested_content
from bucketfmt.timeline.timeline import Timeline
from bucketfmt.write.services.plan_clean import planned_names

__all__ = ["load_doomed"]


def load_doomed(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits
) -> set[tuple[str, str]]:
    """Return (partition path, name) of the files that pending cleans will delete.

    A clean whose plan is not there deletes nothing.

    Raises:
        CorruptError: a plan does not decode.
        StorageError: the store failed.
    """
    doomed: set[tuple[str, str]] = set()
    for instant in timeline.pending.of("clean").instants:
        with suppress(NotFoundError):
            plan = load_requested_content(store, config, instant, limits)
            if isinstance(plan, CleanerPlan):
                for path, names in planned_names(plan).items():
                    doomed.update((path, name) for name in names)
    return doomed
