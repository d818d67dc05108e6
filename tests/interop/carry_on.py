"""Tables that Hudi and bucketfmt write in turns, against a dict."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import bucketfmt as bf
from tests.interop.hudi import ROOT, NoHudiError, find_python

__all__ = ["KINDS", "Round", "Server", "Turns"]

_SILENCE_MAX = 180  # seconds
_KEYS = 60
_REGIONS = ("us", "eu", "ünï/x")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("day", pa.date32()),
        ("ts", pa.int64()),
        ("region", pa.string()),
    ]
)

KINDS: Mapping[str, tuple[str, bf.Index]] = {
    "cow-simple": ("COPY_ON_WRITE", bf.SimpleBucketIndex(3)),
    "mor-simple": ("MERGE_ON_READ", bf.SimpleBucketIndex(3)),
    "mor-ring": ("MERGE_ON_READ", bf.ConsistentHashingIndex(3)),
    "cow-rules": ("COPY_ON_WRITE", bf.PartitionBucketIndex(2, "us,4")),
    "mor-rules": ("MERGE_ON_READ", bf.PartitionBucketIndex(2, "us,4")),
}


class Server:
    """A JVM with one version of Hudi."""

    def __init__(self, version: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._log = (folder / "log.txt").open("wb")
        script = ROOT / "tests/interop/hudi_server.py"
        self._process = subprocess.Popen(
            [str(find_python()), str(script), version, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._folder = folder
        self._answer()

    def write(self, table: str, rows: pa.Table, operation: str, **options: str) -> str | None:
        """Have rows written; return why Hudi refused."""
        path = self._folder / "rows.parquet"
        pq.write_table(rows, path, coerce_timestamps="us")
        settings = {
            "hoodie.table.name": Path(table).name,
            "hoodie.datasource.write.operation": operation,
            "hoodie.metadata.enable": "false",
            **{key.replace("__", "."): value for key, value in options.items()},
        }
        return self._ask({"do": "write", "table": table, "rows": str(path), "options": settings})

    def read(self, table: str, **options: str) -> pa.Table:
        """Return what Hudi reads.

        Raises:
            AssertionError: it cannot.
        """
        into = str(self._folder / "read")
        settings = {key.replace("__", "."): value for key, value in options.items()}
        failed = self._ask({"do": "read", "table": table, "into": into, "options": settings})
        assert failed is None, f"Hudi cannot read {table}: {failed}"
        return ds.dataset(into, format="parquet").to_table()

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _ask(self, question: dict[str, Any]) -> str | None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str | None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _SILENCE_MAX)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            log = (self._folder / "log.txt").read_text(errors="replace").splitlines()
            raise NoHudiError("Hudi does not come back:\n" + "\n".join(log[-30:]))
        failed: str | None = json.loads(line)["failed"]
        return failed


@dataclass(frozen=True)
class Round:
    """What was done in one turn, for a message."""

    who: str
    what: str
    rows: int


@dataclass
class Turns:
    """One table, and what it has to hold."""

    server: Server
    table: bf.Table
    random: Random
    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    done: list[Round] = field(default_factory=list)
    time: int = 0

    def play(self, who: str) -> None:
        """Do one random thing, and compare."""
        self.time += 1
        operations = ["upsert", "upsert", "upsert", "delete"]
        if who == "us":
            operations += ["services", "rollback"]
            if not isinstance(self.table.index, bf.ConsistentHashingIndex):
                operations += ["overwrite"]
        what = self.random.choice(operations)
        given = self._draw(what)
        self.done.append(Round(who, what, given.num_rows))
        getattr(self, f"_{what}_by_{who}")(given)
        self.compare()

    def compare(self) -> None:
        """Both read what the model holds, and the check is clean."""
        expected = [self.rows[key] for key in sorted(self.rows)]
        table = bf.open(self.table.uri)
        assert _sorted(table.scan().to_arrow()) == expected, f"we misread after {self.done}"
        hudis = self.server.read(self.table.uri)
        hudis = hudis.select(SCHEMA.names).cast(SCHEMA)
        assert _sorted(hudis) == expected, f"Hudi reads something else after {self.done}"
        report = table.check(depth="full")
        findings = [finding for finding in report.findings if finding.severity != "info"]
        assert not findings, f"{findings} after {self.done}"

    def _draw(self, what: str) -> pa.Table:
        if what == "services":
            return SCHEMA.empty_table()
        count = self.random.randrange(1, 25)
        region = self.random.choice(_REGIONS)
        drawn = {}
        for _ in range(count):
            key = f"kéy-{self.random.randrange(_KEYS):03d}"
            at = region if what == "overwrite" else self.random.choice(_REGIONS)
            drawn[at, key] = {
                "id": key,
                "name": self.random.choice([None, "", "ä𝄞", f"n{self.time}"]),
                "price": self.random.random(),
                "day": None,
                "ts": self.time * 10 + self.random.randrange(-15, 5),
                "region": at,
            }
        return pa.Table.from_pylist(list(drawn.values()), SCHEMA)

    def _merge(self, given: pa.Table) -> None:
        for row in given.to_pylist():
            key = row["region"], row["id"]
            if key not in self.rows or row["ts"] >= self.rows[key]["ts"]:
                self.rows[key] = row

    def _newest(self, given: pa.Table) -> pa.Table:
        """Rows to delete, with an ordering value that no other row's is above."""
        times = pa.array([self.time * 10 + 9] * given.num_rows, pa.int64())
        return given.set_column(4, "ts", times)

    def _upsert_by_us(self, given: pa.Table) -> None:
        self.table.upsert(given)
        self._merge(given)

    def _upsert_by_hudi(self, given: pa.Table) -> None:
        options = {"hoodie__clean__commits__retained": "2"}
        if self.table.config.table_type == "MERGE_ON_READ":
            options["hoodie__compact__inline"] = self.random.choice(["true", "false"])
            options["hoodie__compact__inline__max__delta__commits"] = "2"
        failed = self.server.write(self.table.uri, given, "upsert", **options)
        assert failed is None, f"Hudi refuses: {failed} after {self.done}"
        self._merge(given)

    def _delete_by_us(self, given: pa.Table) -> None:
        self.table.delete(given.select(["id", "region"]))
        self._forget(given)

    def _delete_by_hudi(self, given: pa.Table) -> None:
        failed = self.server.write(self.table.uri, self._newest(given), "delete")
        assert failed is None, f"Hudi refuses: {failed} after {self.done}"
        self._forget(given)

    def _overwrite_by_us(self, given: pa.Table) -> None:
        self.table.insert_overwrite(given)
        regions = set(given["region"].to_pylist())
        self.rows = {key: row for key, row in self.rows.items() if key[0] not in regions}
        self._merge(given)

    def _services_by_us(self, _: pa.Table) -> None:
        if self.table.config.table_type == "MERGE_ON_READ":
            self.table.compact()
        self.table.clean(dry_run=False, retain=2)
        self.table.archive(min_commits=4, max_commits=5)

    def _rollback_by_us(self, given: pa.Table) -> None:
        result = self.table.upsert(given)
        self.table.rollback(result.instant)

    def _forget(self, given: pa.Table) -> None:
        for row in given.to_pylist():
            self.rows.pop((row["region"], row["id"]), None)


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: (row["region"], row["id"]))
