"""Apache Hudi on Apache Flink in one JVM, asked for one job after another."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop.engines.answering import AnsweringProcess
from tests.interop.engines.hudi import ROOT, NoHudiError

__all__ = ["FlinkSession", "FlinkTable"]

_HOME = ROOT / ".flink"
# What Flink and Hudi reach into, and Java 17 keeps closed.
_OPENED = (
    "java.io java.lang java.lang.reflect java.net java.nio java.text java.time java.util "
    "java.util.concurrent sun.net.util sun.nio.ch"
)


class FlinkTable:
    """How a job of Flink SQL names a table: `t`, with these columns and options.

    Attributes:
        columns: The name and the SQL type of each column.
        key: The primary key.
        ddl: The CREATE TABLE statement.
    """

    def __init__(
        self,
        uri: str,
        columns: Sequence[tuple[str, str]],
        key: str,
        partition: str,
        options: Mapping[str, str],
    ) -> None:
        self.columns, self.key = columns, key
        fields = ", ".join(f"{name} {kind}" for name, kind in columns)
        given = {"connector": "hudi", "path": f"file://{uri}", **options}
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        self.ddl = (
            f"CREATE TABLE t ({fields}, PRIMARY KEY ({key}) NOT ENFORCED) "
            f"PARTITIONED BY ({partition}) WITH ({pairs})"
        )


class FlinkSession:
    """A running `FlinkServer.java`."""

    version = "0.14.0"

    def __init__(self, folder: Path) -> None:
        """Start the JVM.

        Args:
            folder: For the log; made anew.

        Raises:
            NoHudiError: `make flink-setup` was not run, or Java is missing.
        """
        if shutil.which("java") is None:
            raise NoHudiError("no Java on this machine, and Flink needs one: install a JDK 17")
        if not (_HOME / "classes/FlinkServer.class").exists():
            raise NoHudiError("Flink is not installed for the judge: run `make flink-setup`")
        opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED.split()]
        # A short life: no time to compile.
        command = ["java", "-Xmx1500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opens]
        command += ["-Duser.timezone=UTC", "-cp", f"{_HOME}/classes:{_HOME}/jars/*", "FlinkServer"]
        self._process = AnsweringProcess(command, folder)

    def write(self, table: FlinkTable, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Write rows in one streaming job, each with its row kind: +I, -U, +U or -D.

        Raises:
            HudiRefusesError: the job failed.
        """
        names = [name for name, _ in table.columns]
        values = [[kind, *(row[name] for name in names)] for kind, row in rows]
        self._process.ask(
            do="write", table=table.ddl, columns=table.columns, key=table.key, rows=values
        )

    def read(self, table: FlinkTable) -> list[dict[str, Any]]:
        """Return the rows of a batch query.

        Raises:
            HudiRefusesError: the job failed.
        """
        names = [name for name, _ in table.columns]
        query = f"SELECT {', '.join(names)} FROM t"
        found = self._process.ask(do="read", table=table.ddl, query=query)
        return [dict(zip(names, values, strict=True)) for values in found]

    def compact(self, uri: str) -> None:
        """Execute the compactions that are pending.

        Raises:
            HudiRefusesError: a compaction failed.
        """
        self._process.ask(do="compact", arguments=["--path", uri])

    def close(self) -> None:
        """End the JVM."""
        self._process.close()
