"""Reading what the instants that may conflict with a write touch.

Does I/O, read only. Source: `ConcurrentOperation`, `MetadataConversionUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bucketfmt.format.names.instants import State
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import RequestedReplaceMetadata
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.load import load_instant_content, load_requested_content
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.commit.conflicts import ConcurrentOperation, concurrent_operation

__all__ = ["load_concurrent_operations"]


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
