"""Jobs for spark-submit: writes, table services, checks and look-ups, as commands.

The exit codes are those of the command `bucketfmt`: 0 for success, 1 where a check has findings, 2
for an error, 3 for what is not supported, and 64 for wrong usage. Results are JSON on standard
output, unless `--output text` is given.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, NoReturn, get_args

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt.choices import (
    CleanPolicy,
    Codec,
    Concurrency,
    Depth,
    Duplicates,
    KeyForm,
    Missing,
    SharedLock,
    Split,
    StartedOperation,
)
from bucketfmt_spark.bucket_id import key_fields
from bucketfmt_spark.deleting import delete
from bucketfmt_spark.engine.executors import map_batches
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.opening import open_table
from bucketfmt_spark.engine.resolver import named_as
from bucketfmt_spark.engine.spark_types import arrow_of
from bucketfmt_spark.lookups import lookup
from bucketfmt_spark.reading import read
from bucketfmt_spark.table_services.buckets import migrate, rehash, rescale, resize
from bucketfmt_spark.table_services.checks import check
from bucketfmt_spark.table_services.compaction import compact
from bucketfmt_spark.table_services.services import (
    archive,
    clean,
    create,
    delete_savepoint,
    maintain,
    restore,
    rollback,
    savepoint,
)
from bucketfmt_spark.writing import write

__all__ = ["main"]

_OK, _FAILED, _UNSUPPORTED, _USAGE = 0, 2, 3, 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: {message}\n")


class _Job(NamedTuple):
    """A job: what it does, the function that runs it, and its own arguments.

    The function returns a value for JSON, and is None where a job says all by its exit code.
    """

    text: str
    run: Callable[[SparkSession, argparse.Namespace], Any]
    add: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    may_be_dry: bool = True
    writes: bool = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job in the session of spark-submit, or in a local session; return its exit code."""
    given = _parser().parse_args(arguments)
    spark = SparkSession.builder.appName(f"bucketfmt {given.command}").getOrCreate()
    job = _JOBS[given.command]
    try:
        result = job.run(spark, given)
    except bf.UnsupportedError as error:
        return _told(error, _UNSUPPORTED)
    except (bf.BucketfmtError, AnalysisException) as error:  # a filter or files that Spark refuses
        return _told(error, _FAILED)
    except (ValueError, TypeError) as error:
        return _told(error, _USAGE)
    except Exception:  # of Spark, with Py4J or without; 1 would say that a check has findings
        traceback.print_exc()
        return _FAILED
    _print(_plain(result), given.output)
    return result.exit_code if isinstance(result, bf.CheckReport) else _OK


def _told(error: Exception, code: int) -> int:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bucketfmt_spark", description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, job in _JOBS.items():
        command = commands.add_parser(name, help=job.text, description=job.text)
        command.add_argument("table", help="the table's path or URL")
        job.add(command)
        command.add_argument(
            "--storage-option", action="append", default=[], metavar="KEY=VALUE", help="for fsspec"
        )
        command.add_argument("--output", choices=("json", "text"), default="json")
        if name not in ("create", "migrate"):
            command.add_argument(
                "--index", metavar="INDEX", help="where none is recorded: simple:N[:FIELDS], ..."
            )
        if job.may_be_dry:
            command.add_argument(
                "--dry-run", action="store_true", help="tell what would happen, change nothing"
            )
        if job.writes:
            command.add_argument("--lock", choices=get_args(SharedLock), default="auto")
            command.add_argument(
                "--concurrency", choices=get_args(Concurrency), default="optimistic"
            )
            command.add_argument(
                "--drop-metadata-table", action="store_true", help="in place of writing to it"
            )
            command.add_argument(
                "--no-services", action="store_true", help="do not compact, clean and archive then"
            )
    return parser


# -- what the options mean


def _opened(spark: SparkSession, given: argparse.Namespace) -> bf.Table:
    index = getattr(given, "index", None)
    return open_table(
        spark,
        given.table,
        _storage(given),
        None if index is None else bf.parse_index(index),
        _writer(given) if hasattr(given, "lock") else None,
    )


def _writer(given: argparse.Namespace) -> bf.WriterConfig:
    return bf.WriterConfig(
        lock=given.lock,
        concurrency=given.concurrency,
        metadata_table="drop" if given.drop_metadata_table else "sync",
        services=None if given.no_services else bf.Services(),
    )


def _storage(given: argparse.Namespace) -> dict[str, Any] | None:
    return bf.parse_storage_options(_pairs(given.storage_option)) or None


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    wrong = [name for name, equals, _ in pairs if not equals]
    if wrong:
        raise ValueError(f"an option is given as KEY=VALUE, not {wrong[0]!r}")
    return {name: value for name, _, value in pairs}


def _names(text: str | None) -> list[str]:
    return text.split(",") if text else []


def _load(
    spark: SparkSession, path: str, kind: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    return spark.read.format(kind).options(**(options or {})).load(path)


def _given(given: argparse.Namespace, *names: str) -> Any:
    """Return those arguments that were given."""
    return {name: value for name in names if (value := getattr(given, name)) is not None}


# -- the jobs


def _create(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    made = create(
        spark,
        given.table,
        _load(spark, given.like, given.format).schema,
        record_key=_names(given.key),
        index=bf.parse_index(given.index),
        partition_by=_names(given.partition_by),
        ordering=_names(given.ordering),
        table_type="MERGE_ON_READ" if given.merge_on_read else "COPY_ON_WRITE",
        table_version=given.table_version,
        name=given.name,
        properties=_pairs(given.property),
        storage_options=_storage(given),
        writer=_writer(given),
    )
    return {
        "table": made.config.name,
        "uri": made.uri,
        "index": made.index.text if made.index else None,
    }


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--like", required=True, help="files that have the columns")
    parser.add_argument("--format", default="parquet", help="of the files; %(default)s")
    parser.add_argument("--key", required=True, metavar="FIELD,...", help="the record key")
    parser.add_argument("--index", required=True, metavar="INDEX", help="simple:N[:FIELDS], ...")
    parser.add_argument("--partition-by", metavar="FIELD,...")
    parser.add_argument("--ordering", metavar="FIELD,...")
    parser.add_argument("--merge-on-read", action="store_true")
    parser.add_argument("--table-version", type=int, default=9)
    parser.add_argument("--name", help="by default the last part of the path")
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")


def _upsert(spark: SparkSession, given: argparse.Namespace) -> Any:
    rows = _load(spark, given.source, given.format, _pairs(given.option))
    table = _opened(spark, given)
    if given.dry_run:
        return _plan(rows, table, given)
    options: bf.WriteArguments = {"evolve": given.evolve, "missing": given.missing}
    options |= _given(given, "codec", "idempotency_key")
    return write(rows, table, given.operation, num_tasks=given.num_tasks, **options)


def _plan(rows: DataFrame, table: bf.Table, given: argparse.Namespace) -> dict[str, int]:
    """Return where rows would go. One job.

    Raises:
        SchemaError: the rows do not fit the table, so that they would be refused.
    """
    rows = named_as(rows, table.schema.names)
    if given.operation != "delete":
        columns = arrow_of(rows.schema)
        table.preview_schema_changes(columns, evolve=given.evolve, missing=given.missing)
    pinned = table.pinned()

    def assign(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assigned = pinned.assign(pa.Table.from_batches([batch]))
            yield from assigned.select(["partition_path", "bucket_id"]).to_batches()

    with typed_errors():
        keys = rows.select(*key_fields(table))
        assigned = map_batches(keys, assign, "partition_path string, bucket_id int")
        groups = assigned.groupBy("partition_path", "bucket_id").count().collect()
    return {
        "rows_to_write": sum(row["count"] for row in groups),
        "partitions": len({row.partition_path for row in groups}),
        "buckets": len(groups),
    }


def _add_upsert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="where the rows are")
    parser.add_argument("--format", default="parquet", help="of the source; %(default)s")
    parser.add_argument(
        "--option", action="append", default=[], metavar="K=V", help="of the source"
    )
    parser.add_argument("--operation", choices=get_args(StartedOperation), default="upsert")
    parser.add_argument("--idempotency-key", help="the same key again writes nothing")
    parser.add_argument("--evolve", action="store_true", help="add new columns, widen types")
    parser.add_argument("--missing", choices=get_args(Missing), default="error")
    parser.add_argument("--codec", choices=get_args(Codec))
    parser.add_argument("--num-tasks", type=int, help="how many tasks write")


def _delete(spark: SparkSession, given: argparse.Namespace) -> Any:
    table = _opened(spark, given)
    if given.dry_run:
        with typed_errors():
            return {"rows_to_delete": read(spark, table, filter=given.filter).count()}
    options: bf.WriteArguments = _given(given, "codec", "idempotency_key")
    return delete(spark, table, given.filter, num_tasks=given.num_tasks, **options)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", help="SQL condition of the rows to delete: city = 'sf'")
    parser.add_argument("--idempotency-key", help="the same key again writes nothing")
    parser.add_argument("--codec", choices=get_args(Codec))
    parser.add_argument("--num-tasks", type=int, help="how many tasks write")


def _compact(spark: SparkSession, given: argparse.Namespace) -> Any:
    table = _opened(spark, given)
    if given.dry_run:
        return table.preview_compaction(min_log_files=given.min_log_files)
    return compact(spark, table, min_log_files=given.min_log_files, codec=given.codec)


def _add_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--min-log-files", type=int, default=1)
    parser.add_argument("--codec", choices=get_args(Codec))


def _clean(spark: SparkSession, given: argparse.Namespace) -> Any:
    table = _opened(spark, given)
    return clean(spark, table, policy=given.policy, retain=given.retain, dry_run=given.dry_run)


def _add_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", choices=get_args(CleanPolicy), default="KEEP_LATEST_COMMITS")
    parser.add_argument(
        "--retain", type=int, help="commits (default 10) or file slices (3) to keep"
    )


def _maintain(spark: SparkSession, given: argparse.Namespace) -> Any:
    found = maintain(spark, _opened(spark, given), dry_run=given.dry_run)
    return {
        "compaction": _plain(found.compaction),
        "clean": _plain(found.clean),
        "archived": [instant.requested_time for instant in found.archived],
    }


def _archive(spark: SparkSession, given: argparse.Namespace) -> Any:
    limits = _given(given, "min_commits", "max_commits")
    return {"instants": archive(spark, _opened(spark, given), dry_run=given.dry_run, **limits)}


def _add_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--min-commits", type=int, help="leave so many; 20")
    parser.add_argument("--max-commits", type=int, help="archive if there are more; 30")


def _rollback(spark: SparkSession, given: argparse.Namespace) -> Any:
    return rollback(spark, _opened(spark, given), given.instant, dry_run=given.dry_run)


def _add_instant(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("instant", help=what)


def _savepoint(spark: SparkSession, given: argparse.Namespace) -> Any:
    table = _opened(spark, given)
    if not given.delete:
        comments = given.comments
        made = savepoint(spark, table, given.instant, comments=comments, dry_run=given.dry_run)
        return {"savepoint": made}
    if given.instant is None or given.dry_run:
        raise ValueError("--delete takes the instant of a savepoint, and no --dry-run")
    delete_savepoint(spark, table, given.instant)
    return {"deleted": given.instant}


def _add_savepoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("instant", nargs="?", help="of a write; by default the newest")
    parser.add_argument("--comments", default="", help="why; recorded in it")
    parser.add_argument("--delete", action="store_true", help="remove the savepoint")


def _restore(spark: SparkSession, given: argparse.Namespace) -> Any:
    return restore(spark, _opened(spark, given), given.instant, dry_run=given.dry_run)


def _rehash(spark: SparkSession, given: argparse.Namespace) -> Any:
    table = _opened(spark, given)
    if given.dry_run:
        return table.preview_rehash(given.num_buckets)
    return rehash(spark, table, given.num_buckets, codec=given.codec)


def _add_rehash(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("num_buckets", type=int, help="how many buckets a partition gets")
    parser.add_argument("--codec", choices=get_args(Codec))


def _rescale(spark: SparkSession, given: argparse.Namespace) -> Any:
    table, rules = _opened(spark, given), ";".join(given.rule)
    if given.dry_run:
        return table.preview_rescale(rules, default=given.default, add=given.add)
    return rescale(spark, table, rules, default=given.default, add=given.add, codec=given.codec)


def _add_rescale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rule", action="append", required=True, metavar="REGEX,NUMBER")
    parser.add_argument("--default", type=int, help="buckets where no rule matches")
    parser.add_argument("--add", action="store_true", help="before the rules of now")
    parser.add_argument("--codec", choices=get_args(Codec))


def _resize(spark: SparkSession, given: argparse.Namespace) -> Any:
    table = _opened(spark, given)
    options = _given(
        given, "min_buckets", "max_buckets", "max_file_size", "max_bytes", "split", "partitions"
    )
    if given.dry_run:
        return table.preview_resize(**options)
    return resize(spark, table, codec=given.codec, **options)


def _add_resize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--min-buckets", type=int)
    parser.add_argument("--max-buckets", type=int)
    parser.add_argument("--max-file-size", type=int, metavar="BYTES", help="of base files")
    parser.add_argument("--max-bytes", type=int, help="to read at most")
    parser.add_argument("--split", choices=get_args(Split))
    parser.add_argument("--partition", action="append", dest="partitions", metavar="PATH")
    parser.add_argument("--codec", choices=get_args(Codec))


def _migrate(spark: SparkSession, given: argparse.Namespace) -> Any:
    index: Any = None if given.to is None else bf.parse_index(given.to)
    table = _opened(spark, given)
    if given.dry_run:
        return table.preview_migrate(index, keys=given.keys, duplicates=given.duplicates)
    return migrate(
        spark,
        table,
        index,
        keys=given.keys,
        duplicates=given.duplicates,
        partitions_per_commit=given.partitions_per_commit,
        codec=given.codec,
    )


def _add_migrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="INDEX", help="simple:N[:FIELDS], partition:N:RULES, ...")
    parser.add_argument("--keys", choices=get_args(KeyForm))
    parser.add_argument("--duplicates", choices=get_args(Duplicates), default="refuse")
    parser.add_argument("--partitions-per-commit", type=int)
    parser.add_argument("--codec", choices=get_args(Codec))


def _check(spark: SparkSession, given: argparse.Namespace) -> Any:
    return check(spark, _opened(spark, given), given.depth)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--depth", choices=get_args(Depth), default="default")


def _lookup(spark: SparkSession, given: argparse.Namespace) -> Any:
    found = lookup(_load(spark, given.keys, given.format), _opened(spark, given))
    with typed_errors():
        found.write.format(given.format).save(given.into)
    return {"into": given.into}


def _add_lookup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("keys", help="where the keys are, with their partition columns")
    parser.add_argument("into", help="where the rows go")
    parser.add_argument("--format", default="parquet", help="of both; %(default)s")


_JOBS: dict[str, _Job] = {
    "create": _Job("create a table with the columns of files", _create, _add_create, False),
    "upsert": _Job("write rows of files into a table", _upsert, _add_upsert),
    "delete": _Job("delete the rows that pass a SQL condition", _delete, _add_delete),
    "compact": _Job("make base files of what was logged", _compact, _add_compact),
    "maintain": _Job("compact, clean and archive as far as that is due", _maintain),
    "clean": _Job("delete files that only reads of past commits need", _clean, _add_clean),
    "archive": _Job("move old instants to the archive", _archive, _add_archive),
    "rehash": _Job("give all partitions another number of buckets", _rehash, _add_rehash),
    "rescale": _Job("give partitions numbers of buckets by rules", _rescale, _add_rescale),
    "resize": _Job("split and merge buckets of rings and directories", _resize, _add_resize),
    "migrate": _Job("give a table a bucket index", _migrate, _add_migrate),
    "rollback": _Job(
        "take back the newest write, or a failed write",
        _rollback,
        partial(_add_instant, what="the requested time of the write"),
    ),
    "savepoint": _Job("keep the table as it is now, for restore", _savepoint, _add_savepoint),
    "restore": _Job(
        "take back every write after a savepoint",
        _restore,
        partial(_add_instant, what="of the savepoint"),
    ),
    "check": _Job("look for damage", _check, _add_check, may_be_dry=False, writes=False),
    "lookup": _Job(
        "write the rows of keys to files", _lookup, _add_lookup, may_be_dry=False, writes=False
    ),
}


# -- what a job prints


def _plain(result: Any) -> Any:
    """Return a result as a value for JSON, with the number of files where there may be many."""
    if isinstance(result, bf.CheckReport):
        return result.to_dict()
    if result is None or isinstance(result, dict):
        return result
    found = asdict(result)
    if isinstance(result, bf.CommitResult | bf.CleanResult):
        found["files"] = len(result.files)
    return found


def _print(result: Any, output: str) -> None:
    if output == "json" or not isinstance(result, dict):
        print(json.dumps(result, indent=1), flush=True)
        return
    for name, value in result.items():
        print(f"{name.replace('_', ' ')}: {value}")
