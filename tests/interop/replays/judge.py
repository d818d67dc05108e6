"""Compare what bucketfmt makes of a table with what Hudi wrote and read back."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import bucketfmt as bf
from bucketfmt.format.names.names import find_data_file_name
from tests.interop.replays.hudi_differences import (
    as_hudi_reads,
    is_made_wrong_by_hudi,
    is_misread_by_hudi,
    is_refused_by_us,
)
from tests.interop.replays.plans import Plan
from tests.same_rows import canonical

__all__ = ["Disagreement", "Verdict", "judge_table"]

_ROWS_SHOWN = 4
_MESSAGES_SHOWN = 3
_KEYS_FILTERED = 6


@dataclass(frozen=True)
class Disagreement:
    """What bucketfmt and Hudi do not say alike."""

    view: str
    message: str

    def __str__(self) -> str:
        return f"{self.view}: {self.message}"


@dataclass(frozen=True)
class Verdict:
    """What came of one table.

    Attributes:
        compared: Views of it that both read.
        disagreements: What is wrong with us, or with Hudi.
        unread: Why Hudi could not write or read the table; None if it could.
    """

    compared: tuple[str, ...]
    disagreements: tuple[Disagreement, ...]
    unread: str | None = None


def judge_table(plan: Plan, folder: Path) -> Verdict:
    """Compare one table; `folder` is the writer's."""
    report = json.loads((folder / "read" / f"{plan.name}.json").read_text())
    read = {view["view"]: view for view in report["views"]}
    if "snapshot" not in read or read["snapshot"]["reader"] is None:
        reasons = read["snapshot"]["failed"] if read else report["refused"]
        return Verdict((), (), f"Hudi {plan.version}: {reasons[0]}")
    judge = _Judge(plan, folder)
    compared: list[str] = []
    disagreements: list[Disagreement] = []
    for view, result in read.items():
        if result["reader"] is not None and not is_misread_by_hudi(plan, view, report):
            compared.append(view)
            disagreements += judge.attempt(view, partial(judge.rows, view))
    for view in ("buckets", "pruning", "check"):
        compared.append(view)
        disagreements += judge.attempt(view, getattr(judge, view))
    return Verdict(tuple(compared), tuple(disagreements))


class _Judge:
    """Compares one table; each question yields the messages that say what differs."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._root = folder / "tables" / plan.name
        self._read = folder / "read" / plan.name
        self._stated = bf.open(self._root, index=plan.index)
        self._unstated = bf.open(self._root)

    def attempt(self, view: str, question: Callable[[], Iterator[str]]) -> list[Disagreement]:
        """Return what differs; that bucketfmt fails, too."""
        try:
            return [Disagreement(view, message) for message in islice(question(), _MESSAGES_SHOWN)]
        except Exception as error:
            if isinstance(error, bf.UnsupportedError) and is_refused_by_us(self._plan, error):
                return []
            return [Disagreement(view, traceback.format_exc())]

    def rows(self, view: str) -> Iterator[str]:
        """Rows and types of a view, each way there is to read it."""
        hudis = self._hudis(view)
        for table in (self._unstated, self._stated):
            scan = self._scan(table, view)
            yield from _differences(as_hudi_reads(scan.to_arrow(), self._plan), hudis)
            if scan.count() != hudis.num_rows:
                yield f"count() is {scan.count()}, Hudi has {hudis.num_rows} rows"

    def buckets(self) -> Iterator[str]:
        """The bucket of each key, against the file group Hudi put it in."""
        if not self._plan.has_meta_fields:
            return
        hudis = self._hudis("snapshot")
        keys = hudis.select(["_hoodie_record_key", "_hoodie_partition_path"])
        groups = {
            (row["_hoodie_partition_path"], row["_hoodie_record_key"]): _file_id(
                row["_hoodie_file_name"]
            )
            for row in hudis.to_pylist()
        }
        tables = [("with index=", self._stated)]
        if self._unstated.index is not None:
            tables.append((f"with {self._unstated.resolved_index}", self._unstated))
        for how, table in tables:
            for place in table.locate(keys).to_pylist():
                found = groups[place["partition_path"], place["record_key"]]
                if found != place["file_id"]:
                    yield f"{how}: Hudi has it in {found}, we say {place}"
            looked_up = table.lookup(keys, columns=self._plan.key_fields)
            expected = hudis.select(self._plan.key_fields)
            if "drop.partition" not in self._plan.describe():
                yield from (f"lookup: {text}" for text in _differences(looked_up, expected))

    def pruning(self) -> Iterator[str]:
        """Reads of a few keys, from their buckets only, against the same rows of Hudi's."""
        hudis = as_hudi_reads(self._scan(self._unstated, "snapshot").to_arrow(), self._plan)
        fields = self._plan.key_fields
        for row in hudis.slice(0, _KEYS_FILTERED).select(fields).to_pylist():
            wanted = [(name, "=", value) for name, value in row.items() if value is not None]
            mask = pc.scalar(True)
            for name, _, value in wanted:
                mask = mask & (pc.field(name) == pa.scalar(value, hudis.schema.field(name).type))
            expected = hudis.filter(mask)
            scan = self._stated.scan(filter=wanted, meta_columns=self._plan.has_meta_fields)
            ours = as_hudi_reads(scan.to_arrow(), self._plan)
            yield from (f"filter {wanted}: {text}" for text in _differences(ours, expected))

    def check(self) -> Iterator[str]:
        """A table that Hudi wrote is clean, but for what Hudi is known to do to its tables."""
        report = self._stated.check(depth="full")
        for finding in report.findings:
            if finding.severity != "info" and not is_made_wrong_by_hudi(finding):
                yield f"finding on a table that Hudi wrote: {finding}"

    def _scan(self, table: bf.Table, view: str) -> bf.Scan:
        as_of = view.removeprefix("as_of_") if view.startswith("as_of_") else None
        return table.scan(
            as_of=as_of,
            read_optimized=view == "read_optimized",
            meta_columns=self._plan.has_meta_fields,
        )

    def _hudis(self, view: str) -> pa.Table:
        return ds.dataset(self._read / view, format="parquet").to_table()


def _file_id(name: str) -> str:
    """Return the file id that `_hoodie_file_name` tells: rows of log files have just that."""
    known = find_data_file_name(name)
    return name if known is None else known.file_id


def _differences(ours: pa.Table, hudis: pa.Table) -> Iterator[str]:
    our_types, our_rows = canonical(ours)
    their_types, their_rows = canonical(hudis)
    if our_types != their_types:
        odd = sorted(set(our_types.items()) ^ set(their_types.items()), key=str)
        yield f"types differ: {odd}"
        return
    if our_rows != their_rows:
        only_ours, only_theirs = _only(our_rows, their_rows), _only(their_rows, our_rows)
        shown = [f"{len(our_rows)} rows of ours, {len(their_rows)} of Hudi's", *our_types]
        for whose, rows in (("ours", only_ours), ("Hudi's", only_theirs)):
            shown.append(f"only {whose}: {len(rows)} rows")
            shown += [ascii(row)[:2000] for row in rows[:_ROWS_SHOWN]]
        yield "rows differ: " + "\n  ".join(shown)


def _only(first: list[str], second: list[str]) -> list[str]:
    left = list(second)
    only = []
    for row in first:
        if row in left:
            left.remove(row)
        else:
            only.append(row)
    return only
