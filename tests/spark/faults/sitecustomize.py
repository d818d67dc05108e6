"""Breaks the writers of this process, as BUCKETFMT_FAULTS says: a folder with a file a fault.

Python imports it at its start, where its folder is on PYTHONPATH: so it reaches executors. Each
fault strikes once; the file of one that has struck is renamed.

raise: a task raises once it has written a file.
kill-executor: it kills the JVM it belongs to.
stall: it waits for long before it writes, as on a machine that has fallen ill.
kill-driver: the driver dies before it publishes.
kill-session: the driver's JVM does, and with it the session, as a process of its own publishes.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

STALL_S = 25.0


def strikes(folder: Path, fault: str) -> bool:
    try:
        (folder / fault).rename(folder / f"{fault}.struck")
    except FileNotFoundError:
        return False
    return True


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def break_writers(folder: Path) -> None:
    from bucketfmt.write.files.group_writer import GroupWriter
    from bucketfmt.write.rows.started_write import StartedWrite

    put, publish = GroupWriter._put, StartedWrite.publish

    def put_and_fail(self: Any, *arguments: Any, **named: Any) -> Any:
        if strikes(folder, "stall"):
            time.sleep(STALL_S)
        stat = put(self, *arguments, **named)
        if strikes(folder, "raise"):
            raise OSError("a disk that was pulled out")
        if strikes(folder, "kill-executor"):
            os.kill(parent(os.getppid()), signal.SIGKILL)
            time.sleep(60)
        return stat

    def die_or_publish(self: Any, *arguments: Any) -> Any:
        if strikes(folder, "kill-driver"):
            os.kill(os.getpid(), signal.SIGKILL)
        if strikes(folder, "kill-session"):
            os.kill(parent(os.getppid()), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return publish(self, *arguments)

    GroupWriter._put = put_and_fail  # type: ignore[method-assign]
    StartedWrite.publish = die_or_publish  # type: ignore[method-assign]


if "BUCKETFMT_FAULTS" in os.environ:
    break_writers(Path(os.environ["BUCKETFMT_FAULTS"]))
from tests.spark.preload import sitecustomize  # noqa: E402, F401
