"""Tables that Hudi gave a metadata table: what is written to them is in it as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.metadata_keys import format_column_stats_key
from bucketfmt.format.metadata.metadata_records import FilesRecord
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.write.metadata.collect_update import load_indexed_columns
from bucketfmt.write.metadata.file_statistics import FileStatistics
from tests.write.metadata_records import assert_in_step, records_of

Copy = Callable[[str, str], Path]
HUDI_VERSIONS = ("0.15.0", "1.0.2", "1.2.0")


@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_statistics_are_those_that_hudi_wrote(golden_copy: Copy, version: str) -> None:
    table = bf.open(golden_copy(version, "rli"))
    columns = load_indexed_columns(table.store, table.config, DEFAULT_LIMITS)
    version_number = table.config.table_version
    statistics = FileStatistics(table.store, DEFAULT_LIMITS, columns, version_number)
    found = {}
    for key, record in records_of(table, "files").items():
        assert isinstance(record, FilesRecord)
        for name in () if record.are_partitions else record.entries:
            for stats in statistics.read(f"{key}/{name}"):
                found[format_column_stats_key(stats.column or "", key, name)] = stats
    assert found == records_of(table, "column_stats")
    assert len(found) > 80


@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_every_change_is_in_the_metadata_table(golden_copy: Copy, version: str) -> None:
    table = bf.open(golden_copy(version, "mdt_bucket"), index=bf.SimpleBucketIndex(4))
    listed = table.config.metadata_partitions
    before = table.scan().to_arrow()
    some = before.slice(0, 30)
    changed = some.set_column(
        some.schema.get_field_index("name"), "name", pa.array(["zzz"] * some.num_rows)
    )
    table.upsert(changed)
    assert_in_step(table)
    table.delete(some.select(["id", "region"]).slice(0, 5))
    assert_in_step(table)
    taken_back = table.upsert(some).instant
    assert_in_step(table)
    table.rollback(taken_back)
    assert_in_step(table)
    table.compact()
    assert_in_step(table)
    table.insert_overwrite(changed.slice(5, 5))
    assert_in_step(table)
    table.upsert(some)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    assert_in_step(table)
    table.archive(min_commits=2, max_commits=3)
    table.upsert(changed)
    assert_in_step(table)
    assert table.config.metadata_partitions == listed
