"""Whatever a verb is given, it takes it, or says in its own words what to give, before a job runs.

The verbs are found by introspection, so that a new one, or a new argument, is attacked too.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.executors import check_executors
from tests.own_words import is_raised_by
from tests.spark.tables import make_table


class Stranger:
    """A value that no verb takes."""


class JobBegins(BaseException):
    """All arguments were taken."""


STRANGER = Stranger()
VALUES = (
    *(None, True, 0, -1, 2**70, 1.5, "", " ", "x", "\ud800", b"x"),
    *([], [None], [3], ["x"], ["\ud800"], {}, {3: 3}, {"x": "sum"}, {"x": None}, ("a", "b", "c")),
    *(pd.DataFrame({"a": [1]}), pa.table({"a": [1]}), [STRANGER], STRANGER),
)
SQL = {"filter", "condition", "set", "values", "schema"}
"""The arguments that may be SQL text, of which Spark says what is wrong."""

ROWS = pa.table({"id": ["a", "b", "c"], "fare": [1.0, 2.0, 3.0]})
SAID = {**dict.fromkeys(("since", "until", "as_of"), "an instant"), "*": "clauses"}
"""How messages name an argument otherwise."""
WITHOUT_ARGUMENTS = {"ExecutorError", "SessionError", "typed_errors"}
GIVEN: dict[str, dict[str, Any]] = {
    "aggregate": {"keys": ["id"], "aggs": {"n": ("*", "count")}},
    "batch_writer": {"query": "q"},
    "bucket_id": {"index": bf.SimpleBucketIndex(2), "*": ["id"]},
    "changes": {"since": None},
    "create": {"schema": ROWS.schema, "record_key": ["id"], "index": bf.SimpleBucketIndex(2)},
    "delete": {"filter": "id = 'a'"},
    "join": {"suffix": "_2"},
    "merge": {"*": [bs.Update()]},
    "migrate": {"index": bf.SimpleBucketIndex(2)},
    "rehash": {"num_buckets": 4},
    "rescale": {"rules": "us,4"},
    "sample": {"bucket": 1, "out_of": 2},
}
"""What verbs cannot be called without, but for sessions, tables and rows."""

VERBS = {name: getattr(bs, name) for name in bs.__all__ if name not in WITHOUT_ARGUMENTS}


def arguments_of(verb: Callable[..., object]) -> list[str]:
    found = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            is_write = "Write" in str(parameter.annotation)
            found += (bf.WriteArguments if is_write else bf.ResizeArguments).__annotations__
        elif parameter.kind is parameter.VAR_POSITIONAL:
            found.append("*")
        else:
            found.append(parameter.name)
    return found


CASES = [f"{name}({argument})" for name, verb in VERBS.items() for argument in arguments_of(verb)]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bf.Table]:
    """Tables, which nobody changes, by the verb; the table of other verbs is at an empty text."""
    indexes = {"": bf.SimpleBucketIndex(2), "resize": bf.ConsistentHashingIndex(2)}
    indexes["migrate"] = bf.RecordIndex()
    folder = tmp_path_factory.mktemp("every")
    tables = {
        name: make_table(
            folder / f"t{name}",
            ROWS,
            index,
            table_type="COPY_ON_WRITE" if name == "migrate" else "MERGE_ON_READ",
        )
        for name, index in indexes.items()
    }
    tables[""].savepoint()
    return tables


Attack = Callable[[str, str, object], Exception | None]


@pytest.fixture
def attack(
    spark: SparkSession,
    templates: dict[str, bf.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Attack:
    """Calls a verb with a value for one of its arguments, and returns its refusal."""
    monkeypatch.chdir(tmp_path)  # "x" is a path
    check_executors(spark)
    frame = spark.createDataFrame([("a", 5.0)], "id string, fare double")
    instant = templates[""].timeline.writes.completed.instants[-1].requested_time
    numbers = count()

    def begin(_: DataFrame) -> None:
        raise JobBegins

    def arguments(name: str) -> dict[str, Any]:
        template = templates.get(name, templates[""])
        uri = str(tmp_path / f"t{next(numbers)}")
        if name != "create":
            shutil.copytree(template.uri, uri)
        known = {"spark": spark, "df": frame, "instant": instant, "savepoint": instant}
        known |= dict.fromkeys(("uri", "table", "left", "right"), uri)
        known["scan"] = template.scan()
        names = inspect.signature(VERBS[name]).parameters
        return {key: known[key] for key in names if key in known} | GIVEN.get(name, {})

    def call(name: str, argument: str, value: object) -> Exception | None:
        given = arguments(name)
        given[argument] = [value] if argument == "*" else value
        many = given.pop("*", [])
        before = [given.pop(key) for key in ("df", "uri") if many and key in given]
        try:
            done = VERBS[name](*before, *many, **given)
            if name == "batch_writer":
                done(frame, 0)
        except (TypeError, ValueError, bf.BucketfmtError) as error:
            return error
        except AnalysisException:
            assert argument in SQL
        except JobBegins:
            pass
        return None

    monkeypatch.setattr(type(frame), "collect", begin)
    return call


@pytest.mark.rotated(1, among="arguments on Spark", one_of=4)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:claim")
def test_a_value_is_taken_or_refused_in_our_own_words(case: str, attack: Attack) -> None:
    name, argument = case.rstrip(")").split("(")
    said = "columns" if case == "bucket_id(*)" else SAID.get(argument, argument)
    for value in VALUES:
        refusal = attack(name, argument, value)
        if refusal is None:
            assert value is not STRANGER
            continue
        told = f"{ascii(value)[:60]}: {refusal!r}"
        assert is_raised_by(refusal, bf, bs), told
        assert said in str(refusal) or tells_of(refusal, value), told


def tells_of(refusal: Exception, value: object) -> bool:
    """Whether an error tells of the table, or shows a value of the right type."""
    if isinstance(refusal, bf.BucketfmtError):
        return True
    is_many = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    shown = list(value) if is_many else [value]  # a DataFrame is taken as the names of its columns
    return isinstance(refusal, ValueError) and any(repr(each) in str(refusal) for each in shown)
