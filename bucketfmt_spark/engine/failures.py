"""Restores the types of errors of tasks, which Spark brings to the driver as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import bucketfmt as bf
from bucketfmt_spark.engine.executors import ExecutorError

__all__ = ["typed_errors"]

_KINDS = {
    name: kind
    for name in bf.__all__
    if isinstance(kind := getattr(bf, name), type) and issubclass(kind, bf.BucketfmtError)
}
_OURS = re.compile(r"^\s*bucketfmt\.errors\.(\w+): (.+)$", re.MULTILINE)
_CALLERS = re.compile(
    r'File "[^"]*bucketfmt(?:_spark)?/[^"]+", line.*?^(ValueError|TypeError): (.+?)$',
    re.DOTALL | re.MULTILINE,
)
_RAISED = re.compile(  # by the expression of `bucket_id`; releases wrap it differently
    r"(the record key fields [^\n]+? are null or empty; Hudi takes no such row"
    r"|a record key that Hudi 1\.x never returns from hashing[^\n]*?)(?= SQLSTATE|\s*$)",
    re.MULTILINE,
)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '((?:bucketfmt|pyarrow)\w*)")


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the error of a failed task in place of Spark's error.

    Raises:
        BucketfmtError: as the task raised it.
        ExecutorError: an executor lacks the package.
        ValueError: as the task raised it.
        TypeError: as the task raised it.
    """
    try:
        yield
    except (bf.BucketfmtError, ValueError, TypeError):
        raise
    except Exception as error:
        found = find_cause(str(error))
        if found is None:
            raise
        raise found from error


def find_cause(text: str) -> Exception | None:
    """Return the error of bucketfmt in a message of Spark's; None if the message has none."""
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
    raised = _RAISED.search(text)
    if raised:
        return bf.KeyEncodingError(raised[1])
    callers = _CALLERS.search(text)
    if callers:
        return (ValueError if callers[1] == "ValueError" else TypeError)(callers[2].strip())
    return None
