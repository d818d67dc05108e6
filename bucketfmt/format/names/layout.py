"""Where a table keeps the files that are not data: below `.hoodie`, and one in each partition.

Pure. Paths are relative to the table's root. No other module spells one of these names;
tests/architecture holds this. Names of timeline files are in `instants`, names of data files in
`names`.
Source: `HoodieTableMetaClient`, `HoodieTableConfig`, `HoodiePartitionMetadata`,
`HoodieHashingConfig` (`ConsistentBucketIndexUtils`, `PartitionBucketIndexHashingConfig`),
`LSMTimeline`, `ArchivedTimelineV1`, `StorageBasedLockProvider`, `FileSystemBasedLockProvider`.
"""

from __future__ import annotations

import re

from bucketfmt.errors import CorruptError

__all__ = [
    "ACTIVE_FOLDER_NAME",
    "ARCHIVE_FOLDER_NAME",
    "ARCHIVE_MERGE_PLAN_NAME",
    "DIRECTORIES_FOLDER",
    "EMPTY_FILE_NAME",
    "FILE_LOCK",
    "HASHING_CONFIG_ARCHIVE_FOLDER",
    "HASHING_CONFIG_FOLDER",
    "HASHING_METADATA_FOLDERS",
    "HEARTBEAT_FOLDER",
    "HISTORY_FOLDER_NAME",
    "HISTORY_VERSION_NAME",
    "LEASE",
    "METADATA_FOLDER",
    "METADATA_TABLE",
    "PARTITION_METAFILE",
    "PARTITION_RULES_FOLDER",
    "PROPERTIES",
    "PROPERTIES_BACKUP",
    "SCHEMA_FOLDER",
    "STORE_TIME",
    "UNKNOWN_WRITE_TOKEN",
    "checksum_path",
    "find_archive_number",
    "find_manifest_version",
    "format_archive_name",
    "format_hashing_config_name",
    "format_hashing_marker_name",
    "format_hashing_metadata_name",
    "format_manifest_name",
    "hashing_metadata_folder",
    "heartbeat_path",
    "is_hashing_config_name",
    "is_hashing_marker_name",
    "is_hashing_metadata_name",
    "is_metadata_path",
    "is_partition_metafile_name",
    "is_properties_name",
    "is_properties_update_name",
    "marker_folder",
    "parse_hashing_config_name",
    "parse_hashing_marker_name",
    "parse_hashing_metadata_name",
]

METADATA_FOLDER = ".hoodie"
"""Holds every file of a table that is neither data nor a partition metafile."""

METADATA_TABLE = f"{METADATA_FOLDER}/metadata"
"""The root of the metadata table, which has a `.hoodie` folder of its own."""

SCHEMA_FOLDER = f"{METADATA_FOLDER}/.schema"
"""Holds the schemas with column ids, one file for each change of the schema."""


UNKNOWN_WRITE_TOKEN = "1-0-1"  # noqa: S105
"""The write token of a file that no task writes (HoodieLogFormat.UNKNOWN_WRITE_TOKEN)."""


def is_metadata_path(path: str) -> bool:
    """Return whether a path is `.hoodie` or lies below it."""
    return path.partition("/")[0] == METADATA_FOLDER


def checksum_path(path: str) -> str:
    """Return the path of the checksum file that Hadoop keeps of a file on a disk.

    Whoever puts a file removes it first: Hadoop refuses to read a file by the checksum of the one
    that was there before.
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


# --- hoodie.properties

_PROPERTIES_NAME = "hoodie.properties"
PROPERTIES = f"{METADATA_FOLDER}/{_PROPERTIES_NAME}"
PROPERTIES_BACKUP = f"{PROPERTIES}.backup"
"""A copy of the properties, there while an update replaces them."""


def is_properties_name(name: str) -> bool:
    """Return whether a file of this name holds properties: the table's, or a copy of them."""
    return name.startswith(_PROPERTIES_NAME)


def is_properties_update_name(name: str) -> bool:
    """Return whether a file of this name is there only while an update replaces the properties."""
    return name.startswith(f"{_PROPERTIES_NAME}.")


# --- the timeline

ACTIVE_FOLDER_NAME = "timeline"
"""The default of `hoodie.timeline.path`, below `.hoodie` (layout 2)."""

HISTORY_FOLDER_NAME = "history"
"""The default of `hoodie.timeline.history.path`, below the active timeline (layout 2)."""

ARCHIVE_FOLDER_NAME = "archived"
"""The default of `hoodie.archivelog.folder`, below `.hoodie` (layout 1)."""

HISTORY_VERSION_NAME = "_version_"
"""The file of layout 2's history that holds the version of the manifest in force."""

ARCHIVE_MERGE_PLAN_NAME = "mergeArchivePlan"
"""The file of layout 1's archive that says which archive files are being merged."""

EMPTY_FILE_NAME = ".empty"
"""A file that is put and deleted so that its folder is there, where a store has folders."""

_ARCHIVE_NAME = re.compile(r"\.commits_\.archive\.([0-9]{1,9}).*")
_MANIFEST_NAME = re.compile(r"manifest_([0-9]{1,9})")


def format_manifest_name(version: int) -> str:
    """Return the name of a manifest of layout 2's history."""
    return f"manifest_{version}"


def find_manifest_version(name: str) -> int | None:
    """Return N of `manifest_N`; None for a file that is no manifest."""
    found = _MANIFEST_NAME.fullmatch(name)
    return int(found[1]) if found else None


def format_archive_name(number: int) -> str:
    """Return the name of the archive file of layout 1 with this number."""
    return f".commits_.archive.{number}_{UNKNOWN_WRITE_TOKEN}"


def find_archive_number(name: str) -> int | None:
    """Return N of `.commits_.archive.N...`; None for a file that is no archive file."""
    found = _ARCHIVE_NAME.fullmatch(name)
    return int(found[1]) if found else None


# --- writers: locks, heartbeats, markers

FILE_LOCK = f"{METADATA_FOLDER}/lock"
"""The file of Hudi's `FileSystemBasedLockProvider`."""

LEASE = f"{METADATA_FOLDER}/.locks/table_lock.json"
"""The file of Hudi's `StorageBasedLockProvider`."""

STORE_TIME = f"{METADATA_FOLDER}/.locks/time"
"""An empty file that tells the time of the store, for a moment; Hudi does not know it."""

HEARTBEAT_FOLDER = f"{METADATA_FOLDER}/.heartbeat"


def heartbeat_path(requested_time: str) -> str:
    """Return the heartbeat file of an instant."""
    return f"{HEARTBEAT_FOLDER}/{requested_time}"


def marker_folder(requested_time: str) -> str:
    """Return the folder of the markers of an instant."""
    return f"{METADATA_FOLDER}/.temp/{requested_time}"


# --- partitions

PARTITION_METAFILE = ".hoodie_partition_metadata"
"""The file that makes a folder a partition."""


def is_partition_metafile_name(name: str) -> bool:
    """Return whether a file of this name makes its folder a partition.

    The name can have an extension: Hudi also writes the file in the format of base files.
    """
    return name.startswith(PARTITION_METAFILE)


# --- the bucket index

_BUCKET_INDEX = f"{METADATA_FOLDER}/.bucket_index"
HASHING_METADATA_FOLDERS = (
    f"{_BUCKET_INDEX}/consistent_hashing_metadata",
    f"{METADATA_FOLDER}/.hashing_meta",  # as RFC-42 has it
)
"""The folders that consistent hashing metadata can be in; writers use the first."""

DIRECTORIES_FOLDER = f"{_BUCKET_INDEX}/extendible_hashing_metadata"
"""The folder of the directories of extendible hashing, which only this package knows."""

PARTITION_RULES_FOLDER = f"{_BUCKET_INDEX}/partition_bucket_index_meta"
"""Is there where partitions have numbers of buckets by rules."""

HASHING_CONFIG_FOLDER = f"{PARTITION_RULES_FOLDER}/configs"
"""Holds the rules, one file for each change."""

HASHING_CONFIG_ARCHIVE_FOLDER = f"{PARTITION_RULES_FOLDER}/archive"
"""Holds the rules that no moment of the active timeline goes by."""

_HASHING_METADATA, _HASHING_MARKER, _HASHING_CONFIG = ".hashing_meta", ".commit", ".hashing_config"


def hashing_metadata_folder(root: str, partition_path: str) -> str:
    """Return the folder of a partition's hashing metadata.

    Args:
        root: One of `HASHING_METADATA_FOLDERS`, or `DIRECTORIES_FOLDER`.
        partition_path: The partition.
    """
    return f"{root}/{partition_path}" if partition_path else root


def is_hashing_metadata_name(name: str) -> bool:
    """Return whether a name ends as names of consistent hashing metadata do."""
    return name.endswith(_HASHING_METADATA)


def parse_hashing_metadata_name(name: str) -> str:
    """Return the instant of `<instant>.hashing_meta`.

    Raises:
        CorruptError: the name is not of this form, for example that of a temporary file.
    """
    return _parse_instant_name(name, _HASHING_METADATA)


def format_hashing_metadata_name(instant: str) -> str:
    """Return the name of the consistent hashing metadata of `instant`."""
    return instant + _HASHING_METADATA


def is_hashing_marker_name(name: str) -> bool:
    """Return whether a name ends as names of the markers of committed rings do."""
    return name.endswith(_HASHING_MARKER)


def parse_hashing_marker_name(name: str) -> str:
    """Return the instant of `<instant>.commit`, which marks hashing metadata as committed.

    Raises:
        CorruptError: the name is not of this form.
    """
    return _parse_instant_name(name, _HASHING_MARKER)


def format_hashing_marker_name(instant: str) -> str:
    """Return the name of the empty file that marks hashing metadata as committed."""
    return instant + _HASHING_MARKER


def is_hashing_config_name(name: str) -> bool:
    """Return whether a name ends as names of partition-level bucket rules do."""
    return name.endswith(_HASHING_CONFIG)


def parse_hashing_config_name(name: str) -> str:
    """Return the instant of `<instant>.hashing_config` (partition-level bucket rules).

    Raises:
        CorruptError: the name is not of this form.
    """
    return _parse_instant_name(name, _HASHING_CONFIG)


def format_hashing_config_name(instant: str) -> str:
    """Return the name of the partition-level bucket rules of `instant`."""
    return instant + _HASHING_CONFIG


def _parse_instant_name(name: str, suffix: str) -> str:
    instant = name.removesuffix(suffix)
    if instant == name or re.fullmatch("[0-9]+", instant) is None:
        raise CorruptError(f"{name!r} is not an instant followed by {suffix!r}")
    return instant
