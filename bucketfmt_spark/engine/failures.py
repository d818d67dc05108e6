"""Restores the types of errors of tasks, which Spark brings to the driver as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from pyspark.errors import AnalysisException

import bucketfmt as bf
from bucketfmt_spark.engine.executors import ExecutorError, SessionError

__all__ = ["typed_errors"]

_KINDS = {
    name: kind
    for name in bf.__all__
    if isinstance(kind := getattr(bf, name), type) and issubclass(kind, bf.BucketfmtError)
}
_KINDS["ExecutorError"] = ExecutorError
_OURS = re.compile(
    r"^\s*bucketfmt(?:\.errors|_spark\.engine\.executors)\.(\w+): (.+)$", re.MULTILINE
)
_ENDED = re.compile(
    r"SparkContext (?:was|has been) (?:shut ?down|stopped)|stopped SparkContext"
    r"|Error while sending or receiving|Answer from Java side is empty"
    r"|while trying to connect to the Java server|INVALID_HANDLE\.SESSION_"
    r"|An error occurred while calling [\w.$]+\s*\Z"  # which says no more where the JVM died
)
_CALLERS = re.compile(
    r'File "[^"]*bucketfmt(?:_spark)?/[^"]+", line.*?^(ValueError|TypeError): (.+?)$',
    re.DOTALL | re.MULTILINE,
)
_RAISED = re.compile(  # by the expression of `bucket_id`; releases wrap it differently
    r"(the record key fields [^\n]+? are null or empty; Hudi takes no such row"
    r"|a record key that Hudi 1\.x never returns from hashing[^\n]*?)(?= SQLSTATE|\s*$)",
    re.MULTILINE,
)
_REFUSED = re.compile(  # by an expression of `merge`
    r"(column [^\n]+? is not equal to any of that type; cast or round it)"
)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '((?:bucketfmt|pyarrow)\w*)")


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the error of a failed task in place of Spark's error.

    For actions on DataFrames, whose tasks run when you call the action. Verbs that run jobs do so
    themselves.

    >>> with bs.typed_errors():                                                 # doctest: +SKIP
    ...     rows = bs.read(spark, "s3://lake/trips").collect()

    Raises:
        BucketfmtError: as the task raised it.
        ExecutorError: an executor lacks the package.
        SessionError: the session ended meanwhile.
        ValueError: as the task raised it.
        TypeError: as the task raised it.
    """
    try:
        yield
    except (bf.BucketfmtError, ValueError, TypeError):
        raise
    except Exception as error:
        if _is_of_lost_gateway(error):
            raise _ended() from None
        found = find_cause(str(error), is_of_plan=isinstance(error, AnalysisException))
        if found is None:
            raise
        raise found from None  # Spark's traceback of the task says no more


def find_cause(text: str, *, is_of_plan: bool = False) -> Exception | None:
    """Return the error of bucketfmt in a message of Spark's; None if the message has none.

    Args:
        text: The message.
        is_of_plan: Whether Spark refused a plan, and no task failed. Such a message may print the
            plan, and with it the messages that expressions of bucketfmt would raise.
    """
    ours = [found for found in _OURS.findall(text) if found[0] in _KINDS]
    if ours:
        name, message = ours[-1]
        return _KINDS[name](message.strip())
    missing = _MISSING.search(text)
    if missing:
        return ExecutorError(
            f"an executor has no module {missing[1]}; install bucketfmt on all executors, or send "
            "it with the job: spark.addArtifacts(...) or --py-files"
        )
    if _ENDED.search(text):
        return _ended()
    raised = None if is_of_plan else _RAISED.search(text)
    if raised:
        return bf.KeyEncodingError(raised[1])
    refused = None if is_of_plan else _REFUSED.search(text)
    if refused:
        return bf.SchemaError(refused[1])
    callers = _CALLERS.search(text)
    if callers:
        return (ValueError if callers[1] == "ValueError" else TypeError)(callers[2].strip())
    return None


def _ended() -> SessionError:
    return SessionError(
        "the session of Spark ended while the job was running, so nothing was committed; start a "
        "session and write again"
    )


def _is_of_lost_gateway(error: Exception) -> bool:
    """Whether the process of Spark does not answer, of which py4j says what sockets say."""
    if not isinstance(error, OSError):
        return False
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith("py4j.")
