"""create, upsert and delete, as their users meet them."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.timeline.load import load_commit_metadata
from tests.check.planting import Patient
from tests.cli.conftest import Cli, Run
from tests.table.tables import state_properties

pytestmark = pytest.mark.rotated

Golden = Callable[[str, str], Path]

TRIPS = pa.table(
    {
        "id": ["t1", "t2", "t3"],
        "city": ["sf", "ny", "sf"],
        "ts": [1, 1, 1],
        "fare": [10.5, None, 3.0],
    }
)
CREATE = ["--key", "id", "--partition-by", "city", "--ordering", "ts", "--index", "simple:2"]


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """A file with rows."""
    pq.write_table(TRIPS, tmp_path / "trips.parquet")
    return tmp_path / "trips.parquet"


@pytest.fixture
def table(cli: Cli, trips: Path, tmp_path: Path) -> Path:
    """A table with these rows."""
    root = tmp_path / "warehouse/trips"
    assert cli("create", root, "--like", trips, *CREATE).code == 0
    assert cli("upsert", root, trips).code == 0
    return root


def read(root: Path) -> list[dict[str, Any]]:
    opened = bf.open(root)
    assert opened.check(depth="full").status == "clean"
    rows: list[dict[str, Any]] = opened.scan().to_arrow().sort_by("id").to_pylist()
    return rows


def fails(run: Run, code: int, message: str) -> None:
    assert (run.code, run.out) == (code, "")
    assert run.err.startswith("bucketfmt: ")
    assert run.err.count("\n") == 1
    assert message in run.err


def codecs(root: Path) -> set[str]:
    """Of all base files there are."""
    files = (pq.ParquetFile(path).metadata for path in root.glob("*/*.parquet"))
    return {metadata.row_group(0).column(0).compression for metadata in files}


def commits(root: Path) -> int:
    return len(bf.open(root).timeline.instants)


class TestCreate:
    def test_what_it_makes(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        run = cli("create", tmp_path / "made", "--like", trips, *CREATE, "--output", "json")
        assert (run.code, run.err) == (0, "")
        assert run.json == {
            "table": "made",
            "uri": str(tmp_path / "made"),
            "type": "COPY_ON_WRITE",
            "version": 9,
            "index": "simple:2:id",
        }
        made = bf.open(tmp_path / "made")
        assert made.schema == TRIPS.schema
        assert made.scan().count() == 0
        assert (made.config.partition_fields, made.config.ordering_fields) == (("city",), ("ts",))

    def test_of_other_versions_and_kinds(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        run = cli(
            "create", tmp_path / "made", "--like", trips, "--key", "id,city", "--index",
            "consistent:4", "--merge-on-read", "--table-version", "6", "--property",
            "hoodie.bucket.index.max.num.buckets=08",
        )  # fmt: skip
        assert (run.code, run.err) == (0, "")
        assert "consistent:4" in run.out
        config = bf.open(tmp_path / "made").config
        assert (config.table_type, config.table_version) == ("MERGE_ON_READ", 6)
        assert config.record_key_fields == ("id", "city")
        assert config.properties["hoodie.bucket.index.max.num.buckets"] == "08"  # as it was given

    def test_extendible_hashing_and_a_resize(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        made = tmp_path / "made"
        cli("create", made, "--like", trips, "--key", "id", "--index", "extendible:1")
        assert cli("upsert", made, trips).code == 0
        assert bf.open(made).index == bf.ExtendibleHashingIndex(1, ("id",))
        arguments = ["resize", made, "--max-file-size", "1", "--max-buckets", "2"]
        assert "1 -> 2" in cli(*arguments, "--dry-run").out
        assert cli(*arguments).code == 0
        assert bf.open(made).inspect.buckets().column("bucket_id").to_pylist() == [0, 1]
        assert bf.open(made).scan().count() == TRIPS.num_rows

    def test_a_ring_is_made_again(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        made = tmp_path / "made"
        arguments = ("--key", "id", "--index", "consistent:2", "--merge-on-read")
        cli("create", made, "--like", trips, *arguments)
        assert cli("upsert", made, trips).code == 0
        (ring,) = (made / ".hoodie/.bucket_index").rglob("*.hashing_meta")
        ring.write_bytes(b"{}")
        assert "repair" in cli("check", made).out
        assert cli("lookup", made, "1").code == 2
        planned = cli("repair", made, "--dry-run")
        assert (planned.code, ring.read_bytes()) == (0, b"{}")
        assert re.search(r"rings to make again +1\nfile groups to rewrite +0\n", planned.out)
        done = cli("repair", made, "--output", "json")
        (told,) = json.loads(done.out)["rings"]
        assert (told["partition_path"], told["path"]) == ("", str(ring.relative_to(made)))
        assert told["cause"].startswith("hashing metadata: ")
        assert cli("check", made, "--depth", "full").code == 0
        assert cli("upsert", made, trips).code == 0
        assert bf.open(made).scan().count() == TRIPS.num_rows
        assert "rings made again" in cli("repair", made).out

    def test_rows_are_moved_to_their_buckets(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        made = tmp_path / "made"
        cli("create", made, "--like", trips, "--key", "id", "--index", "simple:2")
        assert cli("upsert", made, trips).code == 0
        assert cli("repair", made).out.split() == ["rows", "moved", "none"]
        patient = Patient(made)
        first = patient.base_file("", 1)
        twin = patient.copy_file(first, file_id="00000001-1111-4222-8333-444455556666-0")
        patient.record(twin, like=first)
        before, num_rows = sorted(made.rglob("*")), bf.open(made).scan().count()
        assert "`bucketfmt repair --duplicates latest`" in cli("check", made).out
        assert cli("check", made).code == 1
        planned = cli("repair", made, "--dry-run")
        assert (planned.code, planned.err) == (0, "")
        assert "bucket 1 has 2 file groups" in planned.out
        (told,) = json.loads(cli("repair", made, "--dry-run", "--output", "json").out)["repairs"]
        assert (told["partition_path"], told["buckets"], len(told["file_ids"])) == ("", [1], 2)
        refused = cli("repair", made)
        assert refused.code == 3
        assert "with --duplicates latest the latest row of each key is kept" in refused.err
        assert sorted(made.rglob("*")) == before
        done = cli("repair", made, "--duplicates", "latest")
        assert done.code == 0
        (left_out,) = re.findall(r"older rows left out +(\d+)", done.out)
        assert 0 < int(left_out) == num_rows - TRIPS.num_rows
        assert cli("check", made, "--depth", "full").code == 0
        assert bf.open(made).scan().count() == TRIPS.num_rows

    def test_a_partition_gets_its_metadata_file(
        self, cli: Cli, trips: Path, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        arguments = ("--key", "id", "--partition-by", "city", "--index")
        cli("create", made, "--like", trips, *arguments, "simple:2")
        assert cli("upsert", made, trips).code == 0
        lost = next(made.glob("*/.hoodie_partition_metadata"))
        lost.unlink()
        assert "T005" in cli("check", made).out
        planned = cli("repair", made, "--dry-run")
        assert (planned.code, lost.exists()) == (0, False)
        assert planned.out.startswith("partitions to make again")
        done = json.loads(cli("repair", made, "--output", "json").out)
        assert done == {"partitions": [lost.parent.name], "commit": None}
        assert cli("check", made, "--depth", "full").code == 0

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("00000007-1111-4222-8333-444455556666-0", "do not prove a single number of buckets"),
            ("5a3c2b1d-1111-4222-8333-444455556666-0", "hold no bucket ids, which others do"),
        ],
    )
    def test_rows_whose_index_nothing_states(
        self, cli: Cli, golden_copy: Callable[[str, str], Path], name: str, problem: str
    ) -> None:
        """A file group in no bucket hides the number of buckets, which has to be given then."""
        patient = Patient(golden_copy("1.2.0", "cow"))
        group = patient.base_file("us", 3).name.partition("_")[0]
        patient.rename_group("us", group, name)
        refused = cli("repair", patient.root)
        assert refused.code == 2
        assert problem in refused.err
        assert "pass --index, such as --index simple:16" in refused.err
        assert cli("repair", patient.root, "--index", "simple:4").code == 0
        assert cli("check", patient.root, "--depth", "full").code == 0

    @pytest.mark.parametrize("index", ["extendible:2", "record"])
    def test_no_rows_are_moved_where_no_buckets_are(
        self, cli: Cli, trips: Path, tmp_path: Path, index: str
    ) -> None:
        made = tmp_path / "made"
        cli("create", made, "--like", trips, "--key", "id", "--index", index)
        assert cli("upsert", made, trips).code == 0
        for arguments in ([], ["--dry-run"]):
            refused = cli("repair", made, *arguments)
            assert refused.code == 3
            assert f"to move rows to their buckets in a table with {index}" in refused.err
        refused = cli("repair", made, "--partition", "nowhere")
        assert (refused.code, refused.err) == (
            64,
            "bucketfmt: there are no data files in 'nowhere'\n",
        )

    def test_duplicates_are_no_matter_of_directories(
        self, cli: Cli, trips: Path, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        cli("create", made, "--like", trips, "--key", "id", "--index", "extendible:2")
        run = cli("repair", made, "--duplicates", "latest")
        assert run.code == 64
        assert "--duplicates is for buckets that are numbered or on a ring" in run.err

    def test_rows_of_two_rings_are_brought_together(
        self, cli: Cli, trips: Path, tmp_path: Path
    ) -> None:
        """The keys do not tell the ring: rows are moved to a new one."""
        made = tmp_path / "made"
        arguments = ("--key", "id", "--index", "consistent:2", "--merge-on-read")
        cli("create", made, "--like", trips, *arguments)
        assert cli("upsert", made, trips).code == 0
        assert cli("compact", made).code == 0
        patient = Patient(made)
        base = next(made.glob("*.parquet"))
        twin = patient.copy_file(base, file_id="5a3c2b1d-1111-4222-8333-444455556666-0")
        patient.record(twin, like=base)
        assert "`bucketfmt repair --duplicates latest`" in cli("check", made).out
        planned = cli("repair", made, "--dry-run", "--output", "json")
        (told,) = json.loads(planned.out)["repairs"]
        assert set(told["file_ids"]) >= {"5a3c2b1d-1111-4222-8333-444455556666-0"}
        assert cli("repair", made).code == 3
        assert cli("repair", made, "--duplicates", "latest").code == 0
        assert cli("check", made, "--depth", "full").code == 0
        assert bf.open(made).scan().count() == TRIPS.num_rows

    def test_buckets_of_several_file_groups(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        made = tmp_path / "made"
        arguments = ("create", made, "--like", trips, "--key", "id", "--index")
        assert cli(*arguments, "multigroup:1:1").code == 0
        assert bf.open(made).index == bf.MultiGroupBucketIndex(1, 1, ("id",))
        assert cli("upsert", made, trips).code == 0
        buckets = cli("buckets", made, "--output", "json")
        assert (buckets.code, buckets.err) == (0, "")
        assert len(bf.open(made).inspect.buckets()) == TRIPS.num_rows  # which are larger than 1
        assert "keep" in cli("buckets", made, "--advise").out
        refused = cli("rehash", made, "2")
        assert refused.code == 3
        assert "multigroup:1:1" in refused.err
        assert cli("create", tmp_path / "x", *arguments[2:], "multigroup:1:0").code == 64

    def test_a_name_of_its_own(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        arguments = ["create", tmp_path / "my-trips", "--like", trips, *CREATE, "--name", "trips"]
        assert "trips_record" in cli(*arguments, "--dry-run").out
        assert cli(*arguments).code == 0
        assert bf.open(tmp_path / "my-trips").config.name == "trips"

    @pytest.mark.parametrize("output", ["text", "json"])
    def test_dry_run(self, cli: Cli, trips: Path, tmp_path: Path, output: str) -> None:
        arguments = ["create", tmp_path / "made", "--like", trips, *CREATE, "--output", output]
        run = cli(*arguments, "--dry-run")
        assert (run.code, run.err) == (0, "")
        assert not (tmp_path / "made").exists()
        cli(*arguments)
        data = (tmp_path / "made/.hoodie/hoodie.properties").read_bytes()
        for name, value in decode_properties(data).items():
            assert name in run.out
            assert json.dumps(value)[1:-1] in run.out or value in run.out
        assert ("nothing was written" in run.out) == (output == "text")
        fails(cli(*arguments, "--dry-run"), 64, "already")

    def test_what_it_refuses(self, cli: Cli, trips: Path, tmp_path: Path, table: Path) -> None:
        def create(*arguments: object, root: Path = tmp_path / "made") -> Run:
            return cli("create", root, "--like", trips, *arguments)

        fails(create(*CREATE, root=table), 64, "already")
        fails(
            create("--key", "nope", "--index", "simple:2"),
            64,
            "--key: no column 'nope'; there are ",
        )
        by = create("--key", "id", "--partition-by", "Id")
        fails(by, 64, "--partition-by: no column 'Id'; did you mean 'id'?")
        assert "index    simple:8:id\n" in create("--key", "id", root=tmp_path / "eight").out
        fails(create("--key", "id", "--index", "simple:0"), 64, "--index simple:0")
        fails(create("--key", "id", "--index", "consistent:2"), 64, "--merge-on-read")
        fails(create(*CREATE, "--table-version", "7"), 64, "6, 8 or 9")
        fails(create(*CREATE, root=tmp_path / "my-trips"), 64, "give another one by --name")
        fails(create(*CREATE, "--property", "hoodie.x"), 64, "KEY=VALUE")
        fails(create(*CREATE, "--property", "hoodie.table.type=x"), 64, "contradicts")
        assert not (tmp_path / "made").exists()


def write_as(kind: str, rows: pa.Table, folder: Path) -> Path:
    """Write rows in a format, into a file that is named after it."""
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "csv":
        pa.csv.write_csv(rows, path)
    elif kind in ("arrow", "feather"):
        with pa.ipc.new_file(path, rows.schema) as file:
            file.write_table(rows, max_chunksize=1)
    elif kind == "stream.arrow":
        with pa.ipc.new_stream(path, rows.schema) as stream:
            stream.write_table(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    return path


FORMATS = ["parquet", "csv", "json", "jsonl", "ndjson", "arrow", "feather", "stream.arrow"]
STDIN = [("parquet", "parquet"), ("csv", "csv"), ("jsonl", "jsonl"), ("stream.arrow", "arrow")]


class TestUpsert:
    @pytest.mark.parametrize("kind", FORMATS)
    def test_files_of_every_format(self, cli: Cli, trips: Path, tmp_path: Path, kind: str) -> None:
        root = tmp_path / "t"
        cli("create", root, "--like", trips, *CREATE)
        run = cli("upsert", root, write_as(kind, TRIPS, tmp_path), "--output", "json")
        assert (run.code, run.err) == (0, "")
        assert run.json["rows_inserted"] == 3
        assert run.json["operation"] == "UPSERT"
        assert len(run.json["files"]) == len(list(root.glob("*/*.parquet")))
        assert read(root) == TRIPS.to_pylist()

    @pytest.mark.parametrize("ending", ["csv", "jsonl"])
    def test_what_read_wrote_comes_back_in_blocks(
        self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
    ) -> None:
        """A line break in a value at the end of a block made two rows of one."""
        rows = pa.table({"id": [f"k{i}" for i in range(900)], "x": ["one\ntwo,3"] * 900})
        rows = pa.concat_tables([rows, pa.table({"id": ["long"], "x": ["z" * 5_000]})])
        first, second = (
            bf.create(tmp_path / name, schema=rows, record_key="id") for name in ("a", "b")
        )
        first.upsert(rows)
        monkeypatch.setattr("bucketfmt.cli.row_files._ROW_BYTES_MAX", 6_000)
        monkeypatch.setattr("bucketfmt.cli.row_files._JSON_BLOCK_BYTES", 100)
        assert cli("read", first.uri, "-o", tmp_path / f"rows.{ending}").code == 0
        assert cli("upsert", second.uri, tmp_path / f"rows.{ending}").code == 0
        assert second.to_arrow().sort_by("id") == rows.sort_by("id")

    @pytest.mark.parametrize(("kind", "name"), STDIN)
    def test_standard_input(
        self,
        cli: Cli,
        trips: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
        name: str,
    ) -> None:
        root = tmp_path / "t"
        cli("create", root, "--like", trips, *CREATE)
        data = write_as(kind, TRIPS, tmp_path).read_bytes()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        run = cli("upsert", root, "-", "--format", name)
        assert (run.code, run.err) == (0, "")
        assert read(root) == TRIPS.to_pylist()
        fails(
            cli("upsert", root, "-"),
            64,
            "standard input: the format is unknown; give --format",
        )

    def test_an_arrow_file_on_standard_input(
        self, cli: Cli, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = pa.table({"id": ["t9"], "city": ["la"], "ts": [1], "fare": [2.5]})
        for number, new in enumerate((pa.ipc.new_file, pa.ipc.new_stream)):
            sink = pa.BufferOutputStream()
            with new(sink, row.schema) as writer:
                writer.write_table(row.set_column(2, "ts", pa.array([number])))
            data = io.BufferedReader(io.BytesIO(sink.getvalue().to_pybytes()))
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))
            run = cli("upsert", table, "-", "--format", "arrow")
            assert (run.code, run.err) == (0, "")
            assert read(table)[-1] == {"id": "t9", "city": "la", "ts": number, "fare": 2.5}

    @pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "arrow"])
    def test_no_rows_that_read_wrote(
        self, cli: Cli, table: Path, tmp_path: Path, suffix: str
    ) -> None:
        none, before = tmp_path / f"none.{suffix}", read(table)
        assert cli("read", table, "-f", "ts > 100000", "-o", none).code == 0
        run = cli("upsert", table, none)
        assert (run.code, run.err) == (0, "")
        assert read(table) == before

    def test_a_dry_run_names_a_column_that_makes_keys_and_is_not_there(
        self, cli: Cli, table: Path, trips: Path
    ) -> None:
        state_properties(table, {"hoodie.table.recordkey.fields": "nope"})
        fails(cli("upsert", table, trips, "--dry-run"), 2, "the rows have no column nope")

    @pytest.mark.rotated(0, among="processes of commands", one_of=3)
    def test_a_pipe(self, table: Path) -> None:
        command = [sys.executable, "-m", "bucketfmt.cli", "upsert", str(table), "-"]
        run = subprocess.run(
            [*command, "--format", "csv"],
            input=b"id,city,ts,fare\nt9,la,1,2.5\n",
            capture_output=True,
            check=False,
        )
        assert (run.returncode, run.stderr) == (0, b"")
        assert read(table)[-1] == {"id": "t9", "city": "la", "ts": 1, "fare": 2.5}

    def test_what_it_says(self, cli: Cli, table: Path, trips: Path) -> None:
        run = cli("upsert", table, trips)
        assert (run.code, run.err) == (0, "")
        lines = [line.strip().split(None, 1) for line in run.out.splitlines()]
        assert [words[0] for words in lines] == ["instant", "operation", "rows", "files"]
        assert lines[0][1].endswith(" (commit)")
        assert lines[2][1] == "0 inserted, 3 updated or logged, 0 deleted"

    def test_several_files(self, cli: Cli, table: Path, tmp_path: Path) -> None:
        paths = []
        for number in (4, 5):
            path = tmp_path / f"{number}.csv"
            path.write_text(f"id,city,ts,fare\nt{number},sf,1,{number}\n")
            paths.append(path)
        assert cli("upsert", table, *paths).code == 0
        assert [row["id"] for row in read(table)] == ["t1", "t2", "t3", "t4", "t5"]
        assert commits(table) == 2
        other = tmp_path / "other.csv"
        other.write_text("id,city,ts,fare,more\nt6,sf,1,1,1\n")
        told = f"{other} has other columns than {paths[0]}: more (int64); give files"
        fails(cli("upsert", table, paths[0], other), 2, told)
        assert commits(table) == 2
        other.write_text("city,fare,ts,id\nsf,6,1,t6\n")
        assert cli("upsert", table, paths[0], other).code == 0, "the order is of no account"
        assert read(table)[-1]["id"] == "t6"
        assert read(table)[-1]["fare"] == 6
        twice = tmp_path / "twice.csv"
        twice.write_text("id,city,ts,fare,fare\nt7,sf,1,1,1\n")
        for options in ([], ["--dry-run"]):
            for given in ([twice], [twice, twice]):
                fails(cli("upsert", table, *given, *options), 2, "columns named twice: fare")
        rows = pa.table({"id": ["t7"], "city": ["sf"], "ts": [1], "fare": [7.0]})
        names = [tmp_path / "optional.parquet", tmp_path / "required.parquet"]
        pq.write_table(rows, names[0])
        required = pa.schema([field.with_nullable(False) for field in rows.schema])
        pq.write_table(rows.set_column(0, "id", pa.array(["t8"])).cast(required), names[1])
        for options in (["--dry-run"], []):
            assert cli("upsert", table, *names, *options).code == 0
        assert [row["id"] for row in read(table)][-2:] == ["t7", "t8"]

    def test_a_dry_run_is_refused_as_the_write(
        self, cli: Cli, table: Path, trips: Path, tmp_path: Path
    ) -> None:
        more, less = tmp_path / "more.csv", tmp_path / "less.csv"
        more.write_text("id,city,ts,fare,tip\nt6,sf,1,1,1\n")
        less.write_text("id,city,ts\nt6,sf,1\n")
        for path, told, consent in (
            (more, "lacks columns that the rows have: tip", ["--evolve"]),
            (less, "the rows lack the columns fare", ["--missing", "null"]),
        ):
            for options in ([], ["--dry-run"]):
                fails(cli("upsert", table, path, *options), 2, told)
            assert cli("upsert", table, path, *consent, "--dry-run").code == 0
        half, nested = tmp_path / "half.parquet", tmp_path / "nested.csv"
        row = {"id": ["t6"], "city": ["sf"], "ts": [1.5], "fare": [1.0]}
        pq.write_table(pa.table(row), half)
        nested.write_text("id,city,ts,fare\nt6,sf/bay,1,1\n")
        for path, code, told, extra in (
            (half, 2, "column ts", []),
            (nested, 2, "sf/bay", []),
            (trips, 64, "bulk_insert into bucket", ["bulk_insert"]),
        ):
            given = [text for name in extra for text in ("--operation", name)]
            for options in ([], ["--dry-run"]):
                fails(cli("upsert", table, path, *given, *options), code, told)
        less_than_all = ["--concurrency", "non_blocking"]
        for options in ([], ["--dry-run"]):
            run = cli(
                "upsert", table, half.with_name("more.csv"), *less_than_all, *options, "--evolve"
            )
            fails(run, 64, "takes a merge-on-read table")
        run = cli("upsert", table, more, "--evolve", "--dry-run", "--output", "json")
        assert json.loads(run.out)["columns"] == "tip: added, int64"
        for given, told in (
            (["--commit-metadata", "foo"], "--commit-metadata foo: give KEY=VALUE"),
            (["--commit-metadata", "schema=x"], "the entry 'schema' is set by the writer"),
            (["--idempotency-key", ""], "idempotency_key is not empty"),
        ):
            for options in ([], ["--dry-run"]):
                fails(cli("upsert", table, trips, *given, *options), 64, told)
        assert commits(table) == 1
        keyed = ["--idempotency-key", "k"]
        assert cli("upsert", table, trips, *keyed).code == 0
        run = cli("upsert", table, trips, *keyed, "--dry-run")
        assert "committed before with this idempotency key" in run.out
        assert commits(table) == 2

    def test_text_is_read_by_the_types_of_the_table(
        self, cli: Cli, table: Path, tmp_path: Path
    ) -> None:
        """`7` is text and `9` a double, nothing is null, and "" is the empty text."""
        path = tmp_path / "rows.csv"
        path.write_text('id,city,ts,fare,note\n7,sf,2,9,""\n8,sf,2,,hello\n9,sf,2,1,\n')
        fails(cli("upsert", table, path), 2, "lacks columns that the rows have: note")
        run = cli("upsert", table, path, "--evolve")
        assert (run.code, "note: added, string" in run.out) == (0, True)
        rows = {row["id"]: row for row in read(table)}
        assert rows["7"] == {"id": "7", "city": "sf", "ts": 2, "fare": 9.0, "note": ""}
        assert rows["8"]["fare"] is None
        assert [rows[key]["note"] for key in ("8", "9", "t1")] == ["hello", None, None]

    def test_rows_that_lack_columns(self, cli: Cli, table: Path, tmp_path: Path) -> None:
        """JSON lines have no columns but those that rows give."""
        before = read(table)
        path = tmp_path / "rows.jsonl"
        path.write_text('{"id": "t1", "city": "sf", "ts": 9}\n\n')
        fails(cli("upsert", table, path), 2, "lack the columns fare")
        assert cli("upsert", table, path, "--missing", "keep").code == 0
        expected = {row["id"]: row for row in before}
        expected["t1"]["ts"] = 9
        assert {row["id"]: row for row in read(table)} == expected
        path.write_text(
            '{"id": "t1", "city": "sf", "ts": 9, "fare": 1}\n{"id": "t2", "city": "ny", "ts": 9}'
        )
        fails(cli("upsert", table, path, "--missing", "keep"), 2, "lack the field fare, which")
        assert cli("upsert", table, path).code == 0
        expected["t1"]["fare"], expected["t2"]["ts"], expected["t2"]["fare"] = 1, 9, None
        assert {row["id"]: row for row in read(table)} == expected

    def test_operations(self, cli: Cli, table: Path, tmp_path: Path) -> None:
        path = tmp_path / "rows.csv"

        def operate(operation: str, text: str) -> Run:
            path.write_text("id,city,ts,fare\n" + text)
            return cli("upsert", table, path, "--operation", operation, "--output", "json")

        run = operate("insert", "t4,la,1,1\n")
        assert run.json["operation"] == "INSERT"
        fails(operate("bulk_insert", "t1,sf,1,1\n"), 64, "bulk_insert into bucket")
        assert operate("bulk_insert", "t5,rome,1,1\n").json["operation"] == "BULK_INSERT"
        run = operate("insert_overwrite", "t6,sf,1,1\n")
        assert (run.json["operation"], run.json["action"]) == ("INSERT_OVERWRITE", "replacecommit")
        assert run.json["file_groups_replaced"] >= 1
        assert [row["id"] for row in read(table)] == ["t2", "t4", "t5", "t6"]
        assert "replaced" in cli("upsert", table, path, "--operation", "insert_overwrite").out
        operate("insert_overwrite_table", "t7,sf,1,1\n")
        assert [row["id"] for row in read(table)] == ["t7"]

    def test_an_idempotency_key(self, cli: Cli, table: Path, trips: Path) -> None:
        first = cli("upsert", table, trips, "--idempotency-key", "7", "--output", "json")
        again = cli("upsert", table, trips, "--idempotency-key", "7", "--output", "json")
        assert again.json == {**first.json, "repeated": True}
        assert "committed before" in cli("upsert", table, trips, "--idempotency-key", "7").out
        assert commits(table) == 2

    def test_how_it_is_written(self, cli: Cli, trips: Path, tmp_path: Path) -> None:
        """Codec, format of log blocks, and entries for the commit; of upsert, delete, compact."""
        root = tmp_path / "logged"
        cli("create", root, "--like", trips, *CREATE, "--merge-on-read")
        how = ["--codec", "snappy", "--log-format", "parquet", "--commit-metadata", "job=a=b"]
        assert cli("upsert", root, trips, *how).code == 0
        assert codecs(root) == {"SNAPPY"}
        assert cli("upsert", root, trips, *how).code == 0
        logs = [path.read_bytes() for path in root.glob("*/.*.log.*")]
        assert [data.count(b"PAR1") for data in logs] == [2] * len(logs)
        assert cli("delete", root, "t1", "--commit-metadata", "job=c").code == 0
        found = bf.open(root)
        instants = found.timeline.instants
        records = [load_commit_metadata(found.store, found.config, i) for i in instants]
        assert [record.extra_metadata["job"] for record in records] == ["a=b", "a=b", "c"]
        assert cli("compact", root, "--codec", "gzip").code == 0
        assert codecs(root) == {"SNAPPY", "GZIP"}
        assert [row["id"] for row in read(root)] == ["t2", "t3"]
        fails(cli("upsert", root, trips, "--commit-metadata", "job"), 64, "give KEY=VALUE")
        fails(cli("upsert", root, trips, "--commit-metadata", "=c"), 64, "give KEY=VALUE")
        fails(cli("upsert", root, trips, "--codec", "lz4"), 64, "lz4")

    def test_dry_run(self, cli: Cli, table: Path, tmp_path: Path) -> None:
        path = tmp_path / "rows.csv"
        path.write_text("id,city,ts,fare,note\nt1,sf,2,1,x\nt2,ny,2,1,x\nt8,la,2,1,x\n")
        before = sorted(table.rglob("*"))
        run = cli("upsert", table, path, "--dry-run", "--evolve", "--output", "json")
        assert (run.code, run.err) == (0, "")
        assert run.json == {
            "rows_to_write": 3,
            "partitions": 3,
            "file_groups": 3,
            "of_these_new": 1,
            "file_groups_replaced": 0,
            "columns": "note: added, string",
        }
        shown = cli("upsert", table, path, "--dry-run", "--evolve").out
        assert "nothing was written (--dry-run)" in shown
        assert sorted(table.rglob("*")) == before

    def test_the_metadata_table(self, cli: Cli, table: Path, trips: Path) -> None:
        assert cli("index", "init", table, "files").code == 0
        assert cli("upsert", table, trips).code == 0
        assert bf.open(table).config.metadata_partitions == ("files",)
        assert cli("check", table, "--depth", "full").code == 0
        assert cli("upsert", table, trips, "--drop-metadata-table").code == 0
        assert bf.open(table).config.metadata_partitions == ()

    def test_non_blocking(self, cli: Cli, table: Path, trips: Path, tmp_path: Path) -> None:
        option = ["--concurrency", "non_blocking"]
        fails(cli("upsert", table, trips, *option), 64, "takes a merge-on-read table")
        root = tmp_path / "logged"
        cli("create", root, "--like", trips, *CREATE, "--merge-on-read")
        run = cli("upsert", root, trips, *option, "--output", "json")
        assert all("-0000-0000-0000-000000000000-0_" in path for path in run.json["files"])

    @pytest.mark.parametrize(
        ("name", "text", "code", "message"),
        [
            ("rows.txt", "id\n", 64, "the format is unknown; give --format"),
            ("rows.parquet", "no parquet", 64, "rows.parquet: "),
            ("rows.arrow", "no arrow", 64, "rows.arrow: "),
            ("rows.csv", "", 64, "rows.csv: "),
            ("rows.jsonl", "{", 64, "rows.jsonl: "),
            ("rows.csv", "id,city,ts,fare\nt1,sf,one,1\n", 64, "rows.csv: "),
            ("rows.csv", "id,city\nt1,sf\n", 2, "lack the columns ts, fare"),
            ("rows.csv", "id,city,ts,fare\n,sf,1,1\n", 2, "record key"),
            ("rows.csv", "id,city,ts,fare\nt1,../../etc,1,1\n", 2, "etc"),
            ("rows.csv", "id,id,city,ts,fare\nt1,t1,sf,1,1\n", 2, "named twice"),
        ],
    )
    def test_rows_that_are_none(
        self, cli: Cli, table: Path, tmp_path: Path, name: str, text: str, code: int, message: str
    ) -> None:
        path = tmp_path / name
        path.write_text(text)
        before = sorted(tmp_path.rglob("*"))
        fails(cli("upsert", table, path), code, message)
        assert sorted(tmp_path.rglob("*")) == before
        assert read(table) == TRIPS.to_pylist()

    def test_a_file_that_is_not_there(self, cli: Cli, table: Path, tmp_path: Path) -> None:
        fails(cli("upsert", table, tmp_path / "no.csv"), 2, "no.csv: no such file")


class TestDelete:
    @pytest.mark.parametrize(
        ("arguments", "left"),
        [
            (["t1", "t2"], ["t3"]),
            (["nobody"], ["t1", "t2", "t3"]),
            (["-f", "fare >= 5"], ["t2", "t3"]),
            (["-f", "city = sf", "-f", "fare < 5"], ["t1", "t2"]),
            (["--keys-from", "{keys}"], ["t1"]),
            (["--partition", "sf"], ["t2"]),
        ],
    )
    @pytest.mark.parametrize("dry_run", [True, False])
    def test_by_whatever(
        self,
        cli: Cli,
        table: Path,
        tmp_path: Path,
        arguments: list[str],
        left: list[str],
        dry_run: bool,
    ) -> None:
        (tmp_path / "keys").write_text("t2\nt3\n")
        given = [argument.format(keys=tmp_path / "keys") for argument in arguments]
        options = ["--dry-run"] if dry_run else []
        run = cli("delete", table, *given, *options, "--output", "json")
        assert (run.code, run.err) == (0, "")
        assert [row["id"] for row in read(table)] == (["t1", "t2", "t3"] if dry_run else left)
        gone = 3 - len(left)
        assert commits(table) == (2 if gone and not dry_run else 1)
        if "--partition" in given:
            groups = bf.open(table).inspect.file_groups()["partition_path"].to_pylist()
            key = "file_groups_to_hide" if dry_run else "file_groups_replaced"
            assert run.json[key] == (groups.count("sf") if dry_run else run.json[key] or 1)
        else:
            assert run.json["rows_to_delete" if dry_run else "rows_deleted"] == gone

    def test_a_dry_run_is_refused_as_the_delete(
        self, cli: Cli, trips: Path, tmp_path: Path
    ) -> None:
        schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
        for name, index, given, code, told in (
            ("ring", bf.ConsistentHashingIndex(2), ["--partition", "sf"], 3, "where rings state"),
            (
                "plain",
                bf.SimpleBucketIndex(2),
                ["--partition", "sf", "--concurrency", "non_blocking"],
                3,
                "next to non-blocking writers",
            ),
            (
                "meta",
                bf.SimpleBucketIndex(2),
                ["t1", "--commit-metadata", "schema=x"],
                64,
                "the entry 'schema'",
            ),
        ):
            table = bf.create(
                tmp_path / name,
                schema=schema,
                record_key="id",
                partition_by="city",
                ordering="ts",
                index=index,
                table_type="MERGE_ON_READ",
            )
            table.upsert([{"id": "t1", "city": "sf", "ts": 1}])
            for options in ([], ["--dry-run"]):
                fails(cli("delete", tmp_path / name, *given, *options), code, told)

    def test_what_it_says(self, cli: Cli, table: Path) -> None:
        assert "rows to delete  1" in cli("delete", table, "t1", "--dry-run").out
        assert "1 deleted" in cli("delete", table, "t1").out
        assert "replacecommit" in cli("delete", table, "--partition", "ny").out

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["t1", "-f", "ts = 1"],
            ["t1", "--partition", "sf"],
            ["-f", "ts = 1", "--partition", "sf"],
            ["-f", "nope = 1"],
            ["--partition", "nowhere"],
            ["--partition", "nowhere", "--dry-run"],
            ["--keys-from", "no-such-file"],
        ],
        ids=" ".join,
    )
    def test_wrong_usage(self, cli: Cli, table: Path, arguments: list[str]) -> None:
        fails(cli("delete", table, *arguments), 64, "")
        assert commits(table) == 1
