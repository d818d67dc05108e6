"""Names jobs after the verb, the table and the instant, and logs and counts what they do.

The name is the description of the job and of its stages in a classic session, and a tag of the
operation on Connect. The logger is `bucketfmt.spark`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pyspark import Accumulator, SparkContext
from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_int, check_session

__all__ = [
    "allowed_retries",
    "log",
    "named_job",
    "options_of_try",
    "repeat_on_conflict",
    "request_counter",
    "task_requests",
]

log = logging.getLogger("bucketfmt.spark")

_T = TypeVar("_T")
_PROGRESS_S = 10.0
_DESCRIPTION = "spark.job.description"
_COUNTERS: WeakKeyDictionary[SparkContext, Accumulator[int]] = WeakKeyDictionary()


@contextmanager
def named_job(spark: SparkSession, verb: str, table: str, instant: str = "") -> Iterator[None]:
    """Name the jobs that are run in this context, and log how far they are every ten seconds.

    Args:
        spark: The session.
        verb: What the job does, such as `upsert`.
        table: The name of the table.
        instant: The requested time of the commit; empty where nothing is committed.
    """
    name = " ".join(filter(None, ("bucketfmt", verb, table, instant)))
    log.info("%s: the job begins", name)
    begun, counter = time.monotonic(), request_counter(spark)
    made_before = 0 if counter is None else counter.value
    with ExitStack() as stack:
        if counter is None:
            stack.enter_context(_tagged(spark, name))
        else:
            stack.enter_context(_described(spark, name))
            stack.enter_context(_watched(spark, name))
        yield
    took = time.monotonic() - begun
    if counter is None:
        log.info("%s: the job took %.1f s", name, took)
    else:
        made = counter.value - made_before
        log.info("%s: the job took %.1f s and %d requests", name, took, made)


def request_counter(spark: SparkSession) -> Accumulator[int] | None:
    """Return what counts the requests of a session's tasks; None on Connect, which has no such."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    context = spark.sparkContext
    if context not in _COUNTERS:
        _COUNTERS[context] = context.accumulator(0)
    return _COUNTERS[context]


def task_requests(spark: SparkSession) -> int:
    """Return how many requests tasks have made of stores so far, in all jobs of the SparkContext.

    Requests are counted as by `bucketfmt.requests_made`, which has those of the driver. A job adds
    the requests of its tasks as these end, those of a task that failed excluded. Tasks of
    `format("bucketfmt")` are not counted.

    Raises:
        UnsupportedError: the session is one of Spark Connect.
    """
    check_session(spark)
    counter = request_counter(spark)
    if counter is None:
        raise bf.UnsupportedError(
            "Spark Connect does not count for clients; use the metrics of the store"
        )
    return int(counter.value)


def allowed_retries(options: bf.WriteArguments) -> int:
    """Return how often to begin a write anew: not where its rows would be out of date.

    Raises:
        TypeError, ValueError: `retries` is no such number.
    """
    retries = check_int("retries", options.get("retries", 3), 0)
    return retries if options.get("read_at") is None else 0


def options_of_try(options: bf.WriteArguments, table: bf.Table) -> bf.WriteArguments:
    """Return the options of a write whose rows are read from the table in each try."""
    read_at = options.get("read_at")
    return {**options, "read_at": table.timeline if read_at is None else read_at}


def repeat_on_conflict(what: str, retries: int, attempt: Callable[[], _T]) -> _T:
    """Return what `attempt` returns, which is called again after a conflict.

    Raises:
        ConflictError: the last attempt had a conflict too.
    """
    for left in reversed(range(retries)):
        try:
            return attempt()
        except bf.ConflictError as error:  # noqa: PERF203  (a try is a whole job)
            log.warning("%s is tried again, at most %d times: %s", what, left + 1, error)
    return attempt()


@contextmanager
def _described(spark: SparkSession, name: str) -> Iterator[None]:
    """Describe the jobs of a classic session and name their stages."""
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, name)
    try:
        with _call_site(context, name):
            yield
    finally:
        with suppress(Exception):  # the session has ended, which the job's own error tells
            context.setLocalProperty(_DESCRIPTION, before)  # None: there was none


@contextmanager
def _call_site(context: Any, name: str) -> Iterator[None]:
    """Have stages named so, which are otherwise called `collect at FILE:LINE`."""
    try:
        from pyspark.traceback_utils import SCCallSiteSync  # noqa: PLC0415  (not public)

        site = SCCallSiteSync(context)
        site._call_site = name
    except (ImportError, AttributeError):
        yield
        return
    site.__enter__()
    try:
        yield
    finally:
        with suppress(Exception):
            site.__exit__(None, None, None)


@contextmanager
def _watched(spark: SparkSession, name: str) -> Iterator[None]:
    """Log how many tasks of the stages of this name are done."""
    if not log.isEnabledFor(logging.INFO):
        yield
        return
    ended, tracker = Event(), spark.sparkContext.statusTracker()

    def watch() -> None:
        while not ended.wait(_PROGRESS_S):
            with suppress(Exception):  # the session ends
                found = map(tracker.getStageInfo, tracker.getActiveStageIds())
                stages = [stage for stage in found if stage is not None and stage.name == name]
                if stages:
                    done = sum(stage.numCompletedTasks for stage in stages)
                    tasks = sum(stage.numTasks for stage in stages)
                    log.info("%s: %d of %d tasks are done", name, done, tasks)

    watcher = Thread(target=watch, name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _tagged(spark: Any, name: str) -> Iterator[None]:
    """Tag the operations of a session of Connect, and log how far they are where Spark tells."""
    tag = name.replace(",", ";")  # which Spark refuses
    last = [time.monotonic()]

    def tell(*, stages: Any, **_: Any) -> None:  # Spark gives keywords
        if stages and time.monotonic() - last[0] >= _PROGRESS_S:
            last[0] = time.monotonic()
            done = sum(stage.num_completed_tasks for stage in stages)
            log.info(
                "%s: %d of %d tasks are done", name, done, sum(stage.num_tasks for stage in stages)
            )

    has_handlers = hasattr(spark, "registerProgressHandler")
    spark.addTag(tag)
    if has_handlers:
        spark.registerProgressHandler(tell)
    try:
        yield
    finally:
        with suppress(Exception):
            if has_handlers:
                spark.removeProgressHandler(tell)
            spark.removeTag(tag)
