"""Runs the command line as its script does, in this process."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import typer

from bucketfmt.cli.__main__ import main


@dataclass(frozen=True)
class Run:
    """What a run of the command line came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of JSON lines."""
        return [json.loads(line) for line in self.out.split("\n") if line]


Cli = Callable[..., Run]

COMMAND = [sys.executable, "-m", "bucketfmt.cli"]


_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*arguments: object, columns: int = 200) -> Run:
    """Run the command line, in a process of its own, with a terminal as its standard output."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment,
    ) as run:
        os.close(theirs)
        shown = b""
        while part := _read_terminal(ours):
            shown += part
        assert run.stderr is not None
        error = run.stderr.read().decode()
    os.close(ours)
    text = _STYLE.sub("", shown.decode()).replace("\r\n", "\n")
    return Run(run.returncode, text, error)


def _read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # EIO: the other side is closed
        return b""


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Have typer make the commands of a module once: it takes half of the time of a short call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        patch.setattr(typer.main, "get_group", cache(typer.main.get_group))
        yield


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no width exported, as xdist does: tables off a terminal would fit it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: object) -> Run:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["bucketfmt", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        assert "Traceback" not in captured.out + captured.err
        return Run(code, captured.out, captured.err)

    return run
