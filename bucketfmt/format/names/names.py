"""Names of data files, hashing files and markers: text <-> values.

Pure. Source: Hudi's `FSUtils` (patterns of base and log files), `HoodieLogFile`
(order of log files), `BucketIdentifier` (bucket file ids), `WriteMarkers`.

A name is untrusted: a name that parses contains no path separator and no control character, so
joining the name to a folder stays in that folder.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum

import msgspec

from bucketfmt.arguments import check_kind
from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "BaseFileName",
    "FileGroupId",
    "IoType",
    "LogFileName",
    "MarkerName",
    "Rfc29FileName",
    "WriteToken",
    "find_bucket_id",
    "find_consistent_prefix",
    "find_data_file_name",
    "find_metadata_file_name",
    "format_bucket_file_id",
    "format_consistent_file_id",
    "format_nbcc_file_id",
    "format_write_token",
    "parse_base_file_name",
    "parse_bucket_file_name",
    "parse_log_file_name",
    "parse_marker_name",
    "parse_write_token",
]

FileGroupId = tuple[str, str]
"""(partition path, file id)."""

_BUCKET_ID_MAX = 99_999_999  # eight decimal digits
_JAVA_INT_MAX = 2**31 - 1

_BASE_FILE = re.compile(r"([a-zA-Z0-9-]+)_([a-zA-Z0-9-]+)_([0-9]+)\.([a-zA-Z0-9]+)")
_METADATA_BASE_FILE = re.compile(
    r"([^._/\\\x00-\x1f\x7f][^_/\\\x00-\x1f\x7f]*)_([a-zA-Z0-9-]+)_([0-9]+)\.(hfile)"
)
# Hudi takes any file id without "." and "_"; separators and control characters are refused here.
# The instant is empty only in names of the archive, ".commits_.archive.3_1-0-1".
_LOG_FILE = re.compile(
    r"\.([^._/\\\x00-\x1f\x7f]+)_([0-9]*)\.(log|archive)\.(0|[1-9][0-9]{0,9})"
    r"(?:_([0-9]+-[0-9]+-[0-9]+)(\.cdc)?)?"
)
_WRITE_TOKEN = re.compile(r"(0|[1-9][0-9]*)-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)")
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_BUCKET_FILE_ID = re.compile(rf"(?=([0-9]{{8}}))({_UUID})(?:-[0-9]+)?")
_RFC29_FILE = re.compile(
    rf"([0-9]{{1,8}})_([^_./\\\x00-\x1f\x7f]+)_({_UUID})_([0-9]+)\.(?:parquet|log)"
)
_EXTERNAL_FILE_SUFFIX = "_hudiext"


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class WriteToken:
    """The attempt of a task that wrote a file.

    Tokens order as Hudi orders them: as plain text, so `10-0-1` comes before `2-0-1`.
    """

    task_partition_id: int
    stage_id: int
    task_attempt_id: int

    def __str__(self) -> str:
        return f"{self.task_partition_id}-{self.stage_id}-{self.task_attempt_id}"

    def __lt__(self, other: WriteToken) -> bool:
        return str(self) < str(other)


class BaseFileName(msgspec.Struct, frozen=True, gc=False):
    """`<file_id>_<write_token>_<instant>.<extension>`; `str()` gives the name back."""

    file_id: str
    write_token: str
    instant: str
    extension: str

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"


class LogFileName(msgspec.Struct, frozen=True, gc=False):
    """`.<file_id>_<instant>.log.<version>[_<write_token>[.cdc]]`; `str()` gives the name back.

    `instant` is the file slice's base instant in table version 6 and the deltacommit's own
    instant from version 8 on. `is_cdc` files hold change data and are not part of a snapshot.
    """

    file_id: str
    instant: str
    version: int
    write_token: str | None
    extension: str = "log"
    is_cdc: bool = False

    def __str__(self) -> str:
        token = "" if self.write_token is None else f"_{self.write_token}"
        suffix = ".cdc" if self.is_cdc else ""
        return f".{self.file_id}_{self.instant}.{self.extension}.{self.version}{token}{suffix}"

    @property
    def sort_key(self) -> tuple[str, int, str, str]:
        """The order in which log files are merged (`HoodieLogFile.LogFileComparator`)."""
        return (
            self.instant,
            self.version,
            self.write_token or "",
            ".cdc" if self.is_cdc else "",
        )


@dataclass(frozen=True, slots=True)
class Rfc29FileName:
    """A bucket's file in the terms of RFC-29: `${bucketId}_${filegroupId}_${UUID}_${timestamp}`.

    In the names that Hudi writes, the first three parts share the file id: its first eight
    characters are `bucket_id`, the whole id is `file_group_id`, its 36 UUID characters are `uuid`.
    """

    bucket_id: int
    file_group_id: str
    uuid: str
    timestamp: str


class IoType(str, Enum):
    """The kind of write that a marker announces."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"  # table version 6 log files only


@dataclass(frozen=True, slots=True)
class MarkerName:
    """A marker's path below `.hoodie/.temp/<instant>`; `str()` gives it back."""

    partition_path: str
    data_file_name: str
    io_type: IoType

    @property
    def data_file_path(self) -> str:
        """The path of the file that is announced."""
        return join_path(self.partition_path, self.data_file_name)

    def __str__(self) -> str:
        return join_path(self.partition_path, f"{self.data_file_name}.marker.{self.io_type.value}")


def parse_base_file_name(name: str) -> BaseFileName:
    """Return the parts of a base file's name (`FSUtils.BASE_FILE_PATTERN`).

    Raises:
        CorruptError: the name is not of that form.
    """
    found = _BASE_FILE.fullmatch(name)
    if found is None:
        raise CorruptError(f"{name!r} is not a base file name")
    return BaseFileName(*found.groups())


def parse_log_file_name(name: str) -> LogFileName:
    """Return the parts of a log file's name, archive files included (`FSUtils.LOG_FILE_PATTERN`).

    Raises:
        CorruptError: the name is not of that form.
    """
    found = _find_log_file_name(name)
    if found is None:
        raise CorruptError(f"{name!r} is not a log file name")
    return found


def _find_log_file_name(name: str) -> LogFileName | None:
    found = _LOG_FILE.fullmatch(name)
    if found is None:
        return None
    file_id, instant, extension, version, write_token, cdc = found.groups()
    if int(version) > _JAVA_INT_MAX or (not instant and extension == "log"):
        return None
    return LogFileName(file_id, instant, int(version), write_token, extension, cdc is not None)


def find_data_file_name(name: str) -> BaseFileName | LogFileName | None:
    """Return the parts of a data file's name, or None for any other file of a partition folder.

    CDC log files are returned too; a snapshot leaves them out by `is_cdc`.

    Raises:
        UnsupportedError: the file was made outside Hudi and registered with it. Its rows
            belong to the table, so it must not be passed over.
    """
    if name.endswith(_EXTERNAL_FILE_SUFFIX):
        raise UnsupportedError(
            f"{name!r} is a file registered from outside Hudi; "
            "read this table with Hudi, or rewrite it there by clustering"
        )
    if name.startswith("."):
        log_file = _find_log_file_name(name)
        return log_file if log_file is not None and log_file.extension == "log" else None
    base_file = _BASE_FILE.fullmatch(name)
    return BaseFileName(*base_file.groups()) if base_file else None


def find_metadata_file_name(name: str) -> BaseFileName | LogFileName | None:
    """Return the parts of a data file's name in the metadata table; None for any other file.

    The file ids of a partitioned record index hold an escaped partition path.

    Raises:
        CorruptError: a log file has a name that no part of Hudi takes for that of a log file.
    """
    if name.startswith("."):
        log_file = _find_log_file_name(name)
        if log_file is None and ".log." in name and not name.endswith(".crc"):
            raise CorruptError(f"{name!r} is not a log file name; rebuild the metadata table")
        return log_file
    base_file = _METADATA_BASE_FILE.fullmatch(name)
    return BaseFileName(*base_file.groups()) if base_file else None


def format_write_token(task_partition_id: int, stage_id: int, task_attempt_id: int) -> str:
    """Return `<task_partition_id>-<stage_id>-<task_attempt_id>` (`FSUtils.makeWriteToken`)."""
    if min(task_partition_id, stage_id, task_attempt_id) < 0:
        raise ValueError("the parts of a write token must not be negative")
    return f"{task_partition_id}-{stage_id}-{task_attempt_id}"


def parse_write_token(text: str) -> WriteToken:
    """Return the parts of a write token.

    Raises:
        CorruptError: the text is not three decimal numbers joined by hyphens.
        TypeError: `text` is not text.
    """
    check_kind("write_token", text, str, "text such as 0-0-0")
    found = _WRITE_TOKEN.fullmatch(text)
    if found is None or len(text) > 64:  # no task has such ids
        raise CorruptError(f"{text!r} is not a write token")
    return WriteToken(*map(int, found.groups()))


def find_bucket_id(file_id: str) -> int | None:
    """Return the bucket id that a simple bucket index put into a file id; None if there is none.

    A random UUID may begin with eight digits too: only the table's index makes it a bucket id.
    Source: `BucketIdentifier.bucketIdFromFileId`.
    """
    head = file_id[:8]
    return int(head) if len(head) == 8 and head.isascii() and head.isdigit() else None


def _format_bucket_id(bucket_id: int) -> str:
    if not 0 <= bucket_id <= _BUCKET_ID_MAX:
        raise ValueError(f"bucket id {bucket_id} is not in 0..{_BUCKET_ID_MAX}")
    return f"{bucket_id:08d}"


def format_bucket_file_id(bucket_id: int, uuid: str, *, with_suffix: bool = True) -> str:
    """Return a new file id for a bucket: `uuid` with its first eight characters replaced.

    Args:
        bucket_id: 0..99999999.
        uuid: A random UUID in its 36-character form.
        with_suffix: Whether the id ends in `-0`, as with write handles; Spark's row-writing bulk
            insert leaves it out.

    Source: `BucketIdentifier.newBucketFileIdPrefix`.
    """
    if re.fullmatch(_UUID, uuid) is None:
        raise ValueError(f"{uuid!r} is not a UUID")
    return _format_bucket_id(bucket_id) + uuid[8:] + ("-0" if with_suffix else "")


def format_nbcc_file_id(bucket_id: int) -> str:
    """Return the only file id that a bucket has under non-blocking concurrency control.

    Source: `BucketIdentifier.newBucketFileIdForNBCC`.
    """
    return f"{_format_bucket_id(bucket_id)}-0000-0000-0000-000000000000-0"


def format_consistent_file_id(prefix: str) -> str:
    """Return the file id of a consistent hashing node (`FSUtils.createNewFileId(prefix, 0)`)."""
    return f"{prefix}-0"


def find_consistent_prefix(file_id: str) -> str | None:
    """Return the prefix of the file id of a consistent hashing node; None of other file ids."""
    return file_id[:-2] if file_id.endswith("-0") else None


def parse_bucket_file_name(name: str) -> Rfc29FileName:
    """Return what RFC-29 reads from the name of a bucket's base or log file.

    Both the names Hudi writes and RFC-29's template spelled out literally are understood.

    Raises:
        CorruptError: the name is not a data file name, or its file id has no bucket id.
    """
    literal = _RFC29_FILE.fullmatch(name)
    if literal is not None:
        bucket_id, file_group_id, uuid, timestamp = literal.groups()
        return Rfc29FileName(int(bucket_id), file_group_id, uuid, timestamp)
    data_file = find_data_file_name(name)
    if data_file is None:
        raise CorruptError(f"{name!r} is not a data file name")
    found = _BUCKET_FILE_ID.fullmatch(data_file.file_id)
    if found is None:
        raise CorruptError(
            f"{name!r} is not a bucket's file: the file id does not begin with eight digits"
        )
    return Rfc29FileName(int(found[1]), data_file.file_id, found[2], data_file.instant)


def parse_marker_name(path: str, limits: Limits = DEFAULT_LIMITS) -> MarkerName:
    """Return the parts of a marker's path below `.hoodie/.temp/<instant>`.

    Both a direct marker's path and a line of a `MARKERS<n>` file have this form.

    Raises:
        CorruptError: the path does not end in `.marker.` and a known type.
        UnsafePathError: the path would leave the table root.
    """
    partition_path, _, name = check_relative_path(path, limits).rpartition("/")
    data_file_name, separator, io_type = name.rpartition(".marker.")
    if not separator or not data_file_name or io_type not in IoType.__members__:
        raise CorruptError(
            f"{path!r} is not a marker; a marker is named <file>.marker.CREATE, .MERGE or .APPEND"
        )
    return MarkerName(partition_path, data_file_name, IoType(io_type))
