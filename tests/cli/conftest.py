"""Runs the command line as its script does, in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

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
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Run]


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
