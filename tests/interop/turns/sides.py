"""The two who write to one table in turns, each by its own means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from bucketfmt.choices import CleanPolicy, DataFormat
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from bucketfmt.write.metadata import metadata_services
from bucketfmt.write.services.compaction import Compactor
from tests.interop.engines.hudi_session import HudiSession

__all__ = [
    "Bucketfmt",
    "Hudi",
    "Side",
    "assert_clean",
    "copying",
    "init_metadata_table",
    "metadata_options",
    "options_of_metadata",
    "read_by_hudi",
    "record_index_options",
    "serving_metadata_soon",
]

_RETAINED, _KEPT_MIN, _KEPT_MAX = (
    1,
    2,
    3,
)  # commits or versions, so few that services find something to do


_METADATA_COMPACTED_AFTER = 3  # delta commits


def metadata_options(has_record_index: bool) -> dict[str, str]:
    """Return the options of Hudi's writers: all partitions, and compactions soon."""
    on = str(has_record_index).lower()
    # Beside statistics of partitions and an index of keys, Hudi 1.2 fails in some writes unless its
    # writers ask their timeline server for files (docs/reliability.md).
    asks_server = {"hoodie.embed.timeline.server": "true"} if has_record_index else {}
    return {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        **asks_server,
        "hoodie.metadata.record.index.enable": on,
        "hoodie.metadata.global.record.level.index.enable": on,
        "hoodie.metadata.record.index.min.filegroup.count": "2",
        "hoodie.metadata.compact.max.delta.commits": str(_METADATA_COMPACTED_AFTER + 1),
    }


def record_index_options(index: bf.RecordIndex) -> dict[str, str]:
    """Return the options of Hudi's writers to a table that is located by its record index."""
    if not index.partitioned:
        return {**metadata_options(has_record_index=True), "hoodie.index.type": "RECORD_INDEX"}
    return {
        **metadata_options(has_record_index=True),
        "hoodie.metadata.global.record.level.index.enable": "false",
        "hoodie.metadata.record.index.enable": "false",
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.record.level.index.min.filegroup.count": "2",
    }


def options_of_metadata(session: HudiSession, index: bf.Index | None = None) -> dict[str, str]:
    """Return the options of Hudi's writers: a metadata table where the session says so.

    Args:
        session: Of Hudi.
        index: Of the table; None: buckets.
    """
    if not session.has_metadata_table:
        return dict(_WITHOUT_METADATA)
    options = (
        record_index_options(index)
        if isinstance(index, bf.RecordIndex)
        else metadata_options(session.has_record_index)
    )
    has_filters = str(not session.has_record_index).lower()
    return {**options, "hoodie.metadata.index.bloom.filter.enable": has_filters}


def init_metadata_table(session: HudiSession, table: bf.Table) -> None:
    """Make the metadata table of an empty table, where the session says that tables have one.

    A table that is located by a record index has that index already.
    """
    if not session.has_metadata_table:
        return
    names = ["column_stats"]
    names += ["partition_stats"] if table.config.table_version >= 8 else []
    if not isinstance(table.index, bf.RecordIndex):
        names += ["record_index"] if session.has_record_index else ["bloom_filters"]
    table.metadata_table.init(*names)


def read_by_hudi(
    session: HudiSession,
    uri: str,
    settings: Mapping[str, str] | None = None,
    where: str | None = None,
) -> pa.Table:
    """Return a table as Hudi reads it, or the rows for which a condition of SQL holds.

    Where the session says that there is a metadata table, Hudi reads the same without it.
    """
    given = {**(settings or {})}
    if not session.has_metadata_table:
        return session.read(uri, given, where)
    without = session.read(uri, {**given, **_WITHOUT_METADATA}, where)
    found = session.read(uri, {**given, **_BY_METADATA}, where)
    _assert_same(found, without)
    if session.has_record_index and not given and where is None and found.num_rows:
        _assert_found_by_keys(session, uri, without)
    return found


def _assert_same(found: pa.Table, without: pa.Table) -> None:
    rows, expected = (sorted(map(str, read.to_pylist())) for read in (found, without))
    assert rows == expected, f"by the metadata table Hudi reads {rows}, without {expected}"


def _assert_found_by_keys(session: HudiSession, uri: str, rows: pa.Table) -> None:
    """By conditions on a key, for which it asks the record index, Hudi reads the same.

    These are keys that the index has: `assert_clean` says which ones may lack. Nor are they of
    partitions that Hudi leaves out by bounds that are wrong.
    """
    table = bf.open(uri)
    if len(table.config.record_key_fields) != 1 or not table.config.populate_meta_fields:
        return
    (column,) = table.config.record_key_fields
    indexed = table.inspect.metadata_entries("record_index")["record_key"]
    own = rows.filter(pc.is_in(rows[RECORD_KEY], indexed)).sort_by(RECORD_KEY)
    if _is_of_hudi_1_0(session, table):
        findings = table.check(depth="full").findings
        wrong = [each.subject.partition for each in findings if each.id == "M006"]
        own = own.filter(pc.invert(pc.is_in(own[PARTITION_PATH], pa.array(wrong, pa.string()))))
    if not own.num_rows:
        return
    asked = own.take(list(range(0, own.num_rows, 1 + own.num_rows // _KEYS_ASKED)))
    values = asked[column].unique().to_pylist()
    where = f"{column} in ({', '.join(map(repr, values))})"
    expected = rows.filter(pc.is_in(rows[column], pa.array(values, rows[column].type)))
    _assert_same(session.read(uri, _BY_RECORD_INDEX, where), expected)


def assert_clean(session: HudiSession, table: bf.Table, done: Sequence[str] = ()) -> None:
    """The full check finds nothing, but for what Hudi itself leaves out of merge-on-read tables.

    That is keys of a record index beside buckets, whose rows Hudi wrote, and in Hudi 1.0.2 bounds
    of the rows of a partition where a compaction is pending. Hudi 1.0.2 archives instants behind a
    restore, too, of which only Hudi 1.2 reads the log files wrong.

    Args:
        session: Of Hudi.
        table: The table.
        done: What was done, for messages.
    """
    table = bf.open(table.uri)
    findings = [own for own in table.check(depth="full").findings if own.severity != "info"]
    is_logged = table.config.table_type == "MERGE_ON_READ"
    if session.has_record_index and is_logged and not isinstance(table.index, bf.RecordIndex):
        if table.config.populate_meta_fields:  # they tell who wrote a row
            _assert_left_out_by_hudi(session, table, done)
        findings = [own for own in findings if _LEFT_OUT not in str(own)]
    if _is_of_hudi_1_0(session, table):
        findings = [own for own in findings if own.id not in ("M006", "T010")]
    assert not findings, f"{findings} after {done}"


def _is_of_hudi_1_0(session: HudiSession, table: bf.Table) -> bool:
    return session.version == "1.0.2" and table.config.table_type == "MERGE_ON_READ"


def _assert_left_out_by_hudi(session: HudiSession, table: bf.Table, done: Sequence[str]) -> None:
    """The record index has each key whose row bucketfmt wrote, and no key that is not there."""
    entries = table.inspect.metadata_entries("record_index")
    indexed = {(row["record_key"], row["partition_path"]) for row in entries.to_pylist()}
    rows = table.scan([RECORD_KEY, PARTITION_PATH, COMMIT_TIME]).to_arrow().to_pylist()
    by_us = {
        (row[RECORD_KEY], row[PARTITION_PATH])
        for row in rows
        if row[COMMIT_TIME] not in session.written(table.uri)
    }
    assert by_us <= indexed, f"{by_us - indexed} are not in the record index after {done}"


def serving_metadata_soon() -> AbstractContextManager[object]:
    """Have metadata tables compacted, cleaned and archived by bucketfmt after few commits."""
    return mock.patch.object(metadata_services, "_DELTA_COMMITS", _METADATA_COMPACTED_AFTER)


@contextmanager
def copying() -> Iterator[None]:
    """Have columns copied of files of any size, and within them: the tables here are small."""
    with (
        mock.patch("bucketfmt.rows.parquet.copying._COPIED_BYTES", 0),
        mock.patch("bucketfmt.rows.parquet.base_file_writer._TWIN_ROWS", 0),
    ):
        yield


_WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}
_BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
# Hudi leaves out buckets rather than to ask the index, where it is told of buckets.
_BY_RECORD_INDEX = {**_BY_METADATA, "hoodie.bucket.index.query.pruning": "false"}
_KEYS_ASKED = 5
_LEFT_OUT = "keys are not in the record index"


class Side(Protocol):
    """Who writes: all of it to one table."""

    name: str

    def upsert(self, rows: pa.Table) -> None: ...
    def bulk_insert(self, rows: pa.Table) -> None: ...
    def delete(self, rows: pa.Table) -> None: ...
    def overwrite(self, rows: pa.Table) -> None: ...
    def drop(self, partition_path: str) -> None: ...
    def schedule(self) -> None: ...
    def compact(self) -> None: ...
    def clean(self, policy: CleanPolicy) -> None: ...
    def archive(self) -> None: ...
    def rollback(self, instant: str) -> None: ...
    def savepoint(self, instant: str) -> None: ...
    def delete_savepoint(self, instant: str) -> None: ...
    def restore(self, instant: str) -> None: ...


class Bucketfmt:
    """This package, with the codec Hudi has by default: so it copies from Hudi's files too."""

    name = "bucketfmt"

    def __init__(self, table: bf.Table, log_format: DataFormat = "avro") -> None:
        self._table, self._log_format = table, log_format

    def upsert(self, rows: pa.Table) -> None:
        self._table.upsert(rows, log_format=self._log_format, codec="gzip", evolve=True)

    def bulk_insert(self, rows: pa.Table) -> None:
        self._table.bulk_insert(rows, codec="gzip")

    def delete(self, rows: pa.Table) -> None:
        config = self._table.config
        self._table.delete(rows.select([*config.record_key_fields, *config.partition_fields]))

    def overwrite(self, rows: pa.Table) -> None:
        self._table.insert_overwrite(rows)

    def drop(self, partition_path: str) -> None:
        self._table.delete_partitions([partition_path])

    def schedule(self) -> None:
        Compactor(self._table._snapshot, self._table._transactions).schedule()

    def compact(self) -> None:
        self._table.compact(codec="gzip")

    def clean(self, policy: CleanPolicy) -> None:
        self._table.clean(policy=policy, retain=_RETAINED, dry_run=False)

    def archive(self) -> None:
        self._table.archive(min_commits=_KEPT_MIN, max_commits=_KEPT_MAX)

    def rollback(self, instant: str) -> None:
        self._table.rollback(instant)

    def savepoint(self, instant: str) -> None:
        self._table.savepoint(instant)

    def delete_savepoint(self, instant: str) -> None:
        self._table.delete_savepoint(instant)

    def restore(self, instant: str) -> None:
        self._table.restore(instant)


class Hudi:
    """Hudi on Spark: rows by its data source, services by its write client.

    Where the session says so, bucketfmt makes the metadata table of the empty table, and both keep
    it in step.
    """

    name = "Hudi"

    def __init__(
        self, session: HudiSession, table: bf.Table, more: Mapping[str, str] | None = None
    ) -> None:
        self._uri = table.uri
        self.session = session
        # Hudi 1.0 fails to log a null date where column statistics are on.
        self.writes_null_dates = not (session.has_metadata_table and session.version == "1.0.2")
        init_metadata_table(session, table)
        config = table.config
        self._manual = {
            "hoodie.table.name": config.name,
            "hoodie.embed.timeline.server": "false",  # a server a write: a tenth of the time
            **options_of_metadata(session, table.index),
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.compact.inline": "false",
            **(more or {}),
        }
        # The data source reads what the properties say, the write client has to be told.
        self._options = {
            **config.properties,
            **self._manual,
            "hoodie.datasource.write.recordkey.field": ",".join(config.record_key_fields),
            "hoodie.datasource.write.precombine.field": ",".join(config.ordering_fields),
            "hoodie.datasource.write.partitionpath.field": ",".join(config.partition_fields),
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.cleaner.commits.retained": str(_RETAINED),
            "hoodie.cleaner.fileversions.retained": str(_RETAINED),
            "hoodie.keep.min.commits": str(_KEPT_MIN),
            "hoodie.keep.max.commits": str(_KEPT_MAX),
            "hoodie.rollback.using.markers": "false",  # they are gone once a write is completed
            # As several writers have it. Otherwise Hudi restores nothing that was written while
            # a compaction was pending.
            "hoodie.cleaner.policy.failed.writes": "LAZY",
        }

    def read(self, where: str | None = None, **options: str) -> pa.Table:
        """As `read_by_hudi`; options have `__` for dots."""
        settings = {key.replace("__", "."): value for key, value in options.items()}
        return read_by_hudi(self.session, self._uri, settings, where)

    def upsert(self, rows: pa.Table) -> None:
        self._write("upsert", rows)

    def bulk_insert(self, rows: pa.Table) -> None:
        self._write("bulk_insert", rows)

    def delete(self, rows: pa.Table) -> None:
        self._write("delete", rows)

    def overwrite(self, rows: pa.Table) -> None:
        self._write("insert_overwrite", rows)

    def drop(self, partition_path: str) -> None:
        rows = pa.table({"id": pa.array([], pa.string())})
        to_delete = {"hoodie.datasource.write.partitions.to.delete": partition_path}
        self._write("delete_partition", rows, to_delete)

    def schedule(self) -> None:
        self._service("schedule")

    def compact(self) -> None:
        """Execute what is scheduled, be it by us, then what is found to do."""
        self._service("run_pending_compactions")
        instant = self._service("schedule")
        if instant is not None:
            self._service("run_pending_compactions")

    def clean(self, policy: CleanPolicy) -> None:
        self._service("clean", more={"hoodie.cleaner.policy": policy})

    def archive(self) -> None:
        self._service("archive")

    def rollback(self, instant: str) -> None:
        self._service("rollback", instant)

    def savepoint(self, instant: str) -> None:
        self._service("savepoint", instant)

    def delete_savepoint(self, instant: str) -> None:
        self._service("delete_savepoint", instant)

    def restore(self, instant: str) -> None:
        # A restore may make the record index anew, for which the write client has to be told the
        # schema, unlike the data source.
        self._service("restore", instant, {"hoodie.avro.schema": self._newest_schema()})

    def make_index(self, column: str) -> None:
        """Make a secondary index of a column."""
        self.session.make_index(self._uri, column, self._manual)

    def _write(self, operation: str, rows: pa.Table, more: dict[str, str] | None = None) -> None:
        options = {"hoodie.datasource.write.operation": operation, **self._manual, **(more or {})}
        self.session.write(self._uri, rows, options)

    def _newest_schema(self) -> str:
        commits = bf.open(self._uri).state.commits
        return next(commit.schema for commit in reversed(commits) if commit.schema)

    def _service(
        self, service: str, instant: str | None = None, more: dict[str, str] | None = None
    ) -> str | None:
        options = {**self._options, **(more or {})}
        return self.session.service(self._uri, service, instant, options)
