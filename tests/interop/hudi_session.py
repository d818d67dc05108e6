"""A JVM with one version of Hudi, asked for one thing after another."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tests.interop.hudi import ROOT, NoHudiError, find_python

__all__ = ["HudiRefusesError", "HudiSession"]

_SILENCE_MAX = 180  # seconds


class HudiRefusesError(Exception):
    """Hudi could not do it; the message is the exception it threw."""


class HudiSession:
    """A running `hudi_server.py`."""

    def __init__(self, version: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.version = version
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

    def write(self, table: str, rows: pa.Table, options: Mapping[str, str]) -> None:
        """Have rows written.

        Raises:
            HudiRefusesError: they were not.
        """
        path = self._folder / "rows.parquet"
        pq.write_table(rows, path, coerce_timestamps="us")
        self._ask(do="write", table=table, rows=str(path), options={**options})

    def read(
        self, table: str, options: Mapping[str, str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Return what Hudi reads; of the rows for which `where` holds, if it is given.

        Raises:
            HudiRefusesError: it cannot.
        """
        into = str(self._folder / "read")
        self._ask(do="read", table=table, into=into, options={**(options or {})}, where=where)
        return ds.dataset(into, format="parquet").to_table()

    def service(
        self, table: str, service: str, instant: str | None, options: Mapping[str, str]
    ) -> str | None:
        """Run a table service.

        Raises:
            HudiRefusesError: it was not done.
        """
        found: str | None = self._ask(
            do="service", table=table, service=service, instant=instant, options={**options}
        )
        return found

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _SILENCE_MAX)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            log = (self._folder / "log.txt").read_text(errors="replace").splitlines()
            raise NoHudiError("Hudi does not come back:\n" + "\n".join(log[-30:]))
        answer = json.loads(line)
        if answer["failed"] is not None:
            raise HudiRefusesError(answer["failed"])
        return answer["value"]
