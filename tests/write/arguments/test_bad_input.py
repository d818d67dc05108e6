"""What cannot be written is refused with a typed error, and leaves no trace."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import StorageError
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]


def tree(root: Path) -> dict[str, bytes]:
    """Every file, but for the lock, which stays once it was taken."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".locks" not in path.parts
    }


@pytest.fixture(scope="module", params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = create_table(
        str(tmp_path_factory.mktemp("made") / "t"), bf.SimpleBucketIndex(4), request.param
    )
    table.upsert(rows(range(20), ts=1))
    return Path(table.uri)


@pytest.fixture
def table(made: Path, tmp_path: Path) -> bf.Table:
    return bf.open(shutil.copytree(made, tmp_path / "t"))


def replaced(name: str, column: pa.Array) -> pa.Table:
    given = rows([1, 2], ts=2)
    return given.set_column(given.schema.get_field_index(name), name, column)


NO_TEXT = pa.array([b"a\xff", b"b"]).view(pa.string())
TOO_LONG = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1 << 20, 2)), pa.py_buffer(b"ab")]
)

REFUSED = {
    "null key": (replaced("id", pa.array(["a", None])), bf.KeyEncodingError, "null or empty"),
    "empty key": (replaced("id", pa.array(["a", ""])), bf.KeyEncodingError, "null or empty"),
    "missing key": (rows([1], ts=2).drop_columns(["id"]), bf.SchemaError, "lack the columns id"),
    "missing column": (
        rows([1], 2).drop_columns(["name"]),
        bf.SchemaError,
        "lack the columns name",
    ),
    "wrong type": (
        replaced("name", pa.array([True, False])),
        bf.SchemaError,
        "name is string in the table, and bool",
    ),
    "value too large": (
        replaced("ts", pa.array([2**63, 1], pa.uint64())),
        bf.SchemaError,
        "ts",
    ),
    "ordering of another type": (
        replaced("ts", pa.array(["x", "y"])).cast(SCHEMA.set(3, pa.field("ts", pa.binary()))),
        bf.SchemaError,
        "ts",
    ),
    "null ordering": (replaced("ts", pa.array([None, 1], pa.int64())), bf.SchemaError, "ts: null"),
    "partition that climbs": (
        replaced("region", pa.array(["..", "us"])),
        bf.UnsafePathError,
        r"\.\.",
    ),
    "partition of Hudi's own": (
        replaced("region", pa.array([".hoodie/timeline", "us"])),
        bf.UnsafePathError,
        "where Hudi keeps files of its own; change the value",
    ),
    "a key that is no text": (replaced("id", NO_TEXT), bf.SchemaError, "id is damaged"),
    "a value that is no text": (replaced("name", NO_TEXT), bf.SchemaError, "name is damaged"),
    "no text in a list": (
        rows([1, 2], 2).append_column("new", pa.ListArray.from_arrays([0, 1, 2], NO_TEXT)),
        bf.SchemaError,
        "new is damaged",
    ),
    "a value behind its bytes": (replaced("name", TOO_LONG), bf.SchemaError, "name is damaged"),
    "absolute partition": (
        replaced("region", pa.array(["/etc", "us"])),
        bf.UnsafePathError,
        "/etc",
    ),
    "partition too long for a folder": (
        replaced("region", pa.array(["é" * 130, "us"])),
        bf.SchemaError,
        "column region: the value 'é+'... makes a folder whose name has 260 bytes",
    ),
    "bytes for text": (
        replaced("name", pa.array([b"a", b"\xff"])),
        bf.SchemaError,
        "name is string in the table, and binary",
    ),
    "column twice": (
        pa.Table.from_arrays([*rows([1], 1).columns, pa.array(["x"])], [*SCHEMA.names, "id"]),
        bf.SchemaError,
        "named twice: id",
    ),
    "another case": (
        rows([1], 1).append_column("Name", pa.array(["x"])),
        bf.SchemaError,
        "Name differs from name by case only",
    ),
    "a name Avro has not": (
        rows([1], 1).append_column("a b", pa.array(["x"])),
        bf.SchemaError,
        "names of letters, digits and _",
    ),
    "a column of nulls": (
        rows([1], 1).append_column("new", pa.nulls(1)),
        bf.SchemaError,
        "column new: Hudi stores no column of type null",
    ),
    "a type Hudi has not": (
        rows([1], 1).append_column("new", pa.array([1], pa.duration("s"))),
        bf.UnsupportedError,
        "new",
    ),
}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_do_not_fit(table: bf.Table, name: str) -> None:
    given, error, message = REFUSED[name]
    root = Path(table.uri)
    before = tree(root)
    with pytest.raises(error, match=message):
        table.upsert(given, evolve=True)
    assert tree(root) == before


def test_data_in_no_known_form(table: bf.Table) -> None:
    with pytest.raises(TypeError, match="Arrow C stream"):
        table.upsert([("id", "a")])
    with pytest.raises(TypeError, match="unknown argument 'idempotency'"):
        table.upsert(rows([1], 1), idempotency="x")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="keys or a filter"):
        table.delete()
    with pytest.raises(ValueError, match="no partition 'nowhere'"):
        table.delete_partitions(["nowhere"])


def test_bulk_insert_into_a_bucket_with_rows(table: bf.Table) -> None:
    before = tree(Path(table.uri))
    with pytest.raises(ValueError, match="use upsert or insert"):
        table.bulk_insert(rows(range(20), ts=1))
    assert tree(Path(table.uri)) == before


def test_another_number_of_buckets_than_the_table_has(table: bf.Table) -> None:
    before = tree(Path(table.uri))
    with pytest.raises(ValueError, match="contradicts the table"):
        bf.open(table.uri, index=bf.SimpleBucketIndex(8)).upsert(rows([1], ts=2))
    assert tree(Path(table.uri)) == before


def test_a_table_whose_index_nothing_proves(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "complexkey")
    before = tree(root)
    with pytest.raises(bf.IndexUnknownError, match="pass index="):
        bf.open(root).upsert(bf.open(root).scan().to_arrow())
    with pytest.raises(bf.UnsupportedError, match=r"BloomIndex|bucket index"):
        bf.open(root, index=bf.BloomIndex()).upsert(bf.open(root).scan().to_arrow())
    assert tree(root) == before


def test_two_file_groups_in_a_bucket(table: bf.Table) -> None:
    root = Path(table.uri)
    (path, *_) = sorted((root / "us").glob("*.parquet"))
    bucket, _, rest = path.name.partition("-")
    other = path.with_name(f"{bucket}-{'f' * 4}{rest[4:]}")
    other.write_bytes(path.read_bytes())
    before = tree(root)
    with pytest.raises(bf.CorruptError, match="two file groups in one bucket"):
        bf.open(root).upsert(rows(range(20), ts=3))
    assert tree(root) == before


def test_a_metadata_table_is_refused_or_dropped(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "mdt_bucket")
    refusing = bf.WriterConfig(metadata_table="refuse")
    plain = bf.open(root, index=bf.SimpleBucketIndex(4), writer=refusing)
    given = plain.scan(limit=3).to_arrow()
    before = tree(root)
    with pytest.raises(
        bf.UnsupportedError, match=r'metadata_table="drop".*hoodie\.metadata\.enable'
    ):
        plain.upsert(given)
    assert tree(root) == before
    assert before.keys() & {k for k in before if k.startswith(".hoodie/metadata/")}
    everything = sorted(map(repr, plain.scan().to_arrow().to_pylist()))
    dropping = bf.WriterConfig(metadata_table="drop")
    bf.open(root, index=bf.SimpleBucketIndex(4), writer=dropping).upsert(given)
    after = bf.open(root)
    assert after.config.metadata_partitions == ()
    assert not (root / ".hoodie/metadata").exists()
    assert sorted(map(repr, after.scan().to_arrow().to_pylist())) == everything


def test_a_store_that_takes_no_writes(table: bf.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only disk and a full one answer alike."""
    for code in (30, 28):  # EROFS, ENOSPC
        before = tree(Path(table.uri))

        def refuse(*_: object, code: int = code, **__: object) -> None:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(os, "link", refuse)
            patch.setattr(os, "replace", refuse)
            with pytest.raises(StorageError, match=os.strerror(code)):
                bf.open(table.uri, writer=bf.WriterConfig(lock="process")).upsert(rows([1], ts=2))
        assert tree(Path(table.uri)) == before
        assert table.scan().count() == 20


def test_a_disk_that_fills_up(table: bf.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first file of a write, its second, and so on; files can still be removed."""
    before = tree(Path(table.uri))
    writer = bf.open(table.uri, writer=bf.WriterConfig(lock="process"))
    fsync = os.fsync
    room = 0

    def fill_up(descriptor: int) -> None:
        nonlocal room
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            room -= 1
            if room < 0:
                raise OSError(28, os.strerror(28))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill_up)
    for files in range(20):  # heartbeat, instant, markers, data; the last completes it
        room = files
        try:
            writer.upsert(rows([1, 30], ts=2))
        except StorageError as error:
            assert "No space left on device" in str(error)  # noqa: PT017
            assert tree(Path(table.uri)) == before
        else:
            break
    assert 8 <= files < 19
    model = Model()
    for numbers, ts in ((range(20), 1), ([1, 30], 2)):
        model.upsert(rows(numbers, ts))
    assert_reads_as(table.uri, model)
    assert not writer.timeline.pending.instants


def test_no_room_for_what_memory_does_not_hold(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(Path(table.uri))
    monkeypatch.setattr("bucketfmt.write.rows.grouping._BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(Path(table.uri, "nowhere")))
    with pytest.raises(StorageError, match=r"temporary files cannot be written: .* set TMPDIR"):
        table.upsert(rows([1], ts=2))
    assert tree(Path(table.uri)) == before


CREATED = {
    "version": ({"table_version": 7}, ValueError, "table_version is 6, 8 or 9"),
    "type": ({"table_type": "MOR"}, ValueError, "table_type is"),
    "key": ({"record_key": ["nowhere"]}, bf.SchemaError, "no column 'nowhere'"),
    "keys": ({"record_key": 3}, TypeError, "record_key is a list"),
    "schema": ({"schema": 3}, TypeError, "schema is a pyarrow Schema, or rows"),
    "no key": ({"record_key": []}, ValueError, "at least one column"),
    "ordering": ({"ordering": ["ts", "price"], "table_version": 8}, ValueError, "version 9"),
    "ring": ({"index": bf.ConsistentHashingIndex(4)}, ValueError, "MERGE_ON_READ"),
    "rules": (
        {"index": bf.PartitionBucketIndex(4, "us,2"), "table_version": 6},
        ValueError,
        "table version 9",
    ),
    "bad rules": ({"index": bf.PartitionBucketIndex(4, "us")}, ValueError, "rules="),
    "index": ({"index": bf.BloomIndex()}, ValueError, "with a bucket index"),
    "hash field": (
        {"index": bf.SimpleBucketIndex(4, ("name",))},
        ValueError,
        "'name' is not among record_key",
    ),
    "key twice": ({"record_key": ["id", "id"]}, bf.SchemaError, "record_key named twice: id"),
    "key that is no name": ({"record_key": [None]}, TypeError, "record_key is a list"),
    "ordering that deletes have not": (
        {
            "schema": SCHEMA.append(pa.field("raw", pa.binary(3))),
            "ordering": ["raw"],
            "table_type": "MERGE_ON_READ",
        },
        bf.UnsupportedError,
        "ordering field raw: Hudi has no ordering value of type fixed_size_binary",
    ),
    "key without text": (
        {"schema": SCHEMA.append(pa.field("raw", pa.binary())), "record_key": ["raw"]},
        bf.UnsupportedError,
        "binary has no text form",
    ),
    "nested ordering": (
        {"schema": SCHEMA.append(pa.field("l", pa.list_(pa.int8()))), "ordering": ["l"]},
        bf.SchemaError,
        "ordering: l is list",
    ),
    "nested partition": (
        {"schema": SCHEMA.append(pa.field("l", pa.list_(pa.int8()))), "partition_by": ["l"]},
        bf.SchemaError,
        "partition_by: l is list",
    ),
    "time format missing": (
        {"partition_by": ["ts:TIMESTAMP"]},
        bf.UnsupportedError,
        r"timestamp\.type is not in",
    ),
    "key generator": (
        {"properties": {"hoodie.table.keygenerator.type": "NON_PARTITION"}, "partition_by": ["ts"]},
        ValueError,
        "take SIMPLE",
    ),
    "key generator of one field": (
        {
            "properties": {"hoodie.table.keygenerator.type": "SIMPLE"},
            "partition_by": ["ts", "region"],
        },
        ValueError,
        "take COMPLEX",
    ),
    "key generator class": (
        {"properties": {"hoodie.table.keygenerator.class": "com.example.Mine"}},
        ValueError,
        "contradicts the other arguments",
    ),
    "merge mode": (
        {"properties": {"hoodie.record.merge.mode": "CUSTOM"}},
        ValueError,
        "EVENT_TIME_ORDERING or COMMIT_TIME_ORDERING",
    ),
    "payload of version 9": (
        {"properties": {"hoodie.compaction.payload.class": "com.example.Mine"}},
        ValueError,
        "has merge modes",
    ),
    "payload": (
        {
            "properties": {"hoodie.compaction.payload.class": "com.example.Mine"},
            "table_version": 6,
        },
        bf.UnsupportedError,
        "custom code",
    ),
    "metadata table": (
        {"properties": {"hoodie.table.metadata.partitions": "files"}},
        ValueError,
        "contradicts the other arguments",
    ),
    "flag": (
        {"properties": {"hoodie.populate.meta.fields": "yes"}},
        ValueError,
        "neither true nor false",
    ),
    "property": ({"properties": {"hoodie.x": 1}}, TypeError, "write 'hoodie.x': '1'"),
    "columns": (
        {"properties": {"hoodie.table.create.schema": "{}"}},
        ValueError,
        "contradicts schema",
    ),
    "no schema": ({"schema": {"id": "string"}}, TypeError, "not dict"),
    "column name": (
        {"schema": SCHEMA.append(pa.field("a b", pa.string()))},
        bf.SchemaError,
        "names of letters, digits and _",
    ),
    "nested column name": (
        {"schema": SCHEMA.append(pa.field("s", pa.struct([("", pa.string())])))},
        bf.SchemaError,
        "names of letters, digits and _",
    ),
    "one name to Spark": (
        {"schema": SCHEMA.append(pa.field("ID", pa.string()))},
        bf.SchemaError,
        "columns id and ID differ by case only",
    ),
    "column of nulls": (
        {"schema": SCHEMA.append(pa.field("z", pa.null()))},
        bf.SchemaError,
        "no column of type null",
    ),
    "name": ({"name": "a-b"}, ValueError, "letters, digits"),
    "properties": (
        {"properties": {"hoodie.table.version": "6"}},
        ValueError,
        "contradicts the other arguments",
    ),
    "own column": (
        {"schema": SCHEMA.append(pa.field("_hoodie_record_key", pa.string()))},
        bf.SchemaError,
        "Hudi's own",
    ),
    "column type": (
        {"schema": SCHEMA.append(pa.field("d", pa.duration("s")))},
        bf.UnsupportedError,
        "column d: ",
    ),
}


@pytest.mark.parametrize("name", CREATED)
def test_tables_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    change, error, message = CREATED[name]
    arguments = {"schema": SCHEMA, "record_key": ["id"], "index": bf.SimpleBucketIndex(4)}
    with pytest.raises(error, match=message):
        bf.create(str(tmp_path / "t"), **{**arguments, **change})  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


def test_a_table_is_made_once(table: bf.Table) -> None:
    before = tree(Path(table.uri))
    with pytest.raises(ValueError, match="open it instead"):
        bf.create(table.uri, schema=SCHEMA, record_key=["id"], index=bf.SimpleBucketIndex(1))
    assert tree(Path(table.uri)) == before


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("us", "us is a partition of another Hudi table; give another folder"),
        ("other/deeper", "/t, whose readers would take its rows for their own; give another"),
        (".hoodie/timeline", r"is within the \.hoodie folder of another Hudi table"),
        (".hoodie/metadata/new", r"is within the \.hoodie folder of another Hudi table"),
    ],
)
def test_a_table_is_made_in_no_other(table: bf.Table, folder: str, message: str) -> None:
    table.upsert(rows(range(9), ts=1))
    before = tree(Path(table.uri))
    with pytest.raises(ValueError, match=message):
        bf.create(
            f"{table.uri}/{folder}",
            schema=SCHEMA,
            record_key=["id"],
            index=bf.SimpleBucketIndex(1),
        )
    assert tree(Path(table.uri)) == before


PROPERTIES = ".hoodie/hoodie.properties"


def test_a_table_is_made_below_none_that_is_read_by_its_backup(table: bf.Table) -> None:
    """And below a folder whose `.hoodie` is of something else."""
    root = Path(table.uri)
    (root / PROPERTIES).rename(root / f"{PROPERTIES}.backup")
    (root.parent / "home" / ".hoodie").mkdir(parents=True)
    (root.parent / "home" / ".hoodie" / "settings").write_text("")

    def create(folder: Path) -> bf.Table:
        return bf.create(folder, schema=SCHEMA, record_key="id", index=bf.SimpleBucketIndex(1))

    with pytest.raises(ValueError, match=r"lower is within the Hudi table at .+/t, whose"):
        create(root / "lower")
    assert bf.open(root).scan().count() == table.scan().count()
    assert create(root.parent / "home" / "lower").scan().count() == 0


def test_a_table_is_not_made_over_what_is_left_of_one(table: bf.Table) -> None:
    """The new properties ruled the old rows, or the old rows came back with the first write."""
    table.upsert(rows(range(9), ts=1))
    root, count = Path(table.uri), table.scan().count()

    def check_refusal(what: str) -> None:
        before = tree(root)
        with pytest.raises(ValueError, match=f"what is left of a Hudi table, {what}: its rows"):
            bf.create(root, schema=SCHEMA, record_key=["id"], index=bf.SimpleBucketIndex(1))
        assert tree(root) == before

    (root / PROPERTIES).rename(root / f"{PROPERTIES}.backup")
    check_refusal(rf"{PROPERTIES}\.backup")
    assert bf.open(root).scan().count() == count > 0
    (root / f"{PROPERTIES}.backup").unlink()
    check_refusal(r"instants in \.hoodie(/timeline)?")
    shutil.rmtree(root / ".hoodie")  # as a copy by `*` leaves it out
    check_refusal(r"\w+/\S+\.(parquet|log\.\S+)")
    for partition in root.iterdir():
        shutil.rmtree(partition)
    assert bf.create(root, schema=SCHEMA, record_key=["id"]).scan().count() == 0


def test_a_table_is_not_made_around_another(table: bf.Table) -> None:
    table.upsert(rows(range(9), ts=1))
    root = Path(table.uri)
    with pytest.raises(ValueError, match=f"holds the Hudi table {root.name}, whose partitions"):
        bf.create(root.parent, schema=SCHEMA, record_key=["id"])
    assert not (root.parent / ".hoodie").exists()


def test_a_create_that_ended_early_goes_on(tmp_path: Path) -> None:
    (tmp_path / ".hoodie/timeline/history").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/part-0000.parquet").touch()
    link = tmp_path / "elsewhere"
    link.symlink_to("/", target_is_directory=True)
    table = bf.create(tmp_path, schema=SCHEMA, record_key=["id"])
    link.unlink()  # reads refuse it
    assert table.scan().count() == 0


def test_decimals_that_lose_digits(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("amount", pa.decimal128(6, 2)))
    table = bf.create(
        str(tmp_path / "t"), schema=schema, record_key=["id"], index=bf.SimpleBucketIndex(1)
    )
    fine = rows([1], ts=1).append_column("amount", pa.array([Decimal("12.50")]))
    table.upsert(fine)
    too_wide = rows([2], ts=1).append_column("amount", pa.array([Decimal("123456789.5")]))
    with pytest.raises(bf.SchemaError, match="amount"):
        table.upsert(too_wide)
    assert table.scan(["amount"]).to_arrow()["amount"].to_pylist() == [Decimal("12.50")]
