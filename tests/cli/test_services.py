"""compact, clean, maintain, archive, rollback and so on, as their users meet them."""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from tests.cli.conftest import Cli, Run
from tests.table.tables import state_properties

Golden = Callable[[str, str], Path]


def rows(ts: int, number: int = 4) -> pa.Table:
    return pa.table({"id": [f"k{i}" for i in range(number)], "ts": [ts] * number})


def make(folder: Path, table_type: str = "MERGE_ON_READ", writes: int = 3) -> bf.Table:
    table = bf.create(
        folder,
        schema=rows(0).schema,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type=table_type,  # type: ignore[arg-type]
    )
    for ts in range(1, writes + 1):
        table.upsert(rows(ts))
    return table


@pytest.fixture
def table(tmp_path: Path) -> bf.Table:
    """A merge-on-read table of two buckets, written three times."""
    return make(tmp_path / "t")


def newest_ts(table: bf.Table) -> int:
    opened = bf.open(table.uri)
    assert opened.check(depth="full").status == "clean"
    (ts,) = set(opened.scan().to_arrow()["ts"].to_pylist())
    return int(ts)


def files(table: bf.Table) -> list[str]:
    root = Path(table.uri)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def fails(run: Run, code: int, message: str) -> None:
    assert (run.code, run.out) == (code, "")
    assert run.err.startswith("bucketfmt: ")
    assert run.err.count("\n") == 1
    assert message in run.err


def succeeds(run: Run) -> Run:
    assert (run.code, run.err) == (0, "")
    return run


class TestCompact:
    def test_what_it_does(self, cli: Cli, table: bf.Table) -> None:
        run = succeeds(cli("compact", table.uri, "--output", "json"))
        assert (run.json["operation"], run.json["action"]) == ("COMPACT", "commit")
        assert sorted(run.json["files"]) == bf.open(table.uri).inspect.files()["path"].to_pylist()
        assert newest_ts(table) == 3
        assert succeeds(cli("compact", table.uri, "--output", "json")).json is None
        assert succeeds(cli("compact", table.uri)).out == "nothing to compact\n"
        table.upsert(rows(4))
        assert "operation  COMPACT" in succeeds(cli("compact", table.uri)).out

    def test_dry_run(self, cli: Cli, table: bf.Table) -> None:
        before = files(table)
        run = succeeds(cli("compact", table.uri, "--dry-run", "--output", "json"))
        logs = [row for row in table.inspect.files().to_pylist() if row["kind"] == "log"]
        assert run.json == {
            "pending": None,
            "file_groups": 2,
            "log_files": 4,
            "log_bytes": sum(row["size"] for row in logs),
        }
        run = succeeds(cli("compact", table.uri, "--dry-run", "--min-log-files", "3"))
        assert run.out.split()[:5] == ["pending", "compaction", "-", "file", "groups"]
        assert run.out.split()[5:10] == ["0", "log", "files", "0,", "0"]
        assert "nothing was done (--dry-run)" in run.out
        assert files(table) == before

    def test_few_log_files_are_left(self, cli: Cli, table: bf.Table) -> None:
        run = cli("compact", table.uri, "--min-log-files", "3", "--output", "json")
        assert succeeds(run).json is None

    def test_a_table_without_logs(self, cli: Cli, tmp_path: Path) -> None:
        made = make(tmp_path / "cow", "COPY_ON_WRITE", writes=1)
        assert succeeds(cli("compact", made.uri, "--output", "json")).json is None


class TestMigrate:
    def test_what_it_does(self, cli: Cli, tmp_path: Path) -> None:
        table = bf.create(
            tmp_path / "t", schema=rows(0).schema, record_key=["id"], index=bf.RecordIndex()
        )
        table.upsert(rows(1))
        before = table.scan().to_arrow().sort_by("id")
        command = ("migrate", table.uri, "--buckets", "3")
        found = succeeds(cli(*command, "--dry-run", "--output", "json")).json
        assert (found["partitions"], found["commits"], found["file_groups"]) == (1, 1, 1)
        assert found["index"] == "simple:3", "as --index takes it"
        shown = succeeds(cli(*command, "--dry-run")).out
        assert "unique in their partition" in shown
        assert "\\n" not in shown, "a note is on lines of its own"
        done = succeeds(cli(*command, "--output", "json")).json
        assert (done["partitions"], done["rows"], len(done["instants"])) == (1, 4, 1)
        assert done["index"] == "simple:3"
        again = bf.open(table.uri)
        assert again.index == bf.SimpleBucketIndex(3, ("id",))
        assert again.scan().to_arrow().sort_by("id").equals(before)
        assert "has this index already" in succeeds(cli(*command)).out

    def test_what_it_refuses(self, cli: Cli, table: bf.Table) -> None:
        fails(cli("migrate", table.uri), 64, "give --buckets N")
        fails(cli("migrate", table.uri, "--rule", "a,1"), 64, "give --buckets N")
        fails(cli("migrate", table.uri, "--ring", "2", "--buckets", "2"), 64, "neither --buckets")
        fails(
            cli("migrate", table.uri, "--buckets", "2", "--rule", "x"), 64, "is not 'regex,number'"
        )
        fails(cli("migrate", table.uri, "--buckets", "8"), 3, "already: `bucketfmt rehash`")
        fails(cli("migrate", table.uri, "--keys", "named"), 64, "there is one encoding")


class TestRehash:
    def test_what_it_does(self, cli: Cli, table: bf.Table, tmp_path: Path) -> None:
        before = table.scan().to_arrow().sort_by("id")
        found = succeeds(cli("rehash", table.uri, "3", "--dry-run", "--output", "json")).json
        assert (found["before"], found["after"]) == (table.index.num_buckets, 3)
        assert found["duration"]["seconds"] > 0
        shown = succeeds(cli("rehash", table.uri, "3", "--dry-run")).out
        assert "-> 3" in shown
        assert "about 1 s (16 MiB/s, as a benchmark has it" in shown
        shutil.copytree(table.uri, tmp_path / "copy")
        shown = succeeds(cli("rehash", tmp_path / "copy", "3")).out
        assert re.search(rf"^rows +{before.num_rows} rewritten$", shown, re.MULTILINE)
        run = succeeds(cli("rehash", table.uri, "3", "--output", "json"))
        assert run.json["action"] == "replacecommit"
        assert run.json["file_groups_replaced"] == found["file_groups"]
        again = bf.open(table.uri)
        assert again.index.num_buckets == 3
        assert again.scan().to_arrow().sort_by("id").equals(before)
        assert "3 buckets already" in succeeds(cli("rehash", table.uri, "3")).out
        assert succeeds(cli("rehash", table.uri, "3", "--output", "json")).json is None

    def test_what_it_refuses(self, cli: Cli, table: bf.Table) -> None:
        assert cli("rehash", table.uri, "0").code == 64
        assert cli("rehash", table.uri, "100000000").code == 64
        assert cli("rehash", table.uri).code == 64


class TestRescale:
    RULES = ("--rule", "us,3", "--rule", "eu,1")

    def test_what_it_does(self, cli: Cli, table: bf.Table) -> None:
        before = table.scan().to_arrow().sort_by("id")
        preview = cli("rescale", table.uri, *self.RULES, "--dry-run", "--output", "json")
        found = succeeds(preview).json
        assert (found["rules"], found["default"]) == ("us,3;eu,1", table.index.num_buckets)
        shown = succeeds(cli("rescale", table.uri, *self.RULES, "--dry-run")).out
        for each in found["partitions"]:
            assert each["partition_path"] in shown
        assert "nothing was done" in shown
        run = succeeds(cli("rescale", table.uri, *self.RULES, "--output", "json"))
        assert run.json["file_groups_replaced"] == found["file_groups"]
        again = bf.open(table.uri)
        assert again.index == bf.PartitionBucketIndex(found["default"], "us,3;eu,1", ("id",))
        assert again.scan().to_arrow().sort_by("id").equals(before)
        assert "these rules already" in succeeds(cli("rescale", table.uri, *self.RULES)).out
        succeeds(cli("rescale", table.uri, "--rule", "ap,2", "--default", "5", "--add"))
        rules = "ap,2;us,3;eu,1"
        assert bf.open(table.uri).index == bf.PartitionBucketIndex(5, rules, ("id",))

    def test_what_it_refuses(self, cli: Cli, table: bf.Table) -> None:
        assert cli("rescale", table.uri).code == 64
        assert cli("rescale", table.uri, "--rule", "us").code == 64
        assert cli("rescale", table.uri, "--rule", "us,0").code == 64
        assert cli("rescale", table.uri, "--rule", "us,2", "--default", "0").code == 64


class TestClean:
    @pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
    def test_what_it_does(self, cli: Cli, tmp_path: Path, policy: str) -> None:
        made = make(tmp_path / "cow", "COPY_ON_WRITE", writes=4)
        before = files(made)
        arguments = ["clean", made.uri, "--policy", policy, "--retain", "1", "--output", "json"]
        planned = succeeds(cli(*arguments, "--dry-run")).json
        assert files(made) == before
        done = succeeds(cli(*arguments)).json
        gone = [path for path in before if path not in files(made)]
        assert sorted(planned["files"]) == sorted(done["files"]) == gone
        assert len(gone) == (4 if policy == "KEEP_LATEST_COMMITS" else 6)
        assert done["bytes"] == planned["bytes"] > 0
        assert (planned["instants"], len(done["instants"])) == ([], 1)
        assert newest_ts(made) == 4

    def test_what_it_says(self, cli: Cli, table: bf.Table) -> None:
        run = succeeds(cli("clean", table.uri, "--dry-run"))
        assert "files                      0, 0 B" in run.out
        assert "nothing was done (--dry-run)" in run.out
        fails(cli("clean", table.uri, "--retain", "0"), 64, "--retain")
        fails(cli("clean", table.uri, "--policy", "ALL"), 64, "--policy")


class TestMaintain:
    DUE = ("--compact-after", "3", "--retain", "1", "--clean-after", "1", "--min-commits", "1")

    def test_what_it_does(self, cli: Cli, tmp_path: Path) -> None:
        table = make(tmp_path / "t", writes=0)
        served = bf.open(table.uri, writer=bf.WriterConfig(services=None))
        for ts in range(1, 4):
            served.upsert(rows(ts))
        served.compact()
        for ts in range(4, 7):
            served.upsert(rows(ts))
        times = [instant.requested_time for instant in served.timeline.instants]
        arguments = ["maintain", table.uri, *self.DUE, "--max-commits", "2"]
        before = files(table)
        planned = succeeds(cli(*arguments, "--dry-run", "--output", "json")).json
        assert planned["compaction"]["file_groups"] == 2
        assert planned["archived"] == times[: len(planned["archived"])]
        assert len(planned["archived"]) >= 2
        shown = succeeds(cli(*arguments, "--dry-run")).out
        assert "file groups to compact  2\n" in shown
        assert f"instants to archive     {len(planned['archived'])}\n" in shown
        assert "nothing was done (--dry-run)" in shown
        assert files(table) == before

        done = succeeds(cli(*arguments, "--output", "json")).json
        assert done["compaction"]["operation"] == "COMPACT"
        gone = [path for path in before if path not in files(table)]
        assert set(done["clean"]["files"]) == {path for path in gone if ".hoodie" not in path}
        assert done["clean"]["files"]
        assert done["archived"][: len(planned["archived"])] == planned["archived"]
        left = {instant.requested_time for instant in table.timeline.instants}
        assert left.isdisjoint(done["archived"])
        assert done["compaction"]["instant"] in left
        assert newest_ts(table) == 6
        assert succeeds(cli(*arguments)).out == "nothing is due\n"

    def test_what_it_says(self, cli: Cli, table: bf.Table) -> None:
        before = files(table)
        assert succeeds(cli("maintain", table.uri)).out == "nothing is due\n"
        nothing = {"compaction": None, "clean": None, "archived": []}
        assert succeeds(cli("maintain", table.uri, "--output", "json")).json == nothing
        fails(cli("maintain", table.uri, "--compact-after", "0"), 64, "--compact-after")
        fails(cli("maintain", table.uri, "--min-commits", "50"), 64, "min_commits")
        assert files(table) == before


class TestArchive:
    def test_what_it_does(self, cli: Cli, table: bf.Table) -> None:
        times = [instant.requested_time for instant in table.timeline.instants]
        arguments = ["archive", table.uri, "--min-commits", "1", "--max-commits", "2"]
        before = files(table)
        planned = succeeds(cli(*arguments, "--dry-run", "--output", "json")).json
        assert planned == {"instants": times[:2]}
        assert "instants to archive  2" in succeeds(cli(*arguments, "--dry-run")).out
        assert files(table) == before
        assert succeeds(cli(*arguments, "--output", "json")).json == planned
        assert [i.requested_time for i in table.timeline.instants] == times[2:]
        assert newest_ts(table) == 3
        assert "instants archived  0" in succeeds(cli(*arguments)).out

    def test_few_are_left(self, cli: Cli, table: bf.Table) -> None:
        assert succeeds(cli("archive", table.uri, "--output", "json")).json == {"instants": []}
        fails(cli("archive", table.uri, "--min-commits", "50"), 64, "min_commits")


class TestRollback:
    def test_what_it_does(self, cli: Cli, table: bf.Table) -> None:
        first, *_, last = (instant.requested_time for instant in table.timeline.instants)
        before = files(table)
        arguments = ["rollback", table.uri, last, "--output", "json"]
        planned = succeeds(cli(*arguments, "--dry-run")).json
        assert files(table) == before
        assert (planned["instant"], planned["rollback_instant"]) == (last, None)
        assert len(planned["files_deleted"]) == 2
        assert newest_ts(table) == 3
        done = succeeds(cli(*arguments)).json
        assert done == {**planned, "rollback_instant": table.timeline.instants[-1].requested_time}
        assert not set(done["files_deleted"]) & set(files(table))
        assert newest_ts(table) == 2
        fails(cli("rollback", table.uri, first), 2, "newest")
        fails(cli("rollback", table.uri, "20200101000000000"), 64, "no ")

    def test_what_it_says(self, cli: Cli, table: bf.Table) -> None:
        last = table.timeline.instants[-1].requested_time
        run = succeeds(cli("rollback", table.uri, last, "--dry-run"))
        assert f"taken back           {last} (deltacommit)" in run.out
        assert "nothing was done (--dry-run)" in run.out
        assert "files deleted        2" in succeeds(cli("rollback", table.uri, last)).out

    def test_the_newest_write_is_the_default(
        self, cli: Cli, table: bf.Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        last = table.timeline.instants[-1].requested_time
        monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
        refused = cli("rollback", table.uri)
        assert (refused.code, newest_ts(table)) == (130, 3)
        assert f"Take back deltacommit {last}, 2 files? [y/N]:" in refused.err
        monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
        assert f"taken back           {last}" in cli("rollback", table.uri).out
        assert newest_ts(table) == 2
        monkeypatch.undo()  # no terminal to ask
        before = table.timeline.writes.instants[-1].requested_time
        assert table.rollback(dry_run=True).instant == before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestSavepointAndRestore:
    def test_what_they_do(self, cli: Cli, table: bf.Table) -> None:
        arguments = ["savepoint", table.uri, "--comments", "for now"]
        before = files(table)
        planned = succeeds(cli(*arguments, "--dry-run", "--output", "json")).json["instant"]
        assert files(table) == before
        saved = succeeds(cli(*arguments, "--output", "json")).json["instant"]
        assert planned == saved == table.timeline.writes.instants[-1].requested_time
        later = [table.upsert(rows(ts)).instant for ts in (4, 5)]
        before = files(table)
        arguments = ["restore", table.uri, saved, "--output", "json"]
        planned = succeeds(cli(*arguments, "--dry-run")).json
        assert planned["savepoint"] == saved
        assert [each["instant"] for each in planned["rollbacks"]] == later[::-1]
        assert files(table) == before
        assert newest_ts(table) == 5
        done = succeeds(cli(*arguments)).json
        assert [each["instant"] for each in done["rollbacks"]] == later[::-1]
        assert newest_ts(table) == 3
        run = succeeds(cli("savepoint", table.uri, saved, "--delete"))
        assert run.out.split() == ["removed", saved]
        assert not table.timeline.of("savepoint").instants

    def test_what_they_say(self, cli: Cli, table: bf.Table) -> None:
        first = table.timeline.instants[0].requested_time
        assert succeeds(cli("savepoint", table.uri, first)).out.split() == ["savepoint", first]
        run = succeeds(cli("restore", table.uri, first, "--dry-run"))
        assert f"restored to  {first}" in run.out
        assert "nothing was done (--dry-run)" in run.out

    def test_what_they_refuse(self, cli: Cli, table: bf.Table) -> None:
        time = table.timeline.instants[0].requested_time
        fails(cli("savepoint", table.uri, "20200101000000000"), 64, "no ")
        fails(cli("savepoint", table.uri, "--delete"), 64, "INSTANT")
        fails(cli("savepoint", table.uri, time, "--delete"), 64, "no savepoint")
        fails(cli("savepoint", table.uri, time, "--delete", "--dry-run"), 64, "no --dry-run")
        fails(cli("restore", table.uri, time), 64, "no savepoint")
        fails(cli("restore", table.uri, time, "--dry-run"), 64, "no savepoint")


EACH = [
    ["upsert", "{rows}"],
    ["upsert", "{rows}", "--dry-run"],
    ["delete", "k1"],
    ["delete", "-f", "ts = 1", "--dry-run"],
    ["compact"],
    ["rehash", "8"],
    ["rescale", "--rule", "us,8"],
    ["clean"],
    ["archive"],
    ["rollback", "1"],
    ["savepoint"],
    ["restore", "1"],
]


@pytest.fixture
def given(tmp_path: Path) -> Path:
    pq.write_table(rows(1), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_no_table(cli: Cli, tmp_path: Path, given: Path, arguments: list[str]) -> None:
    command, *rest = (argument.format(rows=given) for argument in arguments)
    fails(cli(command, tmp_path / "no", *rest), 2, f"no Hudi table at {tmp_path}")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_a_version_that_is_not_written(
    cli: Cli, tmp_path: Path, table: bf.Table, given: Path, arguments: list[str]
) -> None:
    state_properties(Path(table.uri), {"hoodie.table.version": "99"})
    before = files(table)
    command, *rest = (argument.format(rows=given) for argument in arguments)
    fails(cli(command, table.uri, *rest), 3, "not supported: .hoodie/hoodie.properties: ")
    assert files(table) == before


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_wrong_options(cli: Cli, table: bf.Table, given: Path, arguments: list[str]) -> None:
    command, *rest = (argument.format(rows=given) for argument in arguments)
    fails(cli(command, table.uri, *rest, "--no-such-option"), 64, "--no-such-option")
    fails(cli(command, table.uri, *rest, "--lock", "none"), 64, "--lock")
    fails(cli(command, table.uri, *rest, "--output", "xml"), 64, "--output")


def on_a_terminal(command: list[str]) -> tuple[str, str]:
    """Return what a command writes to standard output, a pipe, and to its terminal."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=slave, env=environment
    ) as running:
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # as Linux has it once the other end is closed
                break
            if not data:
                break
            shown += data
        out = running.communicate(timeout=60)[0]
    os.close(master)
    assert running.returncode == 0, shown
    return out.decode(), shown.decode(errors="replace")


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize(
    ("arguments", "stage"),
    [
        (["upsert", "{rows}"], "writing"),
        (["delete", "k1"], "writing"),
        (["compact"], "compacting"),
        (["clean", "--retain", "1", "--policy", "KEEP_LATEST_FILE_VERSIONS"], "deleting"),
        (["archive"], "archiving"),
        (["rollback", "{last}"], "rolling back"),
        (["restore", "{saved}"], "restoring"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_bars_on_a_terminal(table: bf.Table, given: Path, arguments: list[str], stage: str) -> None:
    """A service shows its progress on standard error where that is a terminal."""
    saved = table.savepoint() if stage == "restoring" else ""
    if stage == "deleting":
        table.compact()
    last = table.upsert(rows(9)).instant
    command, *rest = (each.format(rows=given, last=last, saved=saved) for each in arguments)
    line = [sys.executable, "-m", "bucketfmt.cli", command, table.uri, *rest, "--output", "json"]
    out, shown = on_a_terminal(line)
    assert out.startswith("{")
    assert stage in shown
