"""Tables of a report that a reader sorts and filters: their columns, and the rows shown first.

Pure. A page has the first rows as HTML and all rows as JSON, from which its script makes others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.report.bucket_grid import BucketGrid
from bucketfmt.report.charts import Bars, draw_bars
from bucketfmt.resize.advice import BucketAdvice
from bucketfmt.texts import count_text, ratio_text, size_text, visible_text

__all__ = ["Column", "Sheet", "make_file_groups", "make_instants", "make_partitions"]

Kind = Literal["name", "text", "id", "count", "size", "ratio", "bars"]

_PAGE = 20
_FILE_GROUPS_MAX = 100_000


@dataclass(frozen=True)
class Column:
    """A column of a sheet.

    Attributes:
        title: Its head.
        kind: How values are shown: `name` is one of few texts, `id` a number without commas.
        values: A value for each row, None where there is none; of `name` indices of `names`.
        names: The texts of `name`.
    """

    title: str
    kind: Kind
    values: Sequence[Any]
    names: Sequence[str] = ()

    @property
    def is_number(self) -> bool:
        """Whether values are numbers for people."""
        return self.kind in ("id", "count", "size", "ratio")

    def text(self, row: int) -> str:
        """Return a value for people; the script of the page says the same (`textOf`)."""
        value = self.values[row]
        if value is None:
            return "–"
        if self.kind == "name":
            return str(self.names[value])
        if self.kind == "size":
            return size_text(value)
        if self.kind == "count":
            return count_text(value)
        return ratio_text(value) if self.kind == "ratio" else str(value)


@dataclass(frozen=True)
class Sheet:
    """A table of a report.

    Attributes:
        name: Its id on the page.
        rows: What a row is, in the plural.
        columns: Of equal lengths. The first has the names of rows.
        sorted_by: The column by which rows are sorted first, the largest value first.
        left_out: How many rows are not on the page.
    """

    name: str
    rows: str
    columns: tuple[Column, ...]
    sorted_by: int
    left_out: int = 0

    @property
    def number(self) -> int:
        """How many rows are on the page."""
        return len(self.columns[0].values)

    @property
    def shown(self) -> list[int]:
        """The rows that are shown first."""
        values = self.columns[self.sorted_by].values
        order = sorted(range(self.number), key=lambda row: values[row], reverse=True)
        return order[:_PAGE]

    def to_plain(self) -> dict[str, Any]:
        """Return the sheet for JSON."""
        return {
            "page": _PAGE,
            "rows": self.rows,
            "sortedBy": self.sorted_by,
            "columns": [
                {
                    "title": column.title,
                    "kind": column.kind,
                    "values": list(column.values),
                    "names": [visible_text(name) for name in column.names],
                }
                for column in self.columns
            ],
        }


def make_partitions(grid: BucketGrid, advice: BucketAdvice | None) -> Sheet:
    """Return the partitions, with a bar for each bucket."""
    advised = {each.partition_path: each for each in advice.partitions} if advice else {}
    of = [advised.get(path) for path in grid.partitions]
    buckets = [grid.buckets_of(number) for number in range(len(grid.partitions))]
    base, logs = (
        [int(values[own].sum()) for own in buckets] for values in (grid.base_bytes, grid.log_bytes)
    )
    rows = [None if (grid.rows[own] < 0).any() else int(grid.rows[own].sum()) for own in buckets]
    bars = [draw_bars(grid.base_bytes[own], grid.log_bytes[own]) for own in buckets]
    columns = (
        Column(
            "Partition", "name", range(len(of)), [path or "(table)" for path in grid.partitions]
        ),
        Column("Size of each bucket", "bars", [_bars(each) for each in bars]),
        Column("Size", "size", [sum(pair) for pair in zip(base, logs, strict=True)]),
        Column("Rows", "count", rows),
        Column("Buckets", "count", [each and each.num_buckets for each in of]),
        Column("File groups", "count", [int(grid.num_groups[own].sum()) for own in buckets]),
        Column("Logs to base", "ratio", [_ratio(*pair) for pair in zip(logs, base, strict=True)]),
        Column("Largest to median", "ratio", [each and each.largest_to_median for each in of]),
        Column(
            "A day",
            "size",
            [each and each.bytes_per_day and round(each.bytes_per_day) for each in of],
        ),
        Column("Suggested buckets", "count", [each and each.suggested for each in of]),
    )
    return Sheet("partitions", "partitions", columns, 2)


def _bars(bars: Bars) -> list[Any]:
    return [bars.number, bars.each, bars.base, bars.logs, bars.largest]


def _ratio(logs: int, base: int) -> float | None:
    return round(logs / base, 4) if base else None


def make_file_groups(grid: BucketGrid) -> Sheet:
    """Return the file groups, and a row for each empty bucket; of very many the largest."""
    groups, partition = grid.groups, grid.partition_of_group
    size = _filled(groups["base_size"]) + _filled(groups["log_size"])
    left_out = max(0, len(size) - _FILE_GROUPS_MAX)
    if left_out:
        largest = np.sort(np.argsort(-size, kind="stable")[:_FILE_GROUPS_MAX])
        groups, partition, size = groups.take(pa.array(largest)), partition[largest], size[largest]
    encoded = pc.dictionary_encode(groups["base_instant"]).combine_chunks()
    instants = (
        (encoded.indices.to_pylist(), encoded.dictionary.to_pylist())
        if isinstance(encoded, pa.DictionaryArray)
        else ([], [])
    )
    has_group = pc.is_valid(groups["file_id"])
    file_ids = [
        "(empty)" if file_id is None else visible_text(file_id)
        for file_id in groups["file_id"].to_pylist()
    ]

    def of_group(name: str) -> list[int | None]:
        numbers: list[int | None] = pc.if_else(has_group, groups[name], None).to_pylist()
        return numbers

    columns = (
        Column(
            "Partition",
            "name",
            partition.tolist(),
            [path or "(table)" for path in grid.partitions],
        ),
        Column("Bucket", "id", groups["bucket_id"].to_pylist()),
        Column("File group", "text", file_ids),
        Column("Size", "size", size.tolist()),
        Column("Base file", "size", of_group("base_size")),
        Column("Rows", "count", of_group("base_rows")),
        Column("Log files", "count", of_group("log_files")),
        Column("Logs", "size", of_group("log_size")),
        Column("Base instant", "name", *instants),
    )
    return Sheet("file-groups", "file groups and empty buckets", columns, 3, left_out)


def _filled(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), dtype=np.int64)


def make_instants(commits: pa.Table) -> Sheet:
    """Return the instants of the active timeline, the newest first."""

    def texts(name: str) -> list[str | None]:
        found: list[str | None] = commits[name].to_pylist()
        return [text and visible_text(text) for text in found]

    def numbers(name: str) -> list[int | None]:
        found: list[int | None] = commits[name].to_pylist()
        return found

    columns = (
        Column("Requested", "text", texts("requested_time")),
        Column("Completed", "text", texts("completion_time")),
        Column("Action", "text", texts("action")),
        Column("State", "text", texts("state")),
        Column("Operation", "text", texts("operation_type")),
        Column("Files", "count", numbers("files")),
        Column("Written", "size", numbers("bytes")),
    )
    return Sheet("instants", "instants", columns, 0)
