"""A process in a JVM that is asked for one thing after another, in lines of JSON."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop.engines.hudi import NoHudiError

__all__ = ["AnsweringProcess", "HudiRefusesError"]

_SILENCE_MAX = 900  # seconds, of which a machine under load takes many


class HudiRefusesError(Exception):
    """Hudi could not do it; the message is the exception it threw."""


class AnsweringProcess:
    """A running process: a line of JSON to its standard input, a line of JSON back.

    The first line is written by the process unasked, once the process is ready.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        """Start the process, and wait until the process is ready.

        Args:
            command: What to run.
            folder: For the log; made anew.

        Raises:
            NoHudiError: the process ended, or is silent.
        """
        folder.mkdir(parents=True)
        self._log_path = folder / "log.txt"
        self._log = self._log_path.open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._answer()

    def ask(self, **question: Any) -> Any:
        """Return the answer to a question.

        Raises:
            HudiRefusesError: Hudi threw an exception.
            NoHudiError: the process ended, or is silent.
        """
        assert self._process.stdin is not None
        if self._process.poll() is not None:
            raise NoHudiError(f"Hudi has ended; see {self._log_path}")
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _SILENCE_MAX)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.close()  # the answer would be taken for that to the next question
            log = self._log_path.read_text(errors="replace").splitlines()
            raise NoHudiError("Hudi does not come back:\n" + "\n".join(log[-30:]))
        answer = json.loads(line)
        if answer["failed"] is not None:
            raise HudiRefusesError(answer["failed"])
        return answer["value"]
