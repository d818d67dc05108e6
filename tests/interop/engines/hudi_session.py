"""A JVM with one version of Hudi, asked for one thing after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tests.interop.engines.answering import AnsweringProcess, HudiRefusesError
from tests.interop.engines.hudi import ROOT, find_python
from tests.interop.replays.plans import Plan

__all__ = ["HudiRefusesError", "HudiSession", "Metadata"]

Metadata = Literal["off", "on", "index"]
"""Of tables that are written in turns: no metadata table; one with the statistics and the bloom
filters; one with the statistics and the record index.
"""


class HudiSession:
    """A running `hudi_server.py`.

    Attributes:
        version: Of Hudi.
        folder: Where the planned tables are, and what Hudi reads of them; see `hudi_writer.py`.
        metadata: What the tables that are written in turns have for a metadata table.
    """

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        self.metadata: Metadata = "off"
        self._written: dict[str, set[str]] = {}
        script = ROOT / "tests/interop/engines/hudi_server.py"
        command = [str(find_python()), str(script), version, str(folder)]
        self._process = AnsweringProcess(command, folder)

    @property
    def has_metadata_table(self) -> bool:
        """Whether the tables that are written in turns have a metadata table."""
        return self.metadata != "off"

    @property
    def has_record_index(self) -> bool:
        """Whether the metadata table has a record index."""
        return self.metadata == "index"

    def written(self, table: str) -> Set[str]:
        """Return the instants of the writes of Hudi to a table."""
        return self._written.get(table, set())

    def write(self, table: str, rows: pa.Table, options: Mapping[str, str]) -> None:
        """Have rows written.

        Raises:
            HudiRefusesError: they were not.
        """
        path = self.folder / "rows.parquet"
        pq.write_table(rows, path, coerce_timestamps="us")
        before = _instants(table)
        self._process.ask(do="write", table=table, rows=str(path), options={**options})
        self._written.setdefault(table, set()).update(_instants(table) - before)

    def read(
        self, table: str, options: Mapping[str, str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Return what Hudi reads; of the rows for which `where` holds, if it is given.

        Raises:
            HudiRefusesError: it cannot.
        """
        into = str(self.folder / "rows-read")
        given = {**(options or {})}
        self._process.ask(do="read", table=table, into=into, options=given, where=where)
        return ds.dataset(into, format="parquet").to_table()

    def merge_into(
        self, table: str, rows: pa.Table, assigned: Sequence[str], options: Mapping[str, str]
    ) -> None:
        """Have some columns of the rows of the same `id` updated, by `merge into`.

        Raises:
            HudiRefusesError: they were not.
        """
        path = self.folder / "rows.parquet"
        pq.write_table(rows, path, coerce_timestamps="us")
        given = {"rows": str(path), "assigned": [*assigned], "options": {**options}}
        self._process.ask(do="merge", table=table, **given)

    def make_index(
        self,
        table: str,
        column: str,
        options: Mapping[str, str],
        expression: Mapping[str, str] | None = None,
    ) -> None:
        """Have a secondary index made, by `create index`, or one of bounds of an expression.

        Raises:
            HudiRefusesError: it was not made.
        """
        given = {"options": {**options}, "expression": {**(expression or {})}}
        self._process.ask(do="index", table=table, column=column, **given)

    def service(
        self, table: str, service: str, instant: str | None, options: Mapping[str, str]
    ) -> str | None:
        """Run a table service.

        Raises:
            HudiRefusesError: it was not done.
        """
        found: str | None = self._process.ask(
            do="service", table=table, service=service, instant=instant, options={**options}
        )
        return found

    def rescale(
        self, table: str, how: str, rules: str, default: int, *, dry_run: bool = False
    ) -> None:
        """Have partitions rescaled by rules that `overwrite` those of now, or that are an `add`.

        Raises:
            HudiRefusesError: they were not.
        """
        asked = {"table": table, "how": how, "rules": rules, "default": default}
        self._process.ask(do="rescale", **asked, dry_run=dry_run)

    def make(self, plan: Plan) -> None:
        """Have a planned table written and read."""
        (self.folder / "plans").mkdir(exist_ok=True)
        plan.save(self.folder / "plans")
        self._process.ask(do="make", plan=plan.name)

    def hash_keys(self, cases: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
        """Return the simple bucket and the ring value of each record key, by Hudi's classes."""
        return [tuple(found) for found in self._process.ask(do="hash_keys", cases=cases)]

    def close(self) -> None:
        """End it."""
        self._process.close()


def _instants(table: str) -> set[str]:
    """Return the instants on the timeline of a table, by the names of their files."""
    timeline = Path(table, ".hoodie")
    paths = (*timeline.glob("[0-9]*"), *timeline.glob("timeline/[0-9]*"))
    return {path.name.partition(".")[0].partition("_")[0] for path in paths}
