"""The two who write to one table in turns, each by its own means."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol
from unittest import mock

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.rows.log_writer import DataFormat
from bucketfmt.write.metadata import metadata_services
from bucketfmt.write.services.compaction import Compactor
from bucketfmt.write.services.plan_clean import CleanPolicy
from tests.interop.hudi_session import HudiSession

__all__ = [
    "Bucketfmt",
    "Hudi",
    "Side",
    "copying",
    "init_metadata_table",
    "metadata_options",
    "options_of_metadata",
    "read_by_hudi",
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
    return {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.record.index.enable": on,
        "hoodie.metadata.global.record.level.index.enable": on,
        "hoodie.metadata.record.index.min.filegroup.count": "2",
        "hoodie.metadata.compact.max.delta.commits": str(_METADATA_COMPACTED_AFTER + 1),
    }


def options_of_metadata(session: HudiSession) -> dict[str, str]:
    """Return the options of Hudi's writers: a metadata table where the session says so."""
    if session.has_metadata_table:
        return metadata_options(has_record_index=False)
    return dict(_WITHOUT_METADATA)


def init_metadata_table(session: HudiSession, table: bf.Table) -> None:
    """Make the metadata table of an empty table, where the session says that tables have one."""
    if session.has_metadata_table:
        of_partitions = ["partition_stats"] if table.config.table_version >= 8 else []
        table.metadata_table.init("column_stats", "bloom_filters", *of_partitions)


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
    rows, expected = (sorted(map(str, read.to_pylist())) for read in (found, without))
    assert rows == expected, f"by the metadata table Hudi reads {rows}, without {expected}"
    return found


def serving_metadata_soon() -> AbstractContextManager[object]:
    """Have metadata tables compacted, cleaned and archived by bucketfmt after few commits."""
    return mock.patch.object(metadata_services, "_DELTA_COMMITS", _METADATA_COMPACTED_AFTER)


def copying() -> AbstractContextManager[object]:
    """Have columns copied of files of any size: the tables here are small."""
    return mock.patch("bucketfmt.rows.parquet.copying._COPIED_BYTES", 0)


_WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}
_BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


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
        self._session, self._uri = session, table.uri
        # Hudi 1.0 fails to log a null date where column statistics are on.
        self.writes_null_dates = not (session.has_metadata_table and session.version == "1.0.2")
        init_metadata_table(session, table)
        config = table.config
        self._manual = {
            "hoodie.table.name": config.name,
            **options_of_metadata(session),
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.compact.inline": "false",
            "hoodie.embed.timeline.server": "false",  # a server a write: a tenth of the time
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
        return read_by_hudi(self._session, self._uri, settings, where)

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
        self._service("restore", instant)

    def make_index(self, column: str) -> None:
        """Make a secondary index of a column."""
        self._session.make_index(self._uri, column, self._manual)

    def _write(self, operation: str, rows: pa.Table, more: dict[str, str] | None = None) -> None:
        options = {"hoodie.datasource.write.operation": operation, **self._manual, **(more or {})}
        self._session.write(self._uri, rows, options)

    def _service(
        self, service: str, instant: str | None = None, more: dict[str, str] | None = None
    ) -> str | None:
        options = {**self._options, **(more or {})}
        return self._session.service(self._uri, service, instant, options)
