"""Receipts: what the writer of one bucket tells the one who commits.

Pure. Small JSON, because it comes back from other processes: a row of a result, a message, a
line of a file. Source: WriteStatus; that of several attempts one counts is what Spark's
OutputCommitCoordinator sees to for Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.names.names import find_data_file_name, parse_write_token
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.limits import Limits

__all__ = [
    "PointedReceipt",
    "Receipt",
    "RowReport",
    "decode_receipts",
    "encode_receipt",
    "find_winners",
    "reports_by_path",
    "stats_by_partition",
]


class RowReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the writer of a file knows of its rows and the metadata table is to know.

    Whoever commits reads of the file what the report leaves out.

    Attributes:
        column_stats: The records of `column_stats`, encoded; None: they were not taken.
        keys: The keys that came to the file group and those that went, as two Arrow streams; None:
            they were not taken, or are too many.
    """

    column_stats: tuple[bytes, ...] | None = None
    keys: tuple[bytes, bytes] | None = None


class PointedReceipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of another file group, which the virtual log of a bucket points to.

    Attributes:
        stat: The file.
        report: As `Receipt.report`.
    """

    stat: WriteStat
    report: RowReport | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
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


class _SentPointed(PointedReceipt, frozen=True, omit_defaults=True):
    stat: Mapping[str, object]  # type: ignore[assignment]


class _Sent(Receipt, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A receipt whose stats leave out what says nothing: a third of the bytes."""

    stat: Mapping[str, object] | None = None  # type: ignore[assignment]
    pointed: tuple[_SentPointed, ...] = ()


prepare_to_decode(Receipt)

_DEFAULTS: Mapping[str, object] = msgspec.to_builtins(WriteStat())


def encode_receipt(receipt: Receipt) -> bytes:
    """Return a receipt as JSON."""
    return msgspec.json.encode(
        _Sent(
            partition_path=receipt.partition_path,
            file_id=receipt.file_id,
            write_token=receipt.write_token,
            stat=None if receipt.stat is None else _reduce(receipt.stat),
            report=receipt.report,
            pointed=tuple(_SentPointed(_reduce(f.stat), f.report) for f in receipt.pointed),
        )
    )


def _reduce(stat: WriteStat) -> dict[str, object]:
    members: dict[str, object] = msgspec.to_builtins(stat)
    return {name: value for name, value in members.items() if value != _DEFAULTS[name]}


def decode_receipts(sent: Iterable[bytes], instant: str, limits: Limits) -> list[Receipt]:
    """Return the receipts of the write of an instant.

    Raises:
        CorruptError: one does not decode, or tells of a file that is not this write's.
        UnsafePathError: one names a file outside the table.
    """
    found = []
    for data in sent:
        receipt = decode_json(data, Receipt, "a receipt")
        parse_write_token(receipt.write_token)
        if receipt.partition_path:
            check_relative_path(receipt.partition_path, limits)
        if receipt.stat is not None:
            _check_file(receipt, receipt.file_id, receipt.stat, instant)
        for file in receipt.pointed:
            _check_file(receipt, file.stat.file_id, file.stat, instant)
        found.append(receipt)
    return found


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


def find_winners(receipts: Iterable[Receipt]) -> Sequence[Receipt]:
    """Return one receipt for each bucket: of several attempts of one task, that of the last.

    Raises:
        ValueError: different tasks had rows of one bucket, so that none has them all.
    """
    winners: dict[tuple[str, str], Receipt] = {}
    for receipt in receipts:
        known = winners.setdefault((receipt.partition_path, receipt.file_id), receipt)
        if known is receipt:
            continue
        first, second = parse_write_token(known.write_token), parse_write_token(receipt.write_token)
        if first.task_partition_id != second.task_partition_id:
            raise ValueError(
                f"tasks {first.task_partition_id} and {second.task_partition_id} both had rows of "
                f"file group {receipt.file_id} in partition {receipt.partition_path!r}; give all "
                "rows of a bucket to one task"
            )
        attempts = [(token.stage_id, token.task_attempt_id) for token in (first, second)]
        if attempts[1] > attempts[0]:
            winners[receipt.partition_path, receipt.file_id] = receipt
    return list(winners.values())


def stats_by_partition(receipts: Iterable[Receipt]) -> dict[str, list[WriteStat]]:
    """Return the files of the receipts, as commit metadata has them."""
    found: dict[str, list[WriteStat]] = {}
    for receipt in receipts:
        for stat, _ in receipt.files:
            found.setdefault(receipt.partition_path, []).append(stat)
    return found


def reports_by_path(receipts: Iterable[Receipt]) -> dict[str, RowReport]:
    """Return what the receipts tell of rows, by the paths of the files."""
    files = [file for receipt in receipts for file in receipt.files]
    return {stat.path: report for stat, report in files if stat.path and report is not None}
