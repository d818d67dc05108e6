"""Whatever a public function is given, it takes it, or says in its own words what to give.

The functions are found by introspection, so that a new one, or a new argument, is attacked too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.api.resizes import ResizableTable
from bucketfmt.api.table import Table
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from tests.own_words import is_raised_by
from tests.write.models import SCHEMA, rows

Call = Callable[[Any], object]


class Stranger:
    """A value that no function takes."""


STRANGER = Stranger()
VALUES = (
    *(None, True, 0, -1, 3, 2**70, 1.5, math.nan, math.inf),
    *("", "x", "\ud800", "a\0b", "../x", "x" * 10_000, b"x"),
    *([], [None], [3], [""], ["x"], [["x"]], {}, {3: 3}, {"x"}),
    *(np.array([1, 2]), pa.table({"a": [1]}), datetime(2020, 1, 1), STRANGER),
)

MADE_BY_USERS = {
    bf.ArchivePolicy: {},
    bf.ConsistentHashingIndex: {"num_buckets": 2},
    bf.ExtendibleHashingIndex: {"num_buckets": 2},
    bf.Limits: {},
    bf.MultiGroupBucketIndex: {"num_buckets": 2},
    bf.PartitionBucketIndex: {"default": 2, "rules": "a,1"},
    bf.RecordIndex: {},
    bf.Retention: {},
    bf.Services: {},
    bf.SimpleBucketIndex: {"num_buckets": 2},
    bf.WriterConfig: {},
}
"""The classes whose values users make, with what they cannot be made without."""

RETURNED = {
    *(bf.BloomIndex, bf.BucketAdvice, bf.BucketGroups, bf.CleanResult, bf.CommitResult),
    *(bf.CommonBuckets, bf.CompactionPreview, bf.CompactionTask, bf.Duration, bf.EvenSplit),
    *(bf.Finding, bf.Index, bf.MaintainResult, bf.MiddleSplit, bf.MigratePreview),
    *(bf.MigrateResult, bf.PartitionAdvice, bf.PinnedTable, bf.ReadTask, bf.Recommendation),
    *(bf.BucketRepair, bf.RepairedRing),
    *(bf.RehashPreview, bf.RescalePreview, bf.ResizeArguments, bf.ResizePreview),
    *(bf.RestoreResult, bf.RewriteTask, bf.RollbackResult, bf.Scan, bf.ScanPlan),
    *(bf.SplitPolicy, bf.StartedCompaction, bf.StartedResize, bf.StartedRewrite),
    *(bf.StartedWrite, bf.Table, bf.TableReport, bf.TaskReader, bf.WriteArguments),
    *(bf.WritePreview, bf.WriteTask, bf.CheckReport, bf.KeyLocator),
}
"""The classes whose values bucketfmt makes."""

_GIVEN: dict[str, dict[str, Any]] = {
    "changes": {"since": None},
    "delete": {"keys": ["key-000001"]},
    "delete_partitions": {"paths": ["us"]},
    "delete_savepoint": {"instant": "1"},
    "examine": {"depth": "full", "number": 0, "of": 1},
    "find_commit": {"idempotency_key": "a"},
    "keep_alive": {"task": None},
    "locate": {"keys": ["key-000001"]},
    "log_blocks": {"path": "x"},
    "lookup": {"keys": ["key-000001"]},
    "metadata_entries": {"partition": "files"},
    "restore": {"savepoint": "1"},
    "resume_write": {"task": None},
    "preview_schema_changes": {"schema": SCHEMA},
    "preview_write": {"data": rows([1], ts=3)},
    "start_write": {"operation": "upsert", "schema": SCHEMA},
    **{name: {"num_buckets": 4} for name in ("preview_rehash", "rehash", "start_rehash")},
    **{name: {"rules": "us,4"} for name in ("preview_rescale", "rescale", "start_rescale")},
    **{
        name: {"data": rows([1], ts=3)}
        for name in ("bulk_insert", "insert", "insert_overwrite", "upsert")
    },
}
"""What methods cannot be called without."""


@cache
def files_of(kind: str) -> dict[str, bytes]:
    kinds = {"records": bf.RecordIndex(), "rings": bf.ConsistentHashingIndex(2)}
    with TemporaryDirectory() as folder:
        table = create_in(
            folder,
            index=kinds.get(kind, bf.SimpleBucketIndex(2)),
            table_type="COPY_ON_WRITE" if kind == "records" else "MERGE_ON_READ",
        )
        table.upsert(rows(range(8), ts=1))
        table.upsert(rows(range(4), ts=2))
        return MemoryStore.of_folder(table.uri).files


def create_in(folder: str, **given: Any) -> bf.Table:
    arguments: dict[str, Any] = {
        "uri": f"{folder}/t",
        "schema": SCHEMA,
        "record_key": ["id"],
        "partition_by": ["region"],
        "ordering": ["ts"],
    }
    return bf.create(**{**arguments, **given})


def new_table(kind: str) -> bf.Table:
    store = MemoryStore(dict(files_of(kind)))
    return Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)


def arguments_of(function: Callable[..., object]) -> list[str]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            is_write = "Write" in str(parameter.annotation)
            found += (bf.WriteArguments if is_write else bf.ResizeArguments).__annotations__
        elif parameter.kind is parameter.VAR_POSITIONAL:
            found.append("*")
        elif parameter.name != "self":
            found.append(parameter.name)
    return found


def methods_of(kind: type) -> dict[str, Callable[..., object]]:
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: each for name, each in found.items() if inspect.isfunction(each)}


def call_with(function: Callable[..., object], argument: str, given: Any, value: Any) -> object:
    return function(value) if argument == "*" else function(**{**given, argument: value})


def of_table(room: str, name: str, argument: str, value: object) -> None:
    """Call a method of a new table, or of one of its rooms; leave what it began."""
    is_resize = name in methods_of(ResizableTable) and "resize" in name
    kind = "records" if room == "metadata_table" or name == "metadata_entries" else "buckets"
    table = new_table("rings" if is_resize else kind)
    whose = getattr(table, room) if room else table
    done = call_with(getattr(whose, name), argument, _GIVEN.get(name, {}), value)
    for end in ("abandon", "abort"):
        getattr(done, end, lambda: None)()
    if isinstance(done, bf.Scan):
        done.to_arrow()


def open_with(function: Callable[..., object], argument: str, value: object) -> None:
    with TemporaryDirectory() as folder:
        uri = f"{folder}/t"
        for path, data in files_of("buckets").items():
            (Path(uri) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(uri) / path).write_bytes(data)
        call_with(function, argument, {"uri": uri}, value)


def create_with(argument: str, value: object) -> None:
    with TemporaryDirectory() as folder:
        create_in(folder, **{argument: value})


def of_started(begin: str, arguments: tuple[Any, ...], use: Callable[[Any], object]) -> None:
    with getattr(new_table("buckets"), begin)(*arguments) as started:
        use(started)


def further_cases() -> dict[str, Call]:
    """The calls of what is not called with keywords."""
    table = new_table("buckets")
    scan, locator, pinned = table.scan(), table.locator(), table.pinned()
    (task, *_), reader, report = scan.tasks(), scan.task_reader(), table.check()
    write, rehash = ("start_write", ("upsert", SCHEMA)), ("start_rehash", (4,))
    given = rows([1], ts=3)
    return {
        "group_buckets": bf.group_buckets,
        "parse_index": bf.parse_index,
        "parse_storage_options": bf.parse_storage_options,
        "merge_reports(reports)": lambda v: bf.merge_reports(v, 3),
        "merge_reports(max_findings)": lambda v: bf.merge_reports([report], v),
        "CheckReport.from_dict": bf.CheckReport.from_dict,
        "Finding.from_dict": bf.Finding.from_dict,
        "Scan.to_batches": lambda v: list(scan.to_batches(v)),
        "Scan.to_duckdb(connection)": lambda v: scan.to_duckdb(v, "name"),
        "KeyLocator.locate": locator.locate,
        "PinnedTable.assign": pinned.assign,
        "PinnedTable.layout": pinned.layout,
        "ReadTask.split": task.split,
        "TaskReader.read(payload)": lambda v: list(reader.read(v)),
        "TaskReader.read(batch_rows)": lambda v: list(reader.read(task.payload, v)),
        "TaskReader.of_columns": reader.of_columns,
        "TaskReader.of_keys": reader.of_keys,
        "TaskReader.keys_of": reader.keys_of,
        "TableReport.save": table.report().save,
        "StartedWrite.publish": lambda v: of_started(*write, lambda w: w.publish(v)),
        "WriteTask.write(data)": lambda v: of_started(
            *write, lambda w: list(w.task.write(v, "0-0-0"))
        ),
        "WriteTask.write(write_token)": lambda v: of_started(
            *write, lambda w: list(w.task.write(given, v))
        ),
        "StartedCompaction.publish": lambda v: of_started(
            "start_compaction", (), lambda c: c.publish(v)
        ),
        "StartedRewrite.publish": lambda v: of_started(*rehash, lambda r: r.publish(v)),
        "StartedRewrite.run": lambda v: of_started(*rehash, lambda r: r.run(v)),
        "RewriteTask.rewrite(payload)": lambda v: of_started(
            *rehash, lambda r: r.task.rewrite(v, "0-0-0")
        ),
        "RewriteTask.rewrite(write_token)": lambda v: of_started(
            *rehash, lambda r: r.task.rewrite(r.payloads[0], v)
        ),
        **{f"create({name})": partial(create_with, name) for name in arguments_of(bf.create)},
        **{
            f"{function.__name__}({name})": partial(open_with, function, name)
            for function in (bf.open, bf.check_table, bf.report_table)
            for name in arguments_of(function)
        },
    }


def find_cases() -> dict[str, Call]:
    """Return calls that take a value for one argument, by name."""
    found = further_cases()
    table = new_table("records")
    for room, kind in (
        ("", Table),
        ("inspect", type(table.inspect)),
        ("metadata_table", type(table.metadata_table)),
    ):
        for name, method in methods_of(kind).items():
            for argument in arguments_of(method):
                label = f"{room}.{name}({argument})".lstrip(".")
                found[label] = partial(of_table, room, name, argument)
    for made, given in MADE_BY_USERS.items():
        for argument in arguments_of(made):
            found[f"{made.__name__}({argument})"] = partial(call_with, made, argument, given)
    return found


CASES = find_cases()


def refusal_of(call: Call, value: object) -> Exception | None:
    try:
        call(value)
    except (TypeError, ValueError, bf.BucketfmtError) as error:
        return error
    except OSError:  # of a report's local file
        return None
    return None


@pytest.mark.rotated(1, among="arguments", one_of=6)
@pytest.mark.parametrize("name", CASES)
def test_a_value_is_taken_or_refused_in_our_own_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "x" is a path
    for value in VALUES:
        refusal = refusal_of(CASES[name], value)
        if refusal is None:
            assert value is not STRANGER
        else:
            assert is_raised_by(refusal, bf), f"{ascii(value)[:60]}: {refusal!r}"


def test_every_public_name_is_attacked_or_made_by_bucketfmt() -> None:
    public = {getattr(bf, name) for name in bf.__all__ if name != "__version__"}
    classes = {each for each in public if inspect.isclass(each)}
    errors = {each for each in classes if issubclass(each, Exception)}
    assert classes - errors - {*MADE_BY_USERS} == RETURNED
    attacked = {name.split("(")[0] for name in CASES}
    functions = {each.__name__ for each in public - classes} - {"requests_made"}
    assert functions <= attacked
