"""Reads and writes the bucket rules of a table: the `.hashing_config` files.

I/O. Source: PartitionBucketIndexHashingConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.buckets.partition_rules import (
    PartitionBucketRules,
    choose_hashing_config,
    decode_hashing_config,
    encode_hashing_config,
    plan_archived_rules,
)
from bucketfmt.format.names.layout import (
    HASHING_CONFIG_ARCHIVE_FOLDER,
    HASHING_CONFIG_FOLDER,
    format_hashing_config_name,
    is_hashing_config_name,
    parse_hashing_config_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.process import cached_property
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo, Store

__all__ = [
    "RuleFiles",
    "archive_rules",
    "delete_rules",
    "list_rule_files",
    "load_rule_file",
    "put_rules",
]


def list_rule_files(store: Store, folder: str = HASHING_CONFIG_FOLDER) -> list[FileInfo]:
    """Return the entries with names of rules. Their names may be damaged.

    Raises:
        StorageError: the store failed.
    """
    return [e for e in store.list(folder) if is_hashing_config_name(e.name)]


def load_rule_file(state: TableState, path: str) -> PartitionBucketRules:
    """Return the rules that one file holds.

    Raises:
        CorruptError: the file does not decode.
        LimitError: the file is larger than `limits.hashing_metadata_bytes_max`.
        NotFoundError: the file is gone.
    """
    try:
        data = state.store.read(path, state.limits.hashing_metadata_bytes_max)
        return decode_hashing_config(data, state.limits)
    except BucketfmtError as error:
        raise error.within(path=path) from None


class RuleFiles:
    """The rules of a table at one state of its timeline, and which of them a snapshot goes by.

    Safe to use from several threads.

    Attributes:
        state: Of the table.
    """

    def __init__(self, state: TableState) -> None:
        self.state = state
        self._loaded: dict[str, PartitionBucketRules] = {}

    @cached_property
    def _paths(self) -> Mapping[str, str]:
        if not self.state.may_have(HASHING_CONFIG_FOLDER):
            return {}
        return _paths_of(list_rule_files(self.state.store))

    @cached_property
    def _archived(self) -> Mapping[str, str]:
        """The paths in the archive, which are asked for only by readers of the past."""
        store = self.state.store
        return _paths_of(list_rule_files(store, HASHING_CONFIG_ARCHIVE_FOLDER))

    @property
    def has_any(self) -> bool:
        """Whether the table has rules at any moment, or is about to have some."""
        return bool(self._paths)

    def choose(self, snapshot: Snapshot) -> str | None:
        """Return the path of the rules in force at a snapshot of this state; None for no rules.

        Raises:
            CorruptError: a name is damaged.
        """
        pending = self.state.timeline.pending.requested_times
        later = {instant for instant in self._paths if not snapshot.is_within(instant)}
        as_of = snapshot.as_of
        chosen = choose_hashing_config(self._paths, pending | later)
        if chosen is None and as_of is not None and self._paths:
            chosen = choose_hashing_config((), (), self._archived, as_of)
        return None if chosen is None else self._paths.get(chosen) or self._archived[chosen]

    def in_force(self, snapshot: Snapshot) -> PartitionBucketRules | None:
        """Return the rules in force at a snapshot of this state; None for no rules.

        Raises:
            CorruptError: a name is damaged, or the file does not decode.
            LimitError: the file is too large.
        """
        path = self.choose(snapshot)
        return None if path is None else self.load(path)

    def load(self, path: str) -> PartitionBucketRules:
        """Return the rules of a file, as `load_rule_file`; each is read once."""
        found = self._loaded.get(path)
        if found is None:
            found = self._loaded[path] = load_rule_file(self.state, path)
        return found


def _paths_of(entries: Iterable[FileInfo]) -> dict[str, str]:
    return {parse_hashing_config_name(entry.name): entry.path for entry in entries}


def put_rules(store: Store, rules: PartitionBucketRules) -> None:
    """Write rules; they count once the replacecommit of their instant is completed.

    Raises:
        StorageError: the store failed.
    """
    name = format_hashing_config_name(rules.instant)
    store.put_if_absent(join_path(HASHING_CONFIG_FOLDER, name), encode_hashing_config(rules))


def delete_rules(store: Store, instant: str) -> None:
    """Remove the rules that an instant brought with it, while the table lock is held.

    The folder of the last rules goes too: by the folder Hudi knows a table with rules, and fails
    where the folder holds none. Hudi fails on hidden files as well, which dead writers leave.

    Raises:
        StorageError: the store failed.
    """
    name = format_hashing_config_name(instant)
    entries = store.list(HASHING_CONFIG_FOLDER)
    if not any(is_hashing_config_name(e.name) and e.name != name for e in entries):
        store.delete_tree(HASHING_CONFIG_FOLDER)
        return
    for entry in entries:
        if entry.name == name or entry.name.startswith("."):
            store.delete(entry.path)


def archive_rules(state: TableState) -> None:
    """Move the rules to the archive that no moment of the active timeline goes by.

    The archive gets a file before the file is removed, so that readers of the past find it.

    Raises:
        CorruptError: a name is damaged.
        StorageError: the store failed; do it again.
    """
    first = state.timeline.commits.first
    pending = state.timeline.pending.requested_times
    paths = _paths_of(list_rule_files(state.store))
    start = None if first is None else first.requested_time
    for instant in plan_archived_rules(paths, pending, start):
        data = state.store.read(paths[instant], state.limits.hashing_metadata_bytes_max)
        name = format_hashing_config_name(instant)
        state.store.put_if_absent(join_path(HASHING_CONFIG_ARCHIVE_FOLDER, name), data)
        state.store.delete(paths[instant])
