"""Rows in wrong file groups, moved to the file groups of their buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.errors import IndexUnknownError, UnsupportedError
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from tests.check.planting import Patient, check_soon, found
from tests.same_rows import assert_same
from tests.write.models import SCHEMA, create_table, rows

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
UUID = "5a3c2b1d-1111-4222-8333-444455556666-0"
KEY = "_hoodie_record_key"
NO_SERVICES = bf.WriterConfig(services=None)
ALONE = bf.WriterConfig(services=None, lock="process")


def second_group(patient: Patient) -> None:
    """A task that ran twice, or a writer that did not see the file group of a bucket. B001."""
    first = patient.base_file("us", 1)
    twin = patient.copy_file(first, file_id=f"00000001{UUID[8:]}")
    patient.record(twin, like=first)


def group_of_no_bucket(patient: Patient) -> None:
    """A writer with another index. B003."""
    path = patient.base_file("us", 1)
    patient.record(patient.copy_file(path, file_id=UUID), like=path)


def group_renamed(patient: Patient) -> None:
    """The same, and no key is there twice. B003."""
    old = patient.base_file("us", 2).name.partition("_")[0]
    patient.rename_group("us", old, UUID)


def too_large_number(patient: Patient) -> None:
    """A writer with more buckets. B004."""
    old = patient.base_file("us", 3).name.partition("_")[0]
    patient.rename_group("us", old, f"00000007{old[8:]}")


def rows_moved(patient: Patient, *, keep: bool = False) -> None:
    """A writer with another hash. B006."""
    moved: list[pa.Table] = []

    def take(own: pa.Table) -> pa.Table:
        moved.append(own.slice(0, 3))
        return own if keep else own.slice(3)

    patient.rewrite(patient.base_file("us", 1), take)
    patient.rewrite(
        patient.base_file("us", 2),
        lambda own: pa.concat_tables([own, moved[0].cast(own.schema)]),
    )


def rows_copied(patient: Patient) -> None:
    """A writer with another hash, to keys that others have written before. B008."""
    rows_moved(patient, keep=True)


DAMAGES = {
    second_group: ("B001", "bucket 1 has 2 file groups", True),
    group_of_no_bucket: ("B003", f"file group {UUID} is in no bucket", True),
    group_renamed: ("B003", f"file group {UUID} is in no bucket", False),
    too_large_number: ("B004", "is in no bucket", False),
    rows_moved: ("B006", "has keys of other buckets (1)", False),
    rows_copied: ("B008", "has keys of other buckets (1)", True),
}


def of_user(read: pa.Table) -> pa.Table:
    """Return rows as users wrote them, each once."""
    own = read.select([name for name in read.column_names if not name.startswith("_hoodie")])
    return own.group_by(own.column_names).aggregate([])


def file_ids(table: bf.Table, partition: str) -> set[str]:
    groups = table.inspect.file_groups().to_pylist()
    return {group["file_id"] for group in groups if group["partition_path"] == partition}


@pytest.mark.rotated(2, among="repairs", one_of=2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_are_moved_to_their_buckets(
    golden_copy: Copy, version: str, damage: Callable[[Patient], None]
) -> None:
    """Readers see each row once, file groups that are sound stay, and the table is written on."""
    patient = Patient(golden_copy(version, "cow"))
    patient.state_buckets(4)
    before = of_user(bf.open(patient.root).scan().to_arrow())
    damage(patient)
    table = bf.open(patient.root, writer=NO_SERVICES)
    code, cause, is_doubled = DAMAGES[damage]
    assert found(check_soon(patient.root)) == {code}
    groups, instants = {p: file_ids(table, p) for p in ("eu", "us")}, table.history().num_rows
    (planned,) = table.preview_repair_buckets()
    assert planned.partition_path == "us"
    assert cause in planned.cause
    if is_doubled:
        with pytest.raises(UnsupportedError, match=r"keys of the partition have several rows"):
            table.repair_buckets()
        assert table.history().num_rows == instants
        assert {p: file_ids(table, p) for p in ("eu", "us")} == groups
    done = table.repair_buckets(duplicates="latest" if is_doubled else "refuse")
    assert done is not None
    assert (done.rows_deleted > 0) == is_doubled
    assert table.repair_buckets() is None
    assert file_ids(table, "eu") == groups["eu"]
    assert groups["us"] - file_ids(table, "us") == set(planned.file_ids)
    report = bf.open(patient.root).check(depth="full")
    assert report.status == "clean", report.findings
    after = bf.open(patient.root).scan().to_arrow()
    assert after.num_rows == before.num_rows
    assert_same(of_user(after), before)
    table.upsert(after.select(before.column_names))
    assert_same(of_user(table.scan().to_arrow()), before)
    assert table.check(depth="full").status == "clean"


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_group_of_logs_alone(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    patient.state_buckets(4)
    before = of_user(bf.open(patient.root).scan().to_arrow())
    log = patient.log_file("eu")
    twin = patient.copy_file(log, file_id=f"{log.name[1:9]}{UUID[8:]}")
    patient.record(twin, like=log)
    table = bf.open(patient.root, writer=NO_SERVICES)
    assert table.scan().count() > before.num_rows
    assert table.repair_buckets(duplicates="latest") is not None
    assert bf.open(patient.root).check(depth="full").status == "clean"
    assert_same(of_user(bf.open(patient.root).scan().to_arrow()), before)


def test_a_repair_is_taken_back(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "cow"))
    patient.state_buckets(4)
    rows_copied(patient)
    table = bf.open(patient.root, writer=NO_SERVICES)
    before, groups = table.scan().to_arrow(), file_ids(table, "us")
    table.repair_buckets(duplicates="latest")
    assert file_ids(table, "us") != groups
    table.rollback()
    assert file_ids(table, "us") == groups
    assert_same(table.scan().to_arrow(), before)


def test_a_sound_table_is_left_alone(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "mor"))
    patient.state_buckets(4)
    files = {path: path.stat().st_mtime_ns for path in patient.root.rglob("*")}
    table = bf.open(patient.root, writer=NO_SERVICES)
    assert table.preview_repair_buckets() == []
    assert table.repair_buckets() is None
    assert {path: path.stat().st_mtime_ns for path in patient.root.rglob("*")} == files


@pytest.mark.parametrize("stated", [2, 8])
def test_a_number_that_no_key_fits_is_wrong_itself(golden_copy: Copy, stated: int) -> None:
    """Not the rows; unless somebody names the partitions."""
    patient = Patient(golden_copy("1.2.0", "cow"))
    patient.state_buckets(stated)
    table = bf.open(patient.root, writer=NO_SERVICES)
    before = table.scan().to_arrow()
    with pytest.raises(
        IndexUnknownError, match=rf"{stated} buckets are stated, and every key is"
    ) as e:
        table.repair_buckets()
    advice = f"state 4 instead (in .hoodie/hoodie.properties, where that states {stated}), and "
    assert f"{advice}rehash({stated}) gives" in str(e.value)
    paths = table.inspect.partitions().column("partition_path").to_pylist()
    assert table.repair_buckets(paths) is not None
    assert bf.open(patient.root).check(depth="full").status == "clean"
    assert_same(bf.open(patient.root).scan().to_arrow(), before)


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", VERSIONS)
def test_hash_fields_that_no_key_fits_are_wrong_themselves(golden_copy: Copy, version: str) -> None:
    """`id` is hashed, of keys of two fields."""
    patient = Patient(golden_copy(version, "complexkey"))
    before = bf.open(patient.root).scan().to_arrow()
    index = bf.SimpleBucketIndex(4, ("id", "name"))
    table = bf.open(patient.root, index=index, writer=NO_SERVICES)
    told = r"hash fields id, name are stated, and keys are where hash fields id \(or name\) have"
    with pytest.raises(IndexUnknownError, match=told):
        table.repair_buckets()
    right = bf.open(patient.root, index=bf.SimpleBucketIndex(4, ("id",)), writer=NO_SERVICES)
    assert right.repair_buckets() is None
    assert table.repair_buckets(["us"]) is not None
    assert_same(bf.open(patient.root).scan().to_arrow(), before)


def test_a_partition_that_a_writer_with_another_number_began(tmp_path: Path) -> None:
    """The number of buckets changed between two writes, as H#13241 has it."""
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(8), writer=NO_SERVICES)
    table.upsert(rows(range(200), 1))
    before = of_user(table.scan().to_arrow())
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    text = properties.read_text()
    assert "hoodie.bucket.index.num.buckets=8" in text
    lines = [
        line.replace("num.buckets=8", "num.buckets=4")
        for line in text.splitlines()
        if "checksum" not in line
    ]
    properties.write_text("\n".join(lines) + "\n")
    (partition, *_) = table.inspect.partitions().column("partition_path").to_pylist()
    wrong = bf.open(tmp_path / "t", writer=NO_SERVICES)
    planned = wrong.preview_repair_buckets([partition])
    assert {each.partition_path for each in planned} == {partition}
    assert [each.buckets for each in planned] == [(0,), (1,), (2,), (3,)]
    done = wrong.repair_buckets([partition])
    assert done is not None
    assert of_user(wrong.scan().to_arrow()).sort_by("id").equals(before.sort_by("id"))
    groups = {file_id[:8] for file_id in file_ids(wrong, partition)}
    assert groups == {f"{bucket:08}" for bucket in range(4)}


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (bf.ExtendibleHashingIndex(4), "COPY_ON_WRITE"),
        (bf.MultiGroupBucketIndex(4, 1 << 20), "COPY_ON_WRITE"),
    ],
)
def test_other_buckets_are_refused(tmp_path: Path, index: bf.Index, kind: str) -> None:
    table = create_table(tmp_path / "t", index, kind, writer=NO_SERVICES)
    table.upsert(rows(range(20), 1))
    with pytest.raises(UnsupportedError, match="whose buckets are numbered, or on a ring"):
        table.repair_buckets()
    assert table.history().num_rows == 1


def test_a_partition_that_is_not_there(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(4), writer=NO_SERVICES)
    table.upsert(rows(range(20), 1))
    with pytest.raises(ValueError, match="the table has no partition 'nowhere'"):
        table.repair_buckets(["nowhere"])
    with pytest.raises(ValueError, match="duplicates"):
        table.repair_buckets(duplicates="oldest")  # type: ignore[arg-type]


def damaged_files(root: Path) -> MemoryStore:
    """Return the files of a table in which rows of two buckets were copied to a third."""
    table = create_table(root, bf.SimpleBucketIndex(4), writer=NO_SERVICES)
    table.upsert(rows(range(60), 1))
    patient = Patient(root)
    (path, *_) = table.inspect.partitions().column("partition_path").to_pylist()
    taken: list[pa.Table] = []
    patient.rewrite(patient.base_file(path, 1), lambda own: (taken.append(own), own.slice(2))[1])
    patient.rewrite(
        patient.base_file(path, 2),
        lambda own: pa.concat_tables([own, taken[0].slice(0, 2).cast(own.schema)]),
    )
    return MemoryStore.of_folder(root)


@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER])
def test_a_repair_that_died_is_done_again(tmp_path: Path, fault: Fault) -> None:
    """Whatever the moment: the rows are as before, and the next repair ends with a sound table."""
    whole = damaged_files(tmp_path / "t")
    config = bf.open(tmp_path / "t").config
    before = bf.Table(whole, config, DEFAULT_LIMITS, None, ALONE).scan().to_arrow()
    for at in count(1):
        files = whole.copy()
        faulty = FaultyStore(files, FaultPlan(at, fault, WRITE_VERBS))
        with suppress(Killed):
            bf.Table(faulty, config, DEFAULT_LIMITS, None, ALONE).repair_buckets()
        later = bf.Table(files, config, DEFAULT_LIMITS, None, ALONE)
        assert_same(later.scan().to_arrow(), before)
        later.repair_buckets()
        later.upsert(rows(range(3), 9))
        report = later.check(depth="full")
        assert report.status == "clean", (at, report.findings)
        assert later.scan().count() == before.num_rows
        if faulty.struck is None:
            break
    assert at > 8


def test_rows_that_others_write_meanwhile_are_kept(tmp_path: Path) -> None:
    damaged_files(tmp_path / "t")
    table = bf.open(tmp_path / "t", writer=NO_SERVICES)
    given = rows(range(50, 80), 2, 7.0)

    def write(_: bf.Progress) -> None:
        if bf.open(tmp_path / "t").history().num_rows < 3:
            bf.open(tmp_path / "t", writer=NO_SERVICES).upsert(given)

    assert table.repair_buckets(progress=write) is not None
    read = bf.open(tmp_path / "t").scan().to_arrow()
    assert read.num_rows == 80
    is_given = pc.is_in(read.column("id"), given.column("id").combine_chunks())
    assert_same(of_user(read.filter(is_given)), of_user(given))
    assert bf.open(tmp_path / "t").check(depth="full").status == "clean"


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_metadata_table_is_in_step(tmp_path: Path, version: int, kind: str) -> None:
    """Also its record index: of a key in two file groups the row that stays is the one it names."""
    root = tmp_path / "t"
    table = create_table(
        root, bf.SimpleBucketIndex(4), kind, table_version=version, writer=NO_SERVICES
    )
    table.upsert(rows(range(60), 1))
    patient = Patient(root)
    (path, *_) = table.inspect.partitions().column("partition_path").to_pylist()
    first = patient.base_file(path, 1)
    twin = patient.copy_file(first, file_id=f"00000001{UUID[8:]}")
    patient.record(twin, like=first)
    table = bf.open(root, writer=NO_SERVICES)
    table.metadata_table.init("files")
    table.metadata_table.init("column_stats")
    table.metadata_table.init("record_index")
    assert table.repair_buckets(duplicates="latest") is not None
    report = bf.open(root).check(depth="full")
    assert report.status == "clean", report.findings
    assert bf.open(root).scan().count() == 60


def state_number(root: Path, before: int, after: int) -> bf.Table:
    """Have hoodie.properties state another number of buckets, as options of a job do."""
    path = root / ".hoodie/hoodie.properties"
    lines = path.read_text().splitlines()
    stated = f"hoodie.bucket.index.num.buckets={before}"
    assert stated in lines
    kept = [f"{stated.partition('=')[0]}={after}" if line == stated else line for line in lines]
    path.write_text("\n".join(kept) + "\n")
    return bf.open(root, writer=NO_SERVICES)


def latest(read: pa.Table) -> dict[tuple[str, str], tuple[int, str, float]]:
    """Return of each key the row with the greatest ordering value, or that of the last commit."""
    found: dict[tuple[str, str], tuple[int, str, float]] = {}
    for row in read.to_pylist():
        key = row["_hoodie_partition_path"], row["id"]
        found[key] = max(
            found.get(key, (-1, "", 0.0)), (row["ts"], row["_hoodie_commit_time"], row["price"])
        )
    return found


@pytest.mark.rotated(2, among="repairs", one_of=2)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("numbers", [(2, 3, 6), (3, 4, 5), (1, 8, 8)])
def test_a_number_that_changed_between_writes(
    tmp_path: Path, kind: str, version: int, numbers: tuple[int, int, int]
) -> None:
    """Each row stays once, the latest of its key, whatever was written and deleted by whom."""
    root = tmp_path / "t"
    index = bf.SimpleBucketIndex(numbers[0])
    table = create_table(root, index, kind, table_version=version, writer=NO_SERVICES)
    table.upsert(rows(range(120), 1))
    for turn, (before, after) in enumerate(pairwise(numbers), 2):
        table = state_number(root, before, after)
        table.upsert(rows(range(20 * turn, 20 * turn + 70), turn, float(turn)))
        table.delete(rows(range(30, 36), turn))
        if kind == "MERGE_ON_READ" and turn == 3:
            table.compact()
    before_repair = table.scan(meta_columns=True).to_arrow()
    expected = latest(before_repair)
    assert before_repair.num_rows > len(expected)
    done = table.repair_buckets(duplicates="latest")
    assert done is not None
    assert done.rows_deleted == before_repair.num_rows - len(expected)
    after_repair = bf.open(root).scan(meta_columns=True).to_arrow()
    assert after_repair.num_rows == len(expected)
    assert latest(after_repair) == expected
    report = bf.open(root).check(depth="full")
    assert report.status == "clean", report.findings


def test_a_file_group_that_others_begin_meanwhile_is_joined(tmp_path: Path) -> None:
    """Keys of a bucket without file group are in another one; a writer begins its file group."""
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(8), writer=NO_SERVICES)
    table.upsert(rows(range(0, 30, 3), 1))  # of one partition
    (path,) = table.inspect.partitions().column("partition_path").to_pylist()
    patient = Patient(tmp_path / "t")
    first, second = sorted(int(file_id[:8]) for file_id in file_ids(table, path))[:2]
    moved: list[pa.Table] = []
    patient.rewrite(patient.base_file(path, first), lambda own: (moved.append(own), own)[1])
    patient.rewrite(
        patient.base_file(path, second),
        lambda own: pa.concat_tables([own, moved[0].cast(own.schema)]),
    )
    gone = patient.base_file(path, first)
    instant = patient.instants[0]

    def forget(metadata: CommitMetadata) -> CommitMetadata:
        (stats,) = metadata.partition_to_write_stats.values()
        kept = [stat for stat in stats if not (stat.path or "").endswith(gone.name)]
        return msgspec.structs.replace(metadata, partition_to_write_stats={path: kept})

    patient.edit_commit(instant, forget)
    gone.unlink()
    table = bf.open(tmp_path / "t", writer=NO_SERVICES)
    (planned,) = table.preview_repair_buckets()
    assert {first, second} <= {*planned.buckets}
    assert first not in {int(file_id[:8]) for file_id in file_ids(table, path)}
    keys = moved[0].column("id").to_pylist()
    given = rows([int(key[4:]) for key in keys], 2, 7.0)

    def write(_: bf.Progress) -> None:
        if bf.open(tmp_path / "t").history().num_rows < 3:
            bf.open(tmp_path / "t", writer=NO_SERVICES).upsert(given)

    assert table.repair_buckets(duplicates="latest", progress=write) is not None
    read = bf.open(tmp_path / "t").scan().to_arrow()
    assert read.num_rows == 10
    assert set(read.filter(pc.equal(read["ts"], 2)).column("id").to_pylist()) == set(keys)
    report = bf.open(tmp_path / "t").check(depth="full")
    assert report.status == "clean", report.findings


def virtual_table(root: Path, ordering: Sequence[str]) -> bf.Table:
    """Return a table without meta columns, to which writers with 2 and with 3 buckets wrote."""
    table = bf.create(
        root,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=ordering,
        index=bf.SimpleBucketIndex(2),
        properties={"hoodie.populate.meta.fields": "false"},
        writer=NO_SERVICES,
    )
    table.upsert(rows(range(60), 1, 3.0))
    return state_number(root, 2, 3)


@pytest.mark.parametrize(
    ("ordering", "why"),
    [([], "the table has no ordering fields"), (["ts"], "they are alike in ts")],
)
def test_the_latest_row_is_not_guessed(tmp_path: Path, ordering: list[str], why: str) -> None:
    """Files without meta columns keep no commit times, by which the later of such rows is told."""
    table = virtual_table(tmp_path / "t", ordering)
    table.upsert(rows(range(60), 1, 5.0))
    before, instants = table.scan().to_arrow(), table.history().num_rows
    with pytest.raises(UnsupportedError, match=rf"rows with the key 'key-0000\d\d': {why}") as e:
        table.repair_buckets(duplicates="latest")
    assert e.value.partition in {"ap", "eu", "us"}
    assert "overwrite the partition with them" in str(e.value)
    assert table.history().num_rows == instants
    assert_same(table.scan().to_arrow(), before)
    table.insert_overwrite(rows(range(60), 1, 5.0))
    assert_same(table.scan().to_arrow(), rows(range(60), 1, 5.0))
    assert table.check(depth="full").status == "clean"


@pytest.mark.parametrize("ordering", [[], ["ts"]])
def test_rows_that_are_the_same_need_no_commit_time(tmp_path: Path, ordering: list[str]) -> None:
    table = virtual_table(tmp_path / "t", ordering)
    table.upsert(rows(range(60), 1, 3.0))
    assert table.scan().count() > 60
    assert table.repair_buckets(duplicates="latest") is not None
    assert_same(table.scan().to_arrow(), rows(range(60), 1, 3.0))


def test_the_ordering_tells_without_commit_times(tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t", ["ts"])
    table.upsert(rows(range(60), 2, 5.0))
    assert table.repair_buckets(duplicates="latest") is not None
    assert_same(table.scan().to_arrow(), rows(range(60), 2, 5.0))


def test_rows_that_have_their_key_alone_need_no_ordering(golden_copy: Copy) -> None:
    """A null in the ordering field of such a row decides nothing."""
    patient = Patient(golden_copy("1.2.0", "cow"))
    patient.state_buckets(4)
    second_group(patient)
    first = patient.root / min(
        str(group["base_file"])
        for group in patient.slices("us").values()
        if group["bucket_id"] == 1
    )
    twin = patient.root / max(
        str(group["base_file"])
        for group in patient.slices("us").values()
        if group["bucket_id"] == 1
    )
    alone: list[str] = []

    def without_ordering(own: pa.Table) -> pa.Table:
        at = own.schema.get_field_index("ts")
        alone.append(own.column(KEY)[-1].as_py())
        values = [*own.column("ts").to_pylist()[:-1], None]
        return own.set_column(at, "ts", pa.array(values, own.schema.field(at).type))

    patient.rewrite(first, without_ordering)
    patient.rewrite(twin, lambda own: own.slice(0, own.num_rows - 1))
    table = bf.open(patient.root, writer=NO_SERVICES)
    count_before = table.scan().count()
    done = table.repair_buckets(duplicates="latest")
    assert done is not None
    assert done.rows_deleted > 0
    read = bf.open(patient.root).scan(meta_columns=True).to_arrow()
    assert read.num_rows == count_before - done.rows_deleted
    kept = read.filter(pc.and_(pc.equal(read[KEY], alone[0]), pc.is_null(read["ts"])))
    assert kept.num_rows == 1
