"""What commands say of arguments and files that they cannot use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from tests.cli.conftest import Cli, Run

Golden = Callable[[str, str], Path]


def fails(run: Run, code: int, message: str) -> None:
    assert (run.code, run.out) == (code, "")
    assert run.err == f"bucketfmt: {message}\n"


@pytest.fixture
def table(cli: Cli, tmp_path: Path) -> Path:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id":"a","qty":1,"name":"x"}\n')
    root = tmp_path / "t"
    assert cli("create", root, "--like", rows, "--key", "id").code == 0
    assert cli("upsert", root, rows).code == 0
    return root


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_no_table_is_created_where_a_file_is(cli: Cli, tmp_path: Path, below: str) -> None:
    file, rows = tmp_path / "file", tmp_path / "rows.jsonl"
    file.write_text("x")
    rows.write_text('{"id":"a"}\n')
    told = f"{file} is a file; give another folder"
    for options in ((), ("--dry-run",)):
        fails(cli("create", file / below, "--like", rows, "--key", "id", *options), 64, told)
    assert file.read_text() == "x"
    with pytest.raises(ValueError, match="is a file; give another folder"):
        bf.create(file / below, schema=[{"id": "a"}], record_key="id")


@pytest.mark.parametrize("command", ["locate", "lookup", "delete"])
def test_keys_that_are_none(cli: Cli, table: Path, tmp_path: Path, command: str) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("")
    told = f"--keys-from {keys}: the file has no keys; give one a line"
    fails(cli(command, table, "--keys-from", keys), 64, told)
    fails(cli(command, table, "a", "--keys-from", keys), 64, told)
    keys.write_text("a\n\nb\n")
    told = f"--keys-from {keys}: line 2 is empty, and Hudi stores no empty key; remove the line"
    fails(cli(command, table, "--keys-from", keys), 64, told)
    told = "a KEY is empty, and Hudi stores no empty key; leave it out"
    fails(cli(command, table, ""), 64, told)
    assert bf.open(table).scan().to_arrow().column("id").to_pylist() == ["a"]


def test_the_place_of_a_wrong_value_in_csv(cli: Cli, table: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('id,name,qty\nb,"two\nlines",7\nc,n,"x, y"\nd,n,x\n')
    wrong = "CSV conversion error to int64: invalid value 'x, y'; correct the value"
    fails(cli("upsert", table, file), 64, f"{file}: line 4, column 3 (qty): {wrong}")
    file.write_bytes(b"\xef\xbb\xbfqty,id\nx y,b\n")
    run = cli("upsert", table, file, "--missing", "null")
    assert run.err.startswith(f"bucketfmt: {file}: line 2, column 1 (qty): CSV conversion error")
    assert run.code == 64


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.jsonl", "none.arrow"])
def test_a_file_of_rows_is_missing(cli: Cli, table: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    fails(cli("upsert", table, file), 2, f"{file}: no such file")
    fails(cli("create", tmp_path / "u", "--like", file, "--key", "id"), 2, f"{file}: no such file")
    fails(cli("dump", file), 2, f"{name}: no such file")


def test_an_unknown_scheme_is_told_with_the_known_ones(cli: Cli) -> None:
    run = cli("read", "foo://x/y")
    assert run.code == 64
    assert run.err.startswith("bucketfmt: foo://x/y: unknown scheme foo://; tables are at local")
    assert "URLs of s3, s3a, gs, gcs, az, abfs, abfss, hdfs, webhdfs, memory, or an" in run.err


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_a_commit_that_was_cut_is_for_check(cli: Cli, golden_copy: Golden, version: str) -> None:
    root = golden_copy(version, "mor")
    commit = max(p for p in root.rglob("*.deltacommit") if p.suffix != ".crc")
    commit.write_bytes(commit.read_bytes()[:300])
    for command in ("describe", "read", "files"):
        run = cli(command, root)
        assert (run.code, run.out) == (2, "")
        assert run.err.startswith(f"bucketfmt: {commit.relative_to(root).as_posix()}")
        assert run.err.endswith("; see `bucketfmt check`\n")
    assert "T001" in cli("check", root).out
