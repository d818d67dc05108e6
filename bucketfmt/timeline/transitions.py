"""Transitions of an instant on the timeline: requested, inflight, completed.

Does I/O: each transition is one file, created atomically or not at all. Source:
`ActiveTimelineV1/V2`, `BaseHoodieClient`. Only the last transition changes what readers see. Until
then the table reads as before.

Of two writers that make the same transition one succeeds; the other gets `ConflictError`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from bucketfmt.errors import (
    CommitUnknownError,
    ConflictError,
    LockLostError,
    StorageError,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.instants import State, comparable_action, format_instant_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.instant_content import InstantContent, encode_instant_content
from bucketfmt.storage.store import Store, has_content
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["delete_instant_file", "put_completed", "put_inflight", "put_requested"]

_TRIES_MAX = 3


def put_requested(
    store: Store,
    config: TableConfig,
    requested_time: str,
    action: str,
    content: InstantContent | None = None,
) -> Instant:
    """Announce an action: the first of its files.

    Args:
        store: The table's files.
        config: The table's properties.
        requested_time: A new time (`InstantClock.next_time`), taken under the table lock.
        action: For example `deltacommit`, `compaction`, `clustering`.
        content: The plan, for an action that has a plan; None for a commit or a deltacommit.

    Raises:
        ConflictError: another writer has announced the same action for that time.
        TypeError: the content is of a type that such a file does not hold.
        StorageError: the store failed. The file may exist: a failed write, to be rolled back.
    """
    return _put_pending(store, config, requested_time, action, State.REQUESTED, content)


def put_inflight(
    store: Store,
    config: TableConfig,
    requested_time: str,
    action: str,
    content: InstantContent | None = None,
) -> Instant:
    """Begin a requested action, or a savepoint, which has no requested file.

    Args:
        store: The table's files.
        config: The table's properties.
        requested_time: As it was requested.
        action: As it was requested.
        content: The planned files of a write, or the plan of a clean; None for other actions.

    Raises:
        ConflictError: another writer has begun the action, and may be at work or have failed.
        TypeError: the content is of a type that such a file does not hold.
        StorageError: the store failed. The file may exist: a failed write, to be rolled back.
    """
    return _put_pending(store, config, requested_time, action, State.INFLIGHT, content)


def put_completed(
    store: Store,
    config: TableConfig,
    timeline: Timeline,
    clock: InstantClock,
    requested_time: str,
    action: str,
    content: InstantContent,
    may_publish: Callable[[], bool] = lambda: True,
    was_kept: Callable[[], bool] | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> Instant:
    """Publish an inflight action: from now on readers see its effects.

    Args:
        store: The table's files.
        config: The table's properties.
        timeline: As loaded under the table lock, which is still held.
        clock: Gives the completion time, which is later than all times on the timeline (layout 2).
        requested_time: As it was requested.
        action: As it was requested; a `compaction` is published as a `commit`, and so on.
        content: What the action did.
        may_publish: Returns whether the lock and the heartbeat are held. Called right before each
            try.
        was_kept: Returns whether they still are. Called once the file exists; by default
            `may_publish`.
        prepare: Called once the action is known to be inflight, before anything is published.

    Returns:
        The instant. In layout 1 its completion time, which is the file's own, is None.

    Raises:
        ConflictError: the action is not inflight any more, or `may_publish` is False. Nothing was
            published.
        CommitUnknownError: the store failed, and whether the file exists is unknown.
        LockLostError: the file exists, and the lock may have been lost before the file appeared.
        StorageError: the store failed and nothing was published.
        TypeError: the content is of a type that such a file does not hold.
    """
    layout = config.timeline_layout
    data = encode_instant_content(content, action, State.COMPLETED, layout)
    _check_inflight(store, config, timeline, requested_time, action)
    prepare()
    completion_time = clock.next_time((timeline.latest_time,)) if layout == 2 else None
    name = format_instant_file_name(
        requested_time, action, State.COMPLETED, completion_time, layout
    )
    path = join_path(config.timeline_path, name)
    _publish(store, path, data, may_publish)
    if not _was_kept(was_kept or may_publish):
        raise LockLostError(
            f"{action} {requested_time} was published, but the table lock or the heartbeat was "
            "lost before the file appeared: this process or its disk stood still for longer than "
            "the lease. Rows of this commit, or of another one that completed meanwhile and wrote "
            "to the same buckets, may be hidden. Look at the timeline: if there is such a commit, "
            "write the rows that are missing again; after a table service, run a full check",
            path=path,
        )
    return Instant(
        requested_time, comparable_action(action, 2), State.COMPLETED, completion_time, name
    )


def delete_instant_file(store: Store, config: TableConfig, name: str) -> None:
    """Take a state of an instant back: remove its file from the active timeline.

    Args:
        store: The table's files.
        config: The table's properties.
        name: `Instant.file_name`, or the name of another state (`format_instant_file_name`).

    Raises:
        StorageError: the store failed. The file may be gone.
    """
    store.delete(join_path(config.timeline_path, name))


def _put_pending(
    store: Store,
    config: TableConfig,
    requested_time: str,
    action: str,
    state: State,
    content: InstantContent | None,
) -> Instant:
    layout = config.timeline_layout
    name = format_instant_file_name(requested_time, action, state, None, layout)
    data = encode_instant_content(content, action, state, layout)
    # That a file like this is there proves nothing: two writers' files can be equal. So it is
    # never taken for our own, not even after a failure.
    if not store.put_if_absent(join_path(config.timeline_path, name), data):
        raise ConflictError(
            f"{name} exists: another writer created it first. Reload the table and begin again"
        )
    if layout == 1 and action == "clustering":
        action = "replacecommit"  # as its file has it
    return Instant(requested_time, action, state, None, name)


def _check_inflight(
    store: Store, config: TableConfig, timeline: Timeline, requested_time: str, action: str
) -> None:
    """Raise unless the timeline has the action inflight.

    Raises:
        ConflictError: another writer has completed it or rolled it back.
        StorageError: its file is there, and was not listed: nothing is known of what others did.
    """
    completes_as = comparable_action(action, 2)
    for instant in reversed(timeline.instants):
        if instant.requested_time == requested_time and (
            comparable_action(instant.action, 2) == completes_as
        ):
            if instant.state is State.INFLIGHT:
                return
            found = instant.state.value.lower()
            break
    else:
        found = "not on the timeline"
        name = format_instant_file_name(
            requested_time, action, State.INFLIGHT, None, config.timeline_layout
        )
        path = join_path(config.timeline_path, name)
        if store.info(path) is not None:
            raise StorageError(
                "the store lists files late, which tables cannot be written on: this file is there "
                "and was not listed. Nothing was published; the next write takes this one back",
                path=path,
            )
    raise ConflictError(
        f"{action} {requested_time} is {found} where it should be inflight: another writer "
        "completed it or rolled it back. Nothing was published; reload the table and begin again"
    )


def _publish(store: Store, path: str, data: Buffer, may_publish: Callable[[], bool]) -> None:
    """Create the file, or find that an earlier try did: the content tells who made the file."""
    failure: StorageError | None = None
    for _ in range(_TRIES_MAX):
        if not _may_publish(may_publish, failure):
            break
        try:
            # False also if the store itself tried twice, or an earlier try took effect late.
            if store.put_if_absent(path, data) or has_content(store, path, data):
                return
        except StorageError as error:
            failure = error
            # A second try settles what became of the first, since only one can take effect;
            # a store that has answered would answer the same.
            if store.failures_are_final:
                break
        else:
            raise ConflictError(
                "another writer published this instant; reload the table", path=path
            )
    if failure is None:
        raise ConflictError(
            "the table lock or the heartbeat was lost before this could be published. Nothing "
            "was; reload the table and begin again, with longer leases if it recurs",
            path=path,
        )
    try:
        if has_content(store, path, data):
            return
        is_known = store.failures_are_final
    except StorageError:
        is_known = False
    if is_known:
        raise failure
    raise CommitUnknownError(
        f"whether the commit took effect is unknown: {failure.message}. It did if this file is "
        "there by the time the store answers again; clean up nothing before",
        path=path,
    ) from failure


def _may_publish(may_publish: Callable[[], bool], failure: StorageError | None) -> bool:
    try:
        return may_publish()
    except StorageError:
        if failure is None:
            raise  # nothing was tried
        return False


def _was_kept(was_kept: Callable[[], bool]) -> bool:
    """Whether the lock that was held before the file appeared is still held.

    Each acquisition is an owner of its own, so a lock that is held now was never lost in between.
    """
    for _ in range(_TRIES_MAX):
        with suppress(StorageError):
            return was_kept()
    return False
