"""Receipts: what the writer of one bucket tells the one who commits.

Pure. Small JSON, because it comes back from other processes: a row of a result, a message, a
line of a file. Source: WriteStatus; that of several attempts one counts is what Spark's
OutputCommitCoordinator sees to for Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pyarrow as pa
from msgspec.structs import force_setattr

from bucketfmt.arguments import check_kind
from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import ColumnStats, decode_metadata_record
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.names import FileGroupId, find_data_file_name, parse_write_token
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.limits import Limits

__all__ = [
    "PointedReceipt",
    "Receipt",
    "RowReport",
    "Winners",
    "decode_receipt",
    "encode_receipt",
    "file_groups_of",
    "find_winners",
    "reports_by_path",
    "stats_by_partition",
]


_SENT_VERSION = 9  # table version whose schema has the bounds of all others


@dataclass(frozen=True)
class RowReport:
    """What the writer of a file knows of its rows and the metadata table is to know.

    Whoever commits reads of the file what the report leaves out.

    Attributes:
        column_stats: The statistics of the columns of the file; None: they were not taken.
        keys: The keys that came to the file group and those that went, as `large_string`; None:
            they were not taken, or are too many. Keys stay in the process: a receipt that is sent
            leaves them out.
    """

    column_stats: Sequence[ColumnStats] | None = None
    keys: tuple[pa.Array, pa.Array] | None = None


@dataclass(frozen=True, slots=True)
class PointedReceipt:
    """A file of another file group, which the virtual log of a bucket points to.

    Attributes:
        stat: The file.
        report: As `Receipt.report`.
    """

    stat: WriteStat
    report: RowReport | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """One bucket that one attempt of a task has written.

    Attributes:
        partition_path: Of the bucket.
        file_id: Its file group.
        write_token: Of the attempt.
        stat: The file; None where the rows came to nothing.
        report: Of the rows of the file; None where no metadata table wants it.
        pointed: The log files with the rows, where the file is a virtual log.
    """

    partition_path: str
    file_id: str
    write_token: str
    stat: WriteStat | None = None
    report: RowReport | None = None
    pointed: tuple[PointedReceipt, ...] = ()

    @property
    def files(self) -> Iterator[tuple[WriteStat, RowReport | None]]:
        """All its files, and what is reported of their rows."""
        if self.stat is not None:
            yield self.stat, self.report
        for file in self.pointed:
            yield file.stat, file.report


class _SentReport(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A report as JSON: the statistics are records of `column_stats`, encoded."""

    column_stats: tuple[bytes, ...] | None = None


class _SentFile(msgspec.Struct, frozen=True, omit_defaults=True):
    stat: WriteStat
    report: _SentReport | None = None


class _SentReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A receipt as JSON; its stats leave out what says nothing, or nothing new: most of the bytes.

    The partition path and the file id of a stat are those of the receipt unless it has its own.
    """

    partition_path: str
    file_id: str
    write_token: str
    stat: WriteStat | None = None
    report: _SentReport | None = None
    pointed: tuple[_SentFile, ...] = ()


prepare_to_decode(_SentReceipt)

_DEFAULTS: Mapping[str, object] = msgspec.to_builtins(WriteStat())


def encode_receipt(receipt: Receipt) -> bytes:
    """Return a receipt as JSON, without the keys that it reports."""
    sent: dict[str, object] = {
        "partitionPath": receipt.partition_path,
        "fileId": receipt.file_id,
        "writeToken": receipt.write_token,
    }
    said = dict(sent)
    sent |= _encode_file(receipt.stat, receipt.report, said)
    if receipt.pointed:
        sent["pointed"] = [_encode_file(file.stat, file.report, said) for file in receipt.pointed]
    return msgspec.json.encode(sent)


def _encode_file(
    stat: WriteStat | None, report: RowReport | None, said: Mapping[str, object]
) -> dict[str, object]:
    sent: dict[str, object] = {}
    if stat is not None:
        members: dict[str, object] = msgspec.to_builtins(stat)
        untold = {**_DEFAULTS, **said}
        sent["stat"] = {name: value for name, value in members.items() if value != untold[name]}
    if report is not None:
        sent["report"] = _encode_report(report)
    return sent


def _encode_report(report: RowReport) -> _SentReport:
    if report.column_stats is None:
        return _SentReport()
    schema = metadata_schema(_SENT_VERSION)
    return _SentReport(tuple(encode_metadata_record(each, schema) for each in report.column_stats))


def decode_receipt(sent: bytes | Receipt, instant: str, limits: Limits) -> Receipt:
    """Return a receipt of the write of an instant. One of this process is taken as it is.

    Raises:
        CorruptError: it does not decode, or tells of a file that is not this write's.
        UnsafePathError: it names a file outside the table.
        TypeError: `sent` is no receipt.
    """
    if not isinstance(sent, Receipt):
        check_kind("each of receipts", sent, bytes, "what a task of the write returned")
    receipt = sent if isinstance(sent, Receipt) else _decode(sent)
    parse_write_token(receipt.write_token)
    if receipt.partition_path:
        check_relative_path(receipt.partition_path, limits)
    if receipt.stat is not None:
        _check_file(receipt, receipt.file_id, receipt.stat, instant)
    for file in receipt.pointed:
        _check_file(receipt, file.stat.file_id, file.stat, instant)
    return receipt


def _decode_sent(data: bytes) -> _SentReceipt:
    sent = decode_json(data, _SentReceipt, "a receipt")
    for stat in (sent.stat, *(file.stat for file in sent.pointed)):
        if stat is None:
            continue
        if stat.partition_path is None:
            force_setattr(stat, "partition_path", sent.partition_path)
        if stat.file_id is None:
            force_setattr(stat, "file_id", sent.file_id)
    return sent


def _decode(data: bytes) -> Receipt:
    sent = _decode_sent(data)
    return Receipt(
        partition_path=sent.partition_path,
        file_id=sent.file_id,
        write_token=sent.write_token,
        stat=sent.stat,
        report=_decode_report(sent.report),
        pointed=tuple(PointedReceipt(f.stat, _decode_report(f.report)) for f in sent.pointed),
    )


def _decode_report(sent: _SentReport | None) -> RowReport | None:
    if sent is None or sent.column_stats is None:
        return None if sent is None else RowReport()
    schema = metadata_schema(_SENT_VERSION)
    found = [decode_metadata_record(each, schema) for each in sent.column_stats]
    stats = [each for each in found if isinstance(each, ColumnStats)]
    if len(stats) != len(found):
        raise CorruptError("a receipt reports statistics of columns that are no such records")
    return RowReport(stats)


def _check_file(receipt: Receipt, file_id: str | None, stat: WriteStat, instant: str) -> None:
    name = (stat.path or "").rpartition("/")[2]
    parsed = find_data_file_name(name)
    if (
        parsed is None
        or (stat.partition_path or "", stat.file_id) != (receipt.partition_path, file_id)
        or stat.path != join_path(receipt.partition_path, name)
        or (parsed.file_id, parsed.write_token) != (file_id, receipt.write_token)
        # Before table version 8 a log file bears the time of its slice.
        or (parsed.instant != instant and stat.log_version is None)
    ):
        raise CorruptError(
            f"a receipt of the write of {instant} tells of {stat.path!r}, which is no file of it; "
            "pass on what its tasks returned"
        )


Winners = Mapping[str, Mapping[str, bytes | Receipt]]
"""One receipt for each file group, by partition path and file id.

A receipt that was sent and tells of one file, and nothing of its rows, stays as it was sent: there
may be a million, and decoded they take more than twice the memory.
"""


def find_winners(sent: Iterable[bytes | Receipt], instant: str, limits: Limits) -> Winners:
    """Return a receipt for each file group: of several attempts of one task, that of the last.

    Args:
        sent: What the tasks of a write returned.
        instant: The requested time of the write.
        limits: Bounds on what is read.

    Raises:
        CorruptError, UnsafePathError: as `decode_receipt`.
        TypeError: `sent` is no list of receipts.
        ValueError: different tasks had rows of one file group, so that none has them all.
    """
    check_kind("receipts", sent, Iterable, "a list of what tasks of the write returned")
    winners: dict[str, dict[str, bytes | Receipt]] = {}
    for each in sent:
        receipt = decode_receipt(each, instant, limits)
        own = winners.setdefault(receipt.partition_path, {})
        known = own.get(receipt.file_id)
        if known is None or _is_later(receipt, _receipt_of(known)):
            own[receipt.file_id] = each if _tells_of_one_file(receipt) else receipt
    return winners


def _is_later(receipt: Receipt, known: Receipt) -> bool:
    """Whether a receipt is of a later attempt of the task than one of the same file group."""
    first, second = parse_write_token(known.write_token), parse_write_token(receipt.write_token)
    if first.task_partition_id != second.task_partition_id:
        raise ValueError(
            f"tasks {first.task_partition_id} and {second.task_partition_id} both had rows of "
            f"file group {receipt.file_id} in partition {receipt.partition_path!r}; give all "
            "rows of a bucket to one task"
        )
    attempts = [(token.stage_id, token.task_attempt_id) for token in (first, second)]
    return attempts[1] > attempts[0]


def _tells_of_one_file(receipt: Receipt) -> bool:
    return receipt.stat is not None and receipt.report is None and not receipt.pointed


def _receipt_of(winner: bytes | Receipt) -> Receipt:
    return winner if isinstance(winner, Receipt) else _decode(winner)


def file_groups_of(winners: Winners) -> list[FileGroupId]:
    """Return the (partition path, file id) of each file group, sorted."""
    return sorted((path, file_id) for path, own in winners.items() for file_id in own)


def stats_by_partition(winners: Winners) -> dict[str, Sequence[WriteStat]]:
    """Return the files of the receipts, as commit metadata has them."""
    found: dict[str, Sequence[WriteStat]] = {}
    for path, own in winners.items():
        files: list[bytes | WriteStat] = []
        for winner in own.values():
            if isinstance(winner, Receipt):
                files += [stat for stat, _ in winner.files]
            else:
                files.append(winner)
        if files:
            found[path] = _SentStats(files)
    return found


class _SentStats(Sequence[WriteStat]):
    """Files, of which those that were sent are decoded whenever they are looked at."""

    def __init__(self, files: Sequence[bytes | WriteStat]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[WriteStat]:
        return map(_stat_of, self._files)

    def __getitem__(self, index: Any) -> Any:
        found = self._files[index]
        return list(map(_stat_of, found)) if isinstance(index, slice) else _stat_of(found)


def _stat_of(file: bytes | WriteStat) -> WriteStat:
    if isinstance(file, WriteStat):
        return file
    return cast("WriteStat", _decode_sent(file).stat)  # only bytes are kept that tell of a file


def reports_by_path(winners: Winners) -> dict[str, RowReport]:
    """Return what the receipts tell of rows, by the paths of the files."""
    receipts = [each for own in winners.values() for each in own.values()]
    files = [file for each in receipts if isinstance(each, Receipt) for file in each.files]
    return {stat.path: report for stat, report in files if stat.path and report is not None}
