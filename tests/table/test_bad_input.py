"""What is wrong with a table is one typed error that names the file; never rows that may be wrong.

Every fault is planted in a copy of a table real Hudi wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import Limits
from tests.check.planting import Patient
from tests.same_rows import canonical
from tests.table.tables import state_properties

pytestmark = pytest.mark.rotated

Golden = Callable[[str, str], Path]

VERSIONS = ("0.15.0", "1.0.2", "1.2.0")


def read(root: Path) -> pa.Table:
    return bf.open(root).scan().to_arrow()


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def failure(call: Callable[[], object]) -> bf.BucketfmtError:
    with pytest.raises(bf.BucketfmtError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return caught.value


class TestNoTable:
    @pytest.mark.parametrize("made", ["nothing", "folder", "file", "hoodie", "folder_as_file"])
    def test_no_properties(self, tmp_path: Path, made: str) -> None:
        root = tmp_path / "t"
        if made == "file":
            root.write_text("no folder")
        elif made != "nothing":
            (root / ".hoodie").mkdir(parents=True)
        if made == "folder":
            (root / ".hoodie").rmdir()
        if made == "folder_as_file":
            (root / ".hoodie/hoodie.properties").mkdir()
        error = failure(lambda: bf.open(root))
        assert type(error) is bf.TableNotFoundError
        assert str(root) in str(error)
        told = {
            "nothing": "the folder is empty or does not exist",
            "folder": "the folder is empty or does not exist",
            "file": "this is a file; give the folder of the table",
        }
        assert str(error).endswith(told.get(made, "restore the file from a backup"))

    def test_the_folder_of_its_metadata(self, golden: Golden) -> None:
        error = failure(lambda: bf.open(golden("1.2.0", "tiny_mor") / ".hoodie"))
        assert type(error) is bf.TableNotFoundError


class TestProperties:
    @pytest.mark.parametrize(
        ("version", "kind", "advice"),
        [
            ("0", bf.UnsupportedError, "older than Hudi 0.10; upgrade it"),
            ("7", bf.UnsupportedError, "stopped half way; finish that"),
            ("10", bf.UnsupportedError, "newer than this release; upgrade bucketfmt"),
            ("99", bf.UnsupportedError, "newer than this release"),
            ("", bf.UnsupportedError, "is missing"),
            ("-1", bf.CorruptError, "not a number"),
            ("nine", bf.CorruptError, "not a number"),
            ("9.0", bf.CorruptError, "not a number"),
        ],
    )
    def test_an_unknown_table_version(
        self, golden_copy: Golden, version: str, kind: type[bf.BucketfmtError], advice: str
    ) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        state_properties(root, {"hoodie.table.version": version})
        error = failure(lambda: bf.open(root))
        assert type(error) is kind
        assert error.path == ".hoodie/hoodie.properties"
        assert advice in str(error)

    @pytest.mark.parametrize("version", VERSIONS)
    def test_cut_before_its_version(self, golden_copy: Golden, version: str) -> None:
        """It has no checksum of its own; but what must be there is missed."""
        root = golden_copy(version, "tiny_mor")
        path = root / ".hoodie/hoodie.properties"
        rows = by_id(read(root))
        data = path.read_bytes()
        end = max(data.index(b"hoodie.table.version="), data.index(b"hoodie.table.name="))
        for length in range(0, end, 7):
            path.write_bytes(data[:length])
            assert failure(lambda: bf.open(root)).path == ".hoodie/hoodie.properties"
        path.write_bytes(data[:50])
        (root / ".hoodie/hoodie.properties.backup").write_bytes(data)
        assert by_id(read(root)) == rows

    def test_no_text(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        (root / ".hoodie/hoodie.properties").write_bytes(bytes(range(256)))
        error = failure(lambda: bf.open(root))
        assert isinstance(error, bf.CorruptError)
        assert error.path == ".hoodie/hoodie.properties"

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_unknown_index_engine(
        self, golden: Golden, golden_copy: Golden, version: str
    ) -> None:
        root = golden_copy(version, "tiny_mor")
        rows = read(root)
        settings = {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "QUANTUM_HASHING",
            "hoodie.bucket.index.num.buckets": "2",
        }
        state_properties(root, settings)
        table = bf.open(root)
        assert table.scan().to_arrow().sort_by("id") == rows.sort_by("id")
        filtered = table.scan(filter=[("id", "=", "key-000003")]).to_arrow()
        assert filtered.to_pylist() == [row for row in by_id(rows) if row["id"] == "key-000003"]
        assert (
            table.inspect.files()["path"].to_pylist()
            == bf.open(golden(version, "tiny_mor")).inspect.files()["path"].to_pylist()
        )
        for call in (
            lambda: table.index,
            lambda: table.locate(["key-000003"]),
            lambda: table.lookup(["key-000003"]),
        ):
            error = failure(call)
            assert type(error) is bf.UnsupportedError
            assert "QUANTUM_HASHING" in str(error)
        assert table.check().exit_code == 3  # met something not supported


class TestTimelineFiles:
    @pytest.mark.parametrize("name", ["tiny_mor", "tiny_cow"])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_torn_anywhere(self, golden_copy: Golden, version: str, name: str) -> None:
        """JSON in table version 6, Avro later."""
        root = golden_copy(version, name)
        rows = by_id(read(root))
        patient = Patient(root)
        for instant in patient.instants:
            path = patient.commit_path(instant)
            data = path.read_bytes()
            for length in {*range(1, len(data), 97), len(data) - 2, len(data) - 1}:
                path.write_bytes(data[:length])
                error = failure(lambda: read(root))
                assert isinstance(error, bf.CorruptError)
                assert error.path == path.relative_to(root).as_posix()
            path.write_bytes(data)
        assert by_id(read(root)) == rows != []

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_empty_replacecommit(self, golden_copy: Golden, version: str) -> None:
        """Which file groups are replaced is lost: their rows would be read a second time."""
        root = golden_copy(version, "tiny_cow")
        (path,) = (
            patient_path
            for patient_path in map(Patient(root).commit_path, Patient(root).instants)
            if patient_path.name.endswith(".replacecommit")
        )
        path.write_bytes(b"")
        error = failure(lambda: read(root))
        assert type(error) is bf.CorruptError
        assert error.path == path.relative_to(root).as_posix()
        assert "restore the file" in str(error)

    @pytest.mark.parametrize("garbage", [b"\0" * 500, b"[]", b"null", b"\xff\xfe", b"Obj\x01"])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_garbage(self, golden_copy: Golden, version: str, garbage: bytes) -> None:
        root = golden_copy(version, "tiny_mor")
        patient = Patient(root)
        path = patient.commit_path(patient.instants[-1])
        path.write_bytes(garbage)
        error = failure(lambda: read(root))
        assert isinstance(error, bf.CorruptError)
        assert error.path == path.relative_to(root).as_posix()

    def test_deep_json(self, golden_copy: Golden) -> None:
        root = golden_copy("0.15.0", "tiny_mor")
        patient = Patient(root)
        path = patient.commit_path(patient.instants[0])
        path.write_bytes(b'{"extraMetadata":' + b"[" * 100_000)
        assert isinstance(failure(lambda: read(root)), bf.CorruptError)


UNSAFE = [
    "../{}",
    "/{}",
    "us/../../{}",
    "us/%2e%2e/%2e%2e/{}",
    "us\\..\\{}",
    "us/\0{}",
    "file:/../{}",  # a URL that ends as the file in the table does is that file: DEV-35
    "file:us/../../{}",
]


class TestPaths:
    @pytest.mark.parametrize("pattern", UNSAFE)
    @pytest.mark.parametrize("version", VERSIONS)
    def test_out_of_the_table(self, golden_copy: Golden, version: str, pattern: str) -> None:
        root = golden_copy(version, "tiny_mor")
        outside = shutil.copytree(root / "us", root.parent / "us")
        patient = Patient(root)
        instant = patient.instants[0]

        def lead_out(metadata: CommitMetadata) -> CommitMetadata:
            stats = {
                partition: [
                    msgspec.structs.replace(
                        stat, path=pattern.format(f"us/{Path(stat.path or '').name}")
                    )
                    for stat in own
                ]
                for partition, own in metadata.partition_to_write_stats.items()
            }
            return msgspec.structs.replace(metadata, partition_to_write_stats=stats)

        path = patient.commit_path(instant)
        patient.edit_commit(instant, lead_out)
        error = failure(lambda: read(root))
        assert type(error) is bf.UnsafePathError
        assert path.relative_to(root).as_posix() in str(error)
        assert outside.exists()

    @pytest.mark.parametrize("linked", ["partition", "base file", "log file", "timeline"])
    def test_a_link_out_of_the_table(self, golden_copy: Golden, linked: str) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        place = {
            "partition": root / "us",
            "base file": Patient(root).base_file("us"),
            "log file": Patient(root).log_file("us"),
            "timeline": root / ".hoodie/timeline",
        }[linked]
        outside = root.parent / "outside"
        place.rename(outside)
        place.symlink_to(outside)
        error = failure(lambda: read(root))
        assert type(error) is bf.UnsafePathError
        assert error.path is not None
        assert error.path.startswith(place.relative_to(root).as_posix())

    def test_a_link_inside_the_table_is_followed(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        rows = by_id(read(root))
        (root / "us").rename(root / "elsewhere")
        (root / "elsewhere/.hoodie_partition_metadata").unlink()
        (root / "us").mkdir()
        for file in (root / "elsewhere").iterdir():
            (root / "us" / file.name).symlink_to(file)
        (root / "us/.hoodie_partition_metadata").write_text("partitionDepth=1\n")
        assert by_id(read(root)) == rows


class TestDataFiles:
    @pytest.mark.rotated(0, among="every byte", one_of=4)
    @pytest.mark.parametrize(("version", "step"), [("0.15.0", 1), ("1.0.2", 7), ("1.2.0", 5)])
    def test_a_log_file_cut_at_every_length(
        self, golden_copy: Golden, version: str, step: int
    ) -> None:
        """A log cut between two blocks is a sound shorter log; only the commits know better."""
        root = golden_copy(version, "tiny_mor")
        rows = by_id(read(root))
        path = Patient(root).log_file("us", 1)
        data = path.read_bytes()
        for length in range(0, len(data), step):
            path.write_bytes(data[:length])
            error = failure(lambda: read(root))
            assert type(error) is bf.TruncatedError
            assert (error.path, error.offset) == (path.relative_to(root).as_posix(), length)
            assert f"{length} bytes, but a completed commit recorded {len(data)}" in str(error)
        path.write_bytes(data)
        assert by_id(read(root)) == rows
        assert len(rows) == 7

    @pytest.mark.parametrize("read_optimized", [True, False])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_base_file_cut_anywhere(
        self, golden_copy: Golden, version: str, read_optimized: bool
    ) -> None:
        root = golden_copy(version, "tiny_mor")
        path = Patient(root).base_file("us")
        data = path.read_bytes()
        for length in (0, 1, 3, 4, 11, 12, *range(100, len(data), 997), len(data) - 1):
            path.write_bytes(data[:length])
            scan = bf.open(root).scan(read_optimized=read_optimized)
            for call in (scan.to_arrow, scan.count, scan.to_reader().read_all):
                error = failure(call)
                assert type(error) is bf.TruncatedError
                assert (error.path, error.offset) == (path.relative_to(root).as_posix(), length)

    @pytest.mark.parametrize("kind", ["base", "log"])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_missing_file(self, golden_copy: Golden, version: str, kind: str) -> None:
        root = golden_copy(version, "tiny_mor")
        patient = Patient(root)
        base_rows = by_id(bf.open(root).scan(read_optimized=True).to_arrow())
        path = patient.base_file("us") if kind == "base" else patient.log_file("us")
        state_properties(
            root, {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
        )
        path.unlink()
        table = bf.open(root)
        for call in (table.scan().to_arrow, lambda: table.lookup(["key-000003"])):
            error = failure(call)
            assert type(error) is bf.CorruptError
            assert error.path == path.relative_to(root).as_posix()
            assert "does not exist; restore it" in str(error)
        if kind == "log":
            assert by_id(table.scan(read_optimized=True).to_arrow()) == base_rows
            assert len(base_rows) == 8

    @pytest.mark.parametrize("kind", ["base", "log"])
    def test_nonsense_of_the_right_length(self, golden_copy: Golden, kind: str) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        patient = Patient(root)
        path = patient.base_file("us") if kind == "base" else patient.log_file("us")
        path.write_bytes(bytes(range(256)) * 100)
        error = failure(lambda: read(root))
        assert isinstance(error, bf.CorruptError)
        assert error.path == path.relative_to(root).as_posix()

    @pytest.mark.parametrize("kind", ["base", "log"])
    def test_a_folder_of_its_name(self, golden_copy: Golden, kind: str) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        patient = Patient(root)
        path = patient.base_file("us") if kind == "base" else patient.log_file("us")
        path.unlink()
        path.mkdir()
        assert failure(lambda: read(root)).path == path.relative_to(root).as_posix()

    def test_the_rest_of_the_table_reads_on(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "mor")
        rows = read(root)
        Patient(root).log_file("eu").unlink()
        assert isinstance(failure(lambda: read(root)), bf.CorruptError)
        scan = bf.open(root).scan(filter=[("region", "=", "us")])
        elsewhere = rows.filter(pa.compute.equal(rows["region"], "us"))
        assert canonical(scan.to_arrow()) == canonical(elsewhere)


LIMITS = [
    ("folder_entries_max", 2, ""),
    ("properties_bytes_max", 100, ".hoodie/hoodie.properties"),
    ("timeline_file_bytes_max", 100, ".hoodie/timeline/"),
    ("timeline_instants_max", 2, None),
    ("log_file_bytes_max", 100, "us/."),
    ("log_blocks_per_file_max", 0, "us/."),
    ("log_header_entries_max", 0, "us/."),
    ("log_header_value_bytes_max", 420, "us/."),
    ("records_per_block_max", 1, "us/."),
    ("log_rows_bytes_max", 10, None),
    ("base_file_rows_max", 1, "us/0"),
    ("row_group_rows_max", 1, "us/0"),
    ("row_group_bytes_max", 10, "us/0"),
    ("schema_fields_max", 2, None),
    ("path_bytes_max", 10, ".hoodie/"),
]


class TestLimits:
    @pytest.mark.parametrize(("name", "bound", "path"), LIMITS)
    def test_a_limit_that_is_exceeded_is_named(
        self, golden: Golden, name: str, bound: int, path: str | None
    ) -> None:
        limits = Limits(**{name: bound})
        root = golden("1.2.0", "tiny_mor")
        error = failure(lambda: bf.open(root, limits=limits).scan().to_arrow())
        assert type(error) is bf.LimitError
        if path is not None:
            assert str(error.path).startswith(path)

    @pytest.mark.parametrize("call", ["scan", "lookup", "files", "upsert"])
    @pytest.mark.parametrize(
        "place",
        [
            "bucketfmt.storage.stores.local_store._file_info",
            "bucketfmt.timeline.load._list_timeline",
            "bucketfmt.snapshot.snapshot.find_file_slices",
        ],
    )
    def test_a_lack_of_memory_is_a_limit_too(
        self, golden_copy: Golden, monkeypatch: pytest.MonkeyPatch, place: str, call: str
    ) -> None:
        """Of a million files or instants, say, which the default limits allow."""

        def fail(*_args: object, **_kwargs: object) -> None:
            raise MemoryError

        root = golden_copy("1.2.0", "tiny_mor")
        rows = bf.open(root).scan().to_arrow()
        t = bf.open(root)
        calls: dict[str, Callable[[], object]] = {
            "scan": lambda: t.scan().to_arrow(),
            "lookup": lambda: t.lookup(["a"]),
            "files": t.files,
            "upsert": lambda: t.upsert(rows),
        }
        monkeypatch.setattr(place, fail)
        error = failure(calls[call])
        assert type(error) is bf.LimitError
        assert error.message.endswith("the memory of this process does not suffice")

    def test_the_defaults_hold_no_real_table_up(self) -> None:
        """Every other test reads with them; what may be set is known."""
        tested = {name for name, _, _ in LIMITS}
        others = {
            "directory_depth_max",
            "hashing_metadata_bytes_max",
            "history_file_bytes_max",
            "record_positions_max",
            "schema_depth_max",
            "kryo_objects_max",
            "json_depth_max",
            "ring_nodes_max",
            "num_buckets_max",
            "partition_rules_max",
            "bloom_filter_bytes_max",
            "hfile_block_bytes_max",
        }
        assert tested | others == set(Limits.__dataclass_fields__)
