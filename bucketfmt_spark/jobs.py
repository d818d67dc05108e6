"""Jobs for spark-submit: writes, table services, checks and look-ups, as commands.

The exit code is 0 for success, 1 where a check has findings, 2 for an error, and 64 for wrong
usage, as for the command `bucketfmt`. Results are JSON on standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NoReturn, get_args

from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.buckets import rehash, resize
from bucketfmt_spark.checks import check
from bucketfmt_spark.compaction import compact
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.lookups import lookup
from bucketfmt_spark.writing import Operation, write

__all__ = ["main"]

_DEPTHS = ("quick", "default", "full")
_USAGE = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job in the session of spark-submit, or in a local session."""
    given = _parser().parse_args(arguments)
    spark = SparkSession.builder.appName(f"bucketfmt {given.command}").getOrCreate()
    try:
        return int(given.run(spark, given))
    except (bf.BucketfmtError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bucketfmt_spark", description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    upsert = _command(commands, "upsert", _upsert, "write rows of files into a table")
    upsert.add_argument("source", help="where the rows are")
    upsert.add_argument("--format", default="parquet", help="of the source; %(default)s")
    upsert.add_argument(
        "--option", action="append", default=[], metavar="K=V", help="of the source"
    )
    upsert.add_argument("--operation", choices=get_args(Operation), default="upsert")
    upsert.add_argument("--idempotency-key", help="the same key again writes nothing")
    upsert.add_argument("--evolve", action="store_true", help="add new columns, widen types")
    upsert.add_argument("--missing", choices=("error", "null", "keep"), default="error")
    upsert.add_argument("--codec", choices=("zstd", "snappy", "gzip", "none"))
    upsert.add_argument("--num-tasks", type=int, help="how many tasks write")
    compaction = _command(commands, "compact", _compact, "make base files of what was logged")
    compaction.add_argument("--min-log-files", type=int, default=1)
    rehashing = _command(
        commands, "rehash", _rehash, "give all partitions another number of buckets"
    )
    rehashing.add_argument("num_buckets", type=int, help="how many buckets a partition gets")
    resizing = _command(commands, "resize", _resize, "split and merge buckets of rings")
    resizing.add_argument("--min-buckets", type=int)
    resizing.add_argument("--max-buckets", type=int)
    resizing.add_argument("--max-file-mib", type=int, help="size that base files are to have")
    checking = _command(commands, "check", _check, "look for damage")
    checking.add_argument("--depth", choices=_DEPTHS, default="default")
    finding = _command(commands, "lookup", _lookup, "write the rows of keys to files")
    finding.add_argument("keys", help="where the keys are, with their partition columns")
    finding.add_argument("into", help="where the rows go")
    finding.add_argument("--format", default="parquet", help="of both; %(default)s")
    return parser


def _command(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.add_argument("table", help="the table's path or URL")
    command.add_argument("--storage", action="append", default=[], metavar="K=V", help="for fsspec")
    command.set_defaults(run=run)
    return command


def _upsert(spark: SparkSession, given: argparse.Namespace) -> int:
    rows = _load(spark, given.source, given.format, _pairs(given.option))
    options: bf.WriteArguments = {
        "evolve": given.evolve,
        "missing": given.missing,
        "codec": given.codec,
    }
    if given.idempotency_key is not None:
        options["idempotency_key"] = given.idempotency_key
    result = write(
        rows,
        given.table,
        given.operation,
        storage_options=_pairs(given.storage),
        num_tasks=given.num_tasks,
        **options,
    )
    _print(_summary(result))
    return 0


def _compact(spark: SparkSession, given: argparse.Namespace) -> int:
    options = _pairs(given.storage)
    result = compact(spark, given.table, min_log_files=given.min_log_files, storage_options=options)
    _print(None if result is None else _summary(result))
    return 0


def _rehash(spark: SparkSession, given: argparse.Namespace) -> int:
    result = rehash(spark, given.table, given.num_buckets, storage_options=_pairs(given.storage))
    _print(None if result is None else _summary(result))
    return 0


def _resize(spark: SparkSession, given: argparse.Namespace) -> int:
    options: bf.ResizeArguments = {}
    if given.min_buckets is not None:
        options["min_buckets"] = given.min_buckets
    if given.max_buckets is not None:
        options["max_buckets"] = given.max_buckets
    if given.max_file_mib is not None:
        options["max_file_size"] = given.max_file_mib << 20
    result = resize(spark, given.table, storage_options=_pairs(given.storage), **options)
    _print(None if result is None else _summary(result))
    return 0


def _check(spark: SparkSession, given: argparse.Namespace) -> int:
    report = check(spark, given.table, given.depth, storage_options=_pairs(given.storage))
    _print(report.to_dict())
    return 0 if report.status == "clean" else 1


def _lookup(spark: SparkSession, given: argparse.Namespace) -> int:
    table = bf.open(given.table, _pairs(given.storage))
    found = lookup(_load(spark, given.keys, given.format, {}), table)
    with typed_errors():
        found.write.format(given.format).save(given.into)
    return 0


def _load(spark: SparkSession, path: str, kind: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(kind).options(**options).load(path)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    wrong = [name for name, equals, _ in pairs if not equals]
    if wrong:
        raise ValueError(f"an option is given as NAME=VALUE, not {wrong[0]!r}")
    return {name: value for name, _, value in pairs}


def _summary(result: bf.CommitResult) -> dict[str, object]:
    """Return a commit with the number of its files, of which there may be a million."""
    return {**asdict(result), "files": len(result.files)}


def _print(result: object) -> None:
    print(json.dumps(result, indent=1), flush=True)
