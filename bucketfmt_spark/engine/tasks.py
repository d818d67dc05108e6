"""A DataFrame of tasks: Spark runs what the driver planned, task by task, with no exchange.

A task is a number of `spark.range`, and one partition. The number selects the task's payload in a
value that is sent with the function. Nothing depends on the partition of the final job, so that
unions and filters of such DataFrames are correct.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.executors import check_executors, map_batches
from bucketfmt_spark.engine.named_jobs import log
from bucketfmt_spark.engine.spark_types import arrow_for_spark, as_spark_takes_it, spark_schema

__all__ = [
    "PackedTasks",
    "number_tasks",
    "pack_by_size",
    "plan_read_tasks",
    "task_frame",
    "task_token",
]

_TASK_BYTES = 128 << 20  # as spark.sql.files.maxPartitionBytes
_OPEN_BYTES = 4 << 20  # as spark.sql.files.openCostInBytes
_MORE_GROUPS = 9 / 8  # where small pieces do not fit as many groups as their sum needs


@dataclass(frozen=True, eq=False)
class PackedTasks:
    """The payloads of all tasks in one value of bytes, which is cheap to send and to keep.

    Attributes:
        data: The payloads, concatenated.
        ends: The offset of each payload's end.
        counts: For each task, the number of payloads up to its last payload.
    """

    data: bytes
    ends: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, tasks: Sequence[Sequence[bytes]]) -> PackedTasks:
        """Pack the payloads of each task."""
        payloads = [payload for task in tasks for payload in task]
        return cls(
            b"".join(payloads),
            np.cumsum([len(payload) for payload in payloads], dtype=np.int64),
            np.cumsum([len(task) for task in tasks], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, number: int) -> list[bytes]:
        first, last = int(self.counts[number - 1]) if number else 0, int(self.counts[number])
        begin, found = int(self.ends[first - 1]) if first else 0, []
        for end in self.ends[first:last].tolist():
            found.append(self.data[begin:end])
            begin = end
        return found


def number_tasks(numbers: Iterable[int]) -> list[list[bytes]]:
    """Return a side of tasks that gives each task a number; `work` reads `int(side[0])`."""
    return [[str(number).encode()] for number in numbers]


def pack_by_size(sizes: Sequence[int], parallelism: int) -> list[list[int]]:
    """Return the numbers of pieces in groups: large pieces alone, small pieces together.

    A group has the size of Spark's file tasks (`FilePartition.maxSplitBytes`): at most 128 MB, or
    about each core's share of all bytes where that is less. Spark fills one group after the other,
    which leaves a rest for one task more than there are cores; here groups are filled evenly.
    A piece is not divided.
    """
    most = _task_bytes(sizes, parallelism)
    costs = [size + _OPEN_BYTES for size in sizes]
    order = sorted(range(len(sizes)), key=lambda n: -sizes[n])
    small = [n for n in order if costs[n] < most]
    number = math.ceil(sum(costs[n] for n in small) / most)
    groups, filled = _spread(small, costs, number)
    while filled > _TASK_BYTES:
        number = min(len(small), math.ceil(number * _MORE_GROUPS))
        groups, filled = _spread(small, costs, number)
    return [[n] for n in order if costs[n] >= most] + groups


def _spread(
    pieces: Sequence[int], costs: Sequence[int], number: int
) -> tuple[list[list[int]], int]:
    """Give each piece, the largest first, to the group that has least; return that of most too."""
    groups: list[list[int]] = [[] for _ in range(number)]
    filled = [(0, group) for group in range(number)]
    for piece in pieces:
        cost, group = filled[0]
        groups[group].append(piece)
        heapreplace(filled, (cost + costs[piece], group))
    return groups, max(filled, default=(0, 0))[0]


def plan_read_tasks(pieces: Sequence[bf.ReadTask], parallelism: int) -> list[list[bytes]]:
    """Return the payloads of each task: large file slices in parts, small ones together."""
    most = _task_bytes([piece.size for piece in pieces], parallelism)
    parts = [part for piece in pieces for part in piece.split(most)]
    groups = pack_by_size([part.size for part in parts], parallelism)
    return [[parts[number].payload for number in group] for group in groups]


def _task_bytes(sizes: Sequence[int], parallelism: int) -> int:
    total = sum(sizes) + _OPEN_BYTES * len(sizes)
    return max(1, min(_TASK_BYTES, max(_OPEN_BYTES, -(-total // max(parallelism, 1)))))


def task_frame(
    spark: SparkSession,
    sides: Sequence[Sequence[Sequence[bytes]]],
    work: Callable[..., Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    name: str = "bucketfmt",
) -> DataFrame:
    """Return the rows that `work` yields for the payloads of each task.

    Args:
        spark: The session.
        sides: For each side and each task, the payloads.
        work: Runs on executors, with a list of payloads for each side. Values that it refers to
            are sent once.
        schema: The schema of the rows that `work` yields.
        name: What `explain()` shows, and the log.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
    """
    check_executors(spark)
    packed = [PackedTasks.of(tasks) for tasks in sides]
    accepted = arrow_for_spark(schema)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in work(*(side[number] for side in packed)):
                    yield as_spark_takes_it(rows, accepted)

    tasks = len(packed[0])
    log.info("%s; %d tasks", name, tasks)
    frame = spark.range(0, tasks, 1, max(tasks, 1))
    return map_batches(frame, run, spark_schema(accepted), name)


def task_token() -> str:
    """Return the write token of this attempt of a task, which no other attempt has."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("task_token was called outside a Spark task; call it in mapInArrow")
    return f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
