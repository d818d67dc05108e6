"""Reads and writes the bucket rules of a table: the `.hashing_config` files.

I/O. Source: PartitionBucketIndexHashingConfig.
"""

from __future__ import annotations

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.buckets.partition_rules import (
    PartitionBucketRules,
    choose_hashing_config,
    decode_hashing_config,
    encode_hashing_config,
)
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.layout import (
    HASHING_CONFIG_FOLDER,
    format_hashing_config_name,
    is_hashing_config_name,
    parse_hashing_config_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo, Store

__all__ = [
    "delete_rules",
    "list_rule_files",
    "load_rule_file",
    "load_rules",
    "put_initial_rules",
]


def list_rule_files(store: Store) -> list[FileInfo]:
    """Return the entries with names of rules. Their names may be damaged.

    Raises:
        StorageError: the store failed.
    """
    return [e for e in store.list(HASHING_CONFIG_FOLDER) if is_hashing_config_name(e.name)]


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


def load_rules(state: TableState) -> PartitionBucketRules | None:
    """Return the rules in force: the newest that are not pending; None where there are no rules.

    Raises:
        CorruptError: a name is damaged, or the file in force does not decode.
        LimitError: the file in force is too large.
    """
    paths = {parse_hashing_config_name(e.name): e.path for e in list_rule_files(state.store)}
    pending = {instant.requested_time for instant in state.timeline.pending.instants}
    chosen = choose_hashing_config(paths, pending)
    return load_rule_file(state, paths[chosen]) if chosen is not None else None


def put_initial_rules(store: Store, rules: PartitionBucketRules) -> None:
    """Write the rules of a new table.

    Raises:
        StorageError: the store failed.
    """
    path = join_path(HASHING_CONFIG_FOLDER, format_hashing_config_name(INIT_INSTANT))
    store.put_if_absent(path, encode_hashing_config(rules))


def delete_rules(store: Store, instant: str) -> None:
    """Remove the rules that an instant brought with it.

    Raises:
        StorageError: the store failed.
    """
    store.delete(join_path(HASHING_CONFIG_FOLDER, format_hashing_config_name(instant)))
