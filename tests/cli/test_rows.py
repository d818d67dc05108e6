"""read, changes, locate, lookup."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.cli.__main__ import main
from bucketfmt.cli.commands import rows as rows_module
from bucketfmt.cli.commands.rows import _show_first as show_first
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.rows.columns.virtual_keys import record_keys
from tests.cli.conftest import Cli, on_terminal
from tests.same_rows import canonical

Golden = Callable[[str, str], Path]


@pytest.fixture
def mor(golden: Golden) -> Path:
    return golden("0.15.0", "mor")


class TestRead:
    def test_rows_are_not_written_to_a_url(self, mor: Path, cli: Cli) -> None:
        for command in ("read", "report"):
            run = cli(command, mor, "-o", "s3://bucket/rows.parquet")
            assert run.code == 64
            assert "rows.parquet is a URL: rows and reports are read from" in run.err
        run = cli("upsert", mor, "s3://bucket/rows.parquet")
        assert (run.code, "copy the file" in run.err) == (64, True)

    def test_text(self, mor: Path, cli: Cli) -> None:
        run = cli("read", mor, "-c", "id,qty", "-f", "id = key-000125", "-f", "region = ap")
        assert (run.code, run.err) == (0, "")
        assert [line.split() for line in run.out.splitlines()] == [
            ["id", "qty"],
            ["key-000125", "6"],
        ]

    def test_columns_of_several_options(self, mor: Path, cli: Cli) -> None:
        run = cli("read", mor, "-c", "id", "-c", "qty, ts", "-f", "id = key-000125", "-n", 1)
        assert run.out.splitlines()[0].split() == ["id", "qty", "ts"]
        run = cli("read", mor, "-c", "id", "-c", "qty,id")
        assert (run.code, "id named twice" in run.err) == (64, True)

    def test_keys_of_some_partitions(self, mor: Path, cli: Cli) -> None:
        where = ("-c", "id,region", "--output", "json")
        row = {"id": "key-000125", "region": "ap"}
        for paths in (["ap"], ["ap", "eu"], ["eu", "ap", "ap"]):
            given = [text for path in paths for text in ("--partition", path)]
            run = cli("lookup", mor, "key-000125", *given, *where)
            assert (run.code, run.err) == (0, "")
            assert [json.loads(line) for line in run.out.splitlines()] == [row]
        for path in ("eu", "nowhere"):
            run = cli("lookup", mor, "key-000125", "--partition", path, *where)
            assert (run.code, run.out) == (0, "")
            assert run.err.startswith("0 of 1 keys found: 'key-000125'")

    def test_a_terminal_obeys_no_value(self, tmp_path: Path, cli: Cli) -> None:
        rows = pa.table({"id": ["\x1b[31mred\x9b1m\u202egnp\n", "plain é 日本 👩‍👩‍👧"]})
        index = bf.SimpleBucketIndex(1)
        bf.create(tmp_path / "t", schema=rows, record_key="id", index=index).upsert(rows)
        run = cli("read", tmp_path / "t")
        assert sorted(line.strip() for line in run.out.splitlines()[1:]) == [
            "\\x1b[31mred\\x9b1m\\u202egnp\\n",
            "plain é 日本 👩‍👩‍👧",
        ]

    def test_text_is_whole_but_on_a_terminal(self, mor: Path, cli: Cli) -> None:
        run = cli("read", mor)
        assert (run.code, run.err) == (0, "")
        assert sorted(line.split()[0] for line in run.out.splitlines()[1:]) == sorted(
            bf.open(mor).scan(["id"]).to_arrow()["id"].to_pylist()
        )
        assert len(cli("read", mor, "-n", 300).out.splitlines()) == 1 + 300

    @pytest.mark.rotated(0, among="processes of commands", one_of=3)
    def test_text_on_a_terminal(self, mor: Path) -> None:
        shown = on_terminal("read", mor)
        assert (shown.code, len(shown.out.splitlines())) == (0, 1 + 100)
        assert shown.err == "100 of 310 rows; --limit N or -o FILE for more\n"
        every = on_terminal("read", mor, "-n", 1000)
        assert (every.code, every.err, len(every.out.splitlines())) == (0, "", 1 + 310)

    def test_text_on_a_terminal_of_what_is_dear_to_count(
        self, mor: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rows_module, "_COUNTED_BYTES_MAX", 1_000)
        show_first(bf.open(mor).scan())
        captured = capsys.readouterr()
        assert len(captured.out.splitlines()) == 1 + 100
        assert captured.err == (
            "the first 100 rows, and more follow; --limit N or -o FILE for more\n"
        )

    @pytest.mark.parametrize("form", ["text", "json", "csv"])
    def test_damage_that_is_met_late_ends_with_the_error(
        self, golden_copy: Golden, cli: Cli, form: str
    ) -> None:
        root = golden_copy("0.15.0", "mor")
        last = max((root / "us").glob("*.parquet"))
        last.write_bytes(last.read_bytes()[:-30])
        run = cli("read", root, "--output", form)
        assert run.code == 2
        assert last.name in run.err
        assert run.err.count("\n") == 1
        written = len(run.out.splitlines()) - (form != "json")
        assert 0 < written < 310
        assert f"; the output is incomplete: it ends after {written} rows\n" in run.err
        if form == "text":
            shown = on_terminal("read", root)
            assert (shown.code, shown.out) == (2, "")
            assert "incomplete" not in shown.err

    def test_text_of_any_width_is_whole_off_a_terminal(self, tmp_path: Path, cli: Cli) -> None:
        rows = pa.table({"id": ["a", "b"], "note": ["x" * 9_000, "short"], "n": [1, 22]})
        table = bf.create(
            tmp_path / "wide", schema=rows.schema, record_key=["id"], index=bf.SimpleBucketIndex(1)
        )
        table.insert(rows)
        lines = cli("read", tmp_path / "wide").out.splitlines()
        assert [line.split() for line in lines] == [
            ["id", "note", "n"],
            ["a", "x" * 9_000, "1"],
            ["b", "short", "22"],
        ]
        assert {len(line) for line in lines} == {2 + 2 + 9_000 + 2 + 2}

    def test_json_lines(self, mor: Path, cli: Cli) -> None:
        rows = cli("read", mor, "--output", "json").rows
        assert sorted(map(repr, rows)) == sorted(
            map(repr, bf.open(mor).scan().to_arrow().to_pylist())
        )

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ("qty >= 5", [("qty", ">=", 5)]),
            ("qty=5", [("qty", "=", 5)]),
            ("qty != 5", [("qty", "!=", 5)]),
            ("qty in [1, 2]", [("qty", "in", [1, 2])]),
            ('region not in ["eu", "us"]', [("region", "not in", ["eu", "us"])]),
            ("price < 129.5", [("price", "<", 129.5)]),
            ("name = n86", [("name", "=", "n86")]),
        ],
    )
    def test_filters(self, mor: Path, cli: Cli, condition: str, expected: object) -> None:
        rows = cli("read", mor, "-f", condition, "--output", "json").rows
        assert rows
        assert len(rows) == bf.open(mor).scan(filter=expected).count()

    def test_as_of_meta_and_read_optimized(self, mor: Path, cli: Cli) -> None:
        first = bf.open(mor).timeline.writes.completed.instants[0].requested_time
        for option in (("--as-of", first), ("--read-optimized",)):
            rows = cli("read", mor, "--meta", *option, "--output", "json").rows
            assert {row["_hoodie_commit_time"] for row in rows} == {first}

    @pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
    def test_changes_between_two_moments(
        self, golden: Golden, cli: Cli, tmp_path: Path, version: str
    ) -> None:
        root, file = golden(version, "mor"), tmp_path / "rows.arrow"
        table = bf.open(root)
        writes = table.timeline.writes.completed.instants
        times = [w.requested_time if version == "0.15.0" else w.completion_time for w in writes]
        counts = []
        for since, until in ((None, times[0]), (times[0], times[1]), (times[0], None)):
            given = (("--since", since), ("--until", until))
            options = [word for name, time in given if time for word in (name, time)]
            assert cli("changes", root, *options, "-o", file, "--meta").code == 0
            with pa.ipc.open_file(file) as stream:
                found = stream.read_all()
            expected = table.changes(since, until, meta_columns=True).to_arrow()
            assert canonical(found) == canonical(expected)
            counts.append(found.num_rows)
        assert all(counts)
        last = cli("changes", root, "--since", times[-1], "-c", "id", "--output", "json")
        assert (last.code, last.out) == (0, "")

    def test_csv_on_standard_output(self, mor: Path, cli: Cli) -> None:
        lines = cli("read", mor, "-n", "2", "--output", "csv").out.splitlines()
        assert lines[0] == '"id","name","price","qty","ts","region"'
        assert len(lines) == 3

    @pytest.mark.parametrize("said", [True, False])
    def test_parquet(self, golden: Golden, cli: Cli, tmp_path: Path, said: bool) -> None:
        root, file = golden("1.2.0", "nested_mor"), tmp_path / "rows.parquet"
        run = cli("read", root, "-o", file, *(["--output", "parquet"] if said else []))
        assert (run.code, run.out, run.err) == (0, "", "")
        assert canonical(pq.read_table(file)) == canonical(bf.open(root).scan().to_arrow())

    def test_arrow(self, golden: Golden, cli: Cli, tmp_path: Path) -> None:
        root, file = golden("1.2.0", "nested_mor"), tmp_path / "rows.arrow"
        rows = canonical(bf.open(root).scan().to_arrow())
        assert cli("read", root, "-o", file).code == 0
        with pa.ipc.open_file(file) as opened:
            assert canonical(opened.read_all()) == rows

    def test_arrow_on_standard_output(
        self,
        mor: Path,
        capsysbinary: pytest.CaptureFixture[bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(sys, "argv", ["bucketfmt", "read", str(mor), "--output", "arrow"])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 0
        piped = pa.ipc.open_stream(capsysbinary.readouterr().out)
        assert canonical(piped.read_all()) == canonical(bf.open(mor).scan().to_arrow())

    @pytest.mark.parametrize("name", ["nested_mor", "mor", "evolved"])
    def test_csv(self, golden: Golden, cli: Cli, tmp_path: Path, name: str) -> None:
        root, file = golden("1.2.0", name), tmp_path / "rows.csv"
        assert cli("read", root, "-o", file).code == 0
        rows = bf.open(root).scan().to_arrow()
        read = pyarrow.csv.read_csv(file)
        assert read.column_names == rows.column_names
        assert read.num_rows == rows.num_rows
        flat = [f.name for f in rows.schema if pa.types.is_int32(f.type)]
        for column in flat:
            assert sorted(map(repr, read[column].to_pylist())) == (
                sorted(map(repr, rows[column].to_pylist()))
            )

    def test_json_file(self, mor: Path, cli: Cli, tmp_path: Path) -> None:
        cli("read", mor, "-o", tmp_path / "rows.jsonl")
        assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 310

    def test_json_of_what_json_has_no_form_for(self, golden: Golden, cli: Cli) -> None:
        root = golden("1.2.0", "nested_mor")
        texts = cli("read", root, "-c", "id,bin,db,day", "--output", "json")
        assert "NaN," not in texts.out.replace('"NaN",', "")
        rows = {row["id"]: row for row in bf.open(root).scan().to_arrow().to_pylist()}
        for row in texts.rows:
            ours = rows[row["id"]]
            assert row["bin"] == (ours["bin"] and base64.b64encode(ours["bin"]).decode())
            assert row["day"] == (ours["day"] and str(ours["day"]))
            if ours["db"] is not None:
                assert repr(float(row["db"])) == repr(ours["db"])
        assert {"Infinity", "NaN"} & {row["db"] for row in texts.rows}

    def test_a_dash_is_standard_output(self, mor: Path, cli: Cli) -> None:
        assert len(cli("read", mor, "-n", 3, "-o", "-").rows) == 3

    def test_what_could_not_be_finished_is_removed(
        self, golden_copy: Golden, cli: Cli, tmp_path: Path
    ) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        for log_file in (root / "us").glob(".*.log.*"):
            log_file.write_bytes(log_file.read_bytes()[:-1])
        for ending in ("csv", "json", "parquet", "arrow"):
            run = cli("read", root, "-o", tmp_path / f"rows.{ending}")
            assert (run.code, run.out) == (2, "")
            assert not list(tmp_path.glob("*rows*"))
            (tmp_path / f"kept.{ending}").write_text("as before")
            assert cli("read", root, "-o", tmp_path / f"kept.{ending}").code == 2
            assert (tmp_path / f"kept.{ending}").read_text() == "as before"
        assert len(list(tmp_path.glob("*kept*"))) == 4

    def test_a_file_that_is_a_link_is_written_where_it_leads(
        self, mor: Path, cli: Cli, tmp_path: Path
    ) -> None:
        target, link = tmp_path / "target.csv", tmp_path / "link.csv"
        target.write_text("old")
        target.chmod(0o640)
        link.symlink_to(target)
        assert cli("read", mor, "-o", link).code == 0
        assert link.is_symlink()
        assert len(target.read_text().splitlines()) == 311
        assert target.stat().st_mode & 0o777 == 0o640

    def test_a_pipe_is_written_to(self, mor: Path, cli: Cli, tmp_path: Path) -> None:
        pipe = tmp_path / "rows.csv"
        os.mkfifo(pipe)
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(pipe.read_text)
            assert cli("read", mor, "-o", pipe).code == 0
            assert len(read.result().splitlines()) == 311


class TestLocate:
    def test_text(self, mor: Path, cli: Cli) -> None:
        run = cli("locate", mor, "key-000125", "--partition", "eu")
        head, line, *more = run.out.splitlines()
        assert head.split()[:3] == ["record_key", "partition_path", "bucket_id"]
        assert line.split()[:3] == ["key-000125", "eu", "1"]
        assert len(more) == 2  # its other log files

    def test_json(self, mor: Path, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("key-000007\nkey-000125\n")
        rows = cli("locate", mor, "--keys-from", tmp_path / "keys", "--output", "json").rows
        assert rows == bf.open(mor).locate(["key-000007", "key-000125"]).to_pylist()

    def test_keys_of_a_file_are_its_lines(self, mor: Path, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "keys").write_bytes("a\u2028b\r\n\u0085c \n d".encode())
        rows = cli("locate", mor, "--keys-from", tmp_path / "keys", "--output", "json").rows
        found = dict.fromkeys(row["record_key"] for row in rows)
        assert [*found] == ["a\u2028b", "\u0085c ", " d"]

    def test_an_index_given(self, mor: Path, cli: Cli) -> None:
        run = cli("locate", mor, "key-000125", "--index", "simple:2")
        assert (run.code, run.out) == (64, "")
        assert "contradicts" in run.err

    def test_no_index(self, golden: Golden, cli: Cli) -> None:
        run = cli("locate", golden("1.2.0", "bloom"), "key-000001")
        assert (run.code, run.out) == (2, "")
        assert run.err.startswith("bucketfmt: ")
        assert run.err.count("\n") == 1


class TestLookup:
    def test_rows(self, mor: Path, cli: Cli) -> None:
        rows = cli("lookup", mor, "key-000125", "no such key", "-c", "id,qty", "--output", "json")
        assert rows.rows == bf.open(mor).lookup(["key-000125"], ["id", "qty"]).to_pylist()

    def test_none(self, mor: Path, cli: Cli) -> None:
        run = cli("lookup", mor, "no such key")
        assert run.code == 0
        assert run.out.split() == ["id", "name", "price", "qty", "ts", "region"]
        told = "0 of 1 keys found: 'no such key'; keys of this table look like `key-"
        assert run.err.startswith(told)

    @pytest.mark.parametrize(
        ("name", "keys"),
        [
            ("mor", ["key-000125"]),
            ("virtual", ["key-000001"]),
            ("virtual_complex", ["id:key-000001,qty:1"]),
            ("complexkey", None),
        ],
    )
    def test_keys_that_are_not_there_are_told(
        self, golden: Golden, cli: Cli, name: str, keys: list[str] | None
    ) -> None:
        root = golden("0.15.0", name)
        if keys is None or name.startswith("virtual"):
            some = bf.open(root).scan().to_arrow().slice(0, 3)
            config = bf.open(root).config
            keys = record_keys(some, config, KeyEncoding.NAMED).to_pylist()
            keys = [k.removeprefix("id:") if name == "virtual" else k for k in keys]
        asked = [*keys, "a", "b", "c", "d", "a"]
        run = cli("lookup", root, *asked, "--output", "json")
        assert run.code == 0
        assert len(run.rows) >= len(keys)
        assert run.err == (f"4 of {len(keys) + 4} keys were not found: 'a', 'b', 'c', ...\n")
        assert cli("lookup", root, *keys).err == ""

    def test_to_a_file(self, mor: Path, cli: Cli, tmp_path: Path) -> None:
        cli("lookup", mor, "key-000125", "-o", tmp_path / "rows.parquet")
        assert canonical(pq.read_table(tmp_path / "rows.parquet")) == (
            canonical(bf.open(mor).lookup(["key-000125"]))
        )
