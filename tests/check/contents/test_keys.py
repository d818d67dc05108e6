"""B006 to B009, and B013: keys where they should not be, or written as they should not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.index.layout import FixedBuckets
from tests.check.planting import Patient, check_soon, found

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
KEY = "_hoodie_record_key"


@pytest.fixture(params=VERSIONS)
def cow(golden_copy: Copy, request: pytest.FixtureRequest) -> Patient:
    patient = Patient(golden_copy(request.param, "cow"))
    patient.state_buckets(4)
    return patient


def with_keys(rows: pa.Table, keys: pa.Array | pa.ChunkedArray) -> pa.Table:
    index = rows.schema.get_field_index(KEY)
    return rows.set_column(index, rows.schema.field(index), keys)


def replace_first_key(rows: pa.Table, key: str) -> pa.Table:
    return with_keys(rows, pa.array([key, *rows.column(KEY).to_pylist()[1:]]))


def move_rows(patient: Patient, count: int, *, keep: bool) -> list[str]:
    """Put the first rows of bucket 1 of `us` into bucket 2; return their keys."""
    moved: list[pa.Table] = []

    def take(rows: pa.Table) -> pa.Table:
        moved.append(rows.slice(0, count))
        return rows if keep else rows.slice(count)

    patient.rewrite(patient.base_file("us", 1), take)
    patient.rewrite(
        patient.base_file("us", 2),
        lambda rows: pa.concat_tables([rows, moved[0].cast(rows.schema)]),
    )
    keys: list[str] = moved[0].column(KEY).to_pylist()
    return keys


def test_b006_keys_in_the_wrong_bucket(cow: Patient) -> None:
    keys = move_rows(cow, 3, keep=False)
    for depth in ("quick", "default"):
        assert check_soon(cow.root, depth).status == "clean"
    (finding,) = check_soon(cow.root, "full").findings
    assert (finding.id, finding.severity) == ("B006", "error")
    assert (finding.partition, finding.bucket) == ("us", 2)
    assert finding.paths[0] == cow.base_file("us", 2).relative_to(cow.root).as_posix()
    assert finding.evidence.startswith("3 keys of this bucket belong in others: ")
    assert repr(keys[0]) in finding.evidence
    assert ", the first in 1; " in finding.evidence
    assert finding.data_loss


@pytest.mark.parametrize("version", VERSIONS)
def test_b006_another_field_was_hashed(golden_copy: Copy, version: str) -> None:
    """The evidence says which one fits."""
    patient = Patient(golden_copy(version, "complexkey"))
    patient.state_buckets(4, "id", "name")
    report = check_soon(patient.root, "full")
    assert found(report) == {"B006"}
    assert {finding.partition for finding in report.findings} == {"ap", "eu", "us"}
    for finding in report.findings:
        assert ", hash fields id fits " in finding.evidence


def test_b006_is_not_about_rows_that_were_deleted_since(golden_copy: Copy) -> None:
    """A log that overrides the row or deletes it wins: nobody sees the misplaced one."""
    patient = Patient(golden_copy("1.2.0", "mor"))
    patient.state_buckets(4)
    table = bf.open(patient.root)
    before = {row[KEY] for row in table.scan([KEY], read_optimized=True).to_arrow().to_pylist()}
    now = {row[KEY] for row in table.scan([KEY]).to_arrow().to_pylist()}
    assert before - now, "the table deletes nothing"
    assert check_soon(patient.root, "full").status == "clean"


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_b007_key_that_hudi_never_returns_from(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "complexkey"))
    patient.state_buckets(4, "id")
    path = patient.base_file("us", 1)
    first = ""

    def with_colon(rows: pa.Table) -> pa.Table:
        nonlocal first
        first = f"{rows.column(KEY)[0].as_py()}:0"
        return replace_first_key(rows, first)

    patient.rewrite(path, with_colon)
    (finding,) = check_soon(patient.root, "full").findings
    assert (finding.id, finding.severity) == ("B007", "warning")
    assert (finding.partition, finding.bucket) == ("us", 1)
    assert path.relative_to(patient.root).as_posix() in finding.paths
    assert finding.evidence.startswith(f"1 keys, such as {first!r}")
    assert not finding.data_loss


def test_b007_keys_that_give_nothing_to_hash(golden_copy: Copy) -> None:
    """Hudi 0.15 takes `urn` for the name of a field that it does not hash."""
    patient = Patient(golden_copy("0.15.0", "cow"))
    patient.state_buckets(4)
    everything: list[pa.Table] = []

    def take_all(rows: pa.Table) -> pa.Table:
        keys = pc.binary_join_element_wise("urn", rows.column(KEY), ":")
        everything.append(with_keys(rows, keys))
        return rows.slice(0, 0)

    for bucket in (0, 2, 3):
        patient.rewrite(patient.base_file("us", bucket), take_all)

    def all_in_one(rows: pa.Table) -> pa.Table:
        take_all(rows)
        return pa.concat_tables(everything)

    patient.rewrite(patient.base_file("us", 1), all_in_one)  # that of an empty list: 1
    count = sum(rows.num_rows for rows in everything)
    (finding,) = check_soon(patient.root, "full").findings
    assert (finding.id, finding.severity) == ("B007", "warning")
    assert (finding.partition, finding.bucket) == ("us", None)
    assert finding.evidence.startswith(f"{count} of {count} keys give no value to hash")


def test_b008_key_in_two_buckets(cow: Patient) -> None:
    keys = move_rows(cow, 2, keep=True)
    (finding,) = check_soon(cow.root, "full").findings
    assert (finding.id, finding.severity) == ("B008", "error")
    assert (finding.partition, finding.bucket) == ("us", 2)
    assert {path.rpartition("/")[2] for path in finding.paths} == {
        cow.base_file("us", 1).name,
        cow.base_file("us", 2).name,
    }
    assert "2 keys of this bucket are in another one too" in finding.evidence
    assert repr(keys[0]) in finding.evidence
    assert finding.data_loss


def test_b008_and_b006_are_told_apart(cow: Patient) -> None:
    """One key is still where it belongs, the other is not."""
    move_rows(cow, 2, keep=True)
    cow.rewrite(cow.base_file("us", 1), lambda rows: rows.slice(1))
    assert found(check_soon(cow.root, "full")) == {"B006", "B008"}


def named(rows: pa.Table) -> pa.Table:
    return with_keys(rows, pc.binary_join_element_wise("id", rows.column(KEY), ":"))


def rehash(patient: Patient, partition: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of a partition and put each into the bucket its new key hashes to."""
    paths = [patient.base_file(partition, bucket) for bucket in range(4)]
    dialect = dialect_for_table_version(patient.config.table_version)
    tables = [change(pq.read_table(path)) for path in paths]
    rows = pa.concat_tables([table.cast(tables[0].schema) for table in tables])
    buckets = FixedBuckets(4, ("id",), dialect).assign(rows.column(KEY).combine_chunks())
    for bucket, path in enumerate(paths):
        own = rows.filter(pa.array(buckets == bucket))
        patient.rewrite(path, lambda _, own=own: own)


def test_b009_keys_written_in_two_ways(cow: Patient) -> None:
    """The simple key generator writes `7`; somebody wrote `id:7` for every second row."""

    def every_second(rows: pa.Table) -> pa.Table:
        half = rows.num_rows // 2
        return pa.concat_tables([named(rows.slice(0, half)), rows.slice(half)])

    rehash(cow, "us", every_second)
    for depth in ("quick", "default"):
        assert check_soon(cow.root, depth).status == "clean"
    (finding,) = check_soon(cow.root, "full").findings
    assert (finding.id, finding.severity, finding.partition) == ("B009", "error", "us")
    assert set(finding.paths) <= {f"us/{cow.base_file('us', n).name}" for n in range(4)}
    assert "some keys begin with 'id:' and some do not" in finding.evidence
    assert finding.data_loss


def test_b009_no_key_is_as_the_key_generator_writes_it(cow: Patient) -> None:
    for partition in ("ap", "eu", "us"):
        rehash(cow, partition, named)
    (finding,) = check_soon(cow.root, "full").findings
    assert (finding.id, finding.severity) == ("B009", "error")
    assert "keys begin with 'id:', which the key generator SIMPLE does not" in finding.evidence


def test_values_that_look_like_named_keys_are_no_b009(cow: Patient) -> None:
    """The key field itself begins with `id:`."""
    path = cow.base_file("us", 1)

    def named_values(rows: pa.Table) -> pa.Table:
        named = pc.binary_join_element_wise("id", rows.column("id"), ":")
        rows = with_keys(rows, named)
        return rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), named)

    cow.rewrite(path, named_values)
    assert "B009" not in found(check_soon(cow.root, "full"))


def test_t002_records_without_a_key(cow: Patient) -> None:
    path = cow.base_file("us", 1)
    cow.rewrite(
        path,
        lambda rows: with_keys(rows, pa.array([None, *rows.column(KEY).to_pylist()[1:]])),
    )
    (finding,) = check_soon(cow.root, "full").findings
    assert (finding.id, finding.partition) == ("T002", "us")
    assert finding.evidence == "1 records without a record key"


@pytest.mark.rule("WRITE-3")
def test_b013_rows_without_a_partition_path(cow: Patient) -> None:
    """As other writers may have them. Compactions of Hudi 1.0.2 fail at them."""

    def without(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index("_hoodie_partition_path")
        paths = [None, None, *rows.column(place).to_pylist()[2:]]
        return rows.set_column(place, rows.schema.field(place), [paths])

    path = cow.base_file("us", 1)
    cow.rewrite(path, without)
    relative = path.relative_to(cow.root).as_posix()
    for depth in ("default", "full"):
        (finding,) = check_soon(cow.root, depth).findings
        assert (finding.id, finding.severity, finding.paths) == ("B013", "error", (relative,))
        assert finding.evidence == "_hoodie_partition_path: null in 2 rows"
    table = bf.open(cow.root)
    table.upsert(table.to_arrow())
    assert check_soon(cow.root).status == "clean"


@pytest.mark.rule("WRITE-3")
def test_b013_keys_without_the_annotation_of_text(cow: Patient) -> None:
    """As other writers may store them. Hudi 0.15 then adds the rows of known keys again."""

    def as_bytes(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(KEY)
        return rows.set_column(index, KEY, rows.column(KEY).cast(pa.binary()))

    path = cow.base_file("us", 1)
    cow.rewrite(path, as_bytes)
    relative = path.relative_to(cow.root).as_posix()
    for depth in ("default", "full"):
        (finding,) = check_soon(cow.root, depth).findings
        assert (finding.id, finding.severity, finding.paths) == ("B013", "error", (relative,))
        assert finding.evidence == f"{KEY}: BINARY without annotation"
    table = bf.open(cow.root)
    rows = table.to_arrow()
    assert rows.num_rows == table.scan().count()
    table.upsert(rows.slice(0, rows.num_rows))
    assert check_soon(cow.root).status == "clean"
