"""A driver in a process of its own, for faults that a test session must not have.

usage: python -m tests.spark.driver MASTER CONF STEPS

CONF is JSON of settings; STEPS is JSON of [table, operation, first key, last key, ts]; `compact`
takes the table alone; `save` is an upsert by `format("bucketfmt")`; `stop` is an upsert whose
session is stopped once a task stalls; `fault` takes the name of one that is to strike from then
on; `idle` waits until all executors were taken away. After each step it prints a line: the files
it wrote, or for `stop` the type of the error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.write.models import rows

__all__ = ["drive"]

_ROOT = Path(__file__).parents[2]
_FAULTS = Path(__file__).parent / "faults"
_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def drive(
    master: str, steps: Sequence[Sequence[Any]], faults: Path, conf: Mapping[str, str] | None = None
) -> tuple[int, list[list[str]]]:
    """Run the steps; return how the driver ended, and what each step told."""
    path = os.pathsep.join([str(_FAULTS), str(_ROOT)])
    command = [sys.executable, "-m", "tests.spark.driver", master, json.dumps(dict(conf or {}))]
    done = subprocess.run(
        [*command, json.dumps(steps)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": path, "BUCKETFMT_FAULTS": str(faults)},
        capture_output=True,
        timeout=900,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.decode().splitlines() if line[:1] == "["]
    is_killed = (faults / "kill-session.struck").exists()
    if done.returncode > 0 and not is_killed:
        raise AssertionError(done.stderr.decode()[-4000:])
    return done.returncode, told


def save(frame: DataFrame, uri: str, ts: int) -> bf.CommitResult | None:
    bs.register(frame.sparkSession)
    saving = bs.place_rows(frame, uri).write.format("bucketfmt").mode("append")
    saving.option("idempotency_key", f"save {ts}").save(uri)
    return bf.open(uri).find_commit(f"save {ts}")


def wait_until_idle(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    ends = time.monotonic() + 120
    while len(tracker.getExecutorInfos()) > 1:  # one of them is the driver
        if time.monotonic() > ends:
            raise AssertionError("executors are not taken away")
        time.sleep(0.5)


def stop_meanwhile(frame: DataFrame, uri: str) -> str:
    """Return the type of the error of a write whose session is stopped."""
    faults = Path(os.environ["BUCKETFMT_FAULTS"])
    (faults / "stall").touch()

    def stop() -> None:
        while not (faults / "stall.struck").exists():
            time.sleep(0.05)
        frame.sparkSession.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        bs.write(frame, uri)
    except Exception as error:
        stopping.join()
        return type(error).__name__
    raise AssertionError("the write ended before the session was stopped")


def main(master: str, conf: str, steps: str) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("faults")
    settings = {**_CONF, **json.loads(conf)}
    for name in ("PYTHONPATH", "BUCKETFMT_FAULTS"):
        settings[f"spark.executorEnv.{name}"] = os.environ[name]
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for table, operation, *given in json.loads(steps):
        if operation == "fault":
            Path(os.environ["BUCKETFMT_FAULTS"], given[0]).touch()
            continue
        if operation == "idle":
            wait_until_idle(spark)
            continue
        if operation == "compact":
            result = bs.compact(spark, table)
        else:
            first, last, ts = given
            frame = spark.createDataFrame(rows(range(first, last), ts=ts, price=float(ts)))
            if operation == "stop":
                print(json.dumps([stop_meanwhile(frame, table)]), flush=True)
                return
            if operation == "save":
                result = save(frame, table, ts)
            else:
                result = bs.write(frame, table, operation)
        print(json.dumps(result and result.files), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
