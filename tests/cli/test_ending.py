"""How a run ends: exit codes, one line on standard error, pipes that close, Ctrl-C."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.cli import row_output
from bucketfmt.errors import StorageError
from tests.cli.conftest import COMMAND, Cli, on_terminal
from tests.table.tables import state_properties

Golden = Callable[[str, str], Path]

WRONG_USAGE = [
    [],
    ["no-such-command"],
    ["read"],
    ["read", "{t}", "--no-such-option"],
    ["read", "{t}", "--output", "xml"],
    ["read", "{t}", "-n", "-1"],
    ["read", "{t}", "-f", "qty"],
    ["read", "{t}", "-f", "nope = 1"],
    ["read", "{t}", "-f", "qty = many"],
    ["read", "{t}", "--as-of", "yesterday"],
    ["read", "{t}", "--output", "parquet"],
    ["read", "{t}", "-o", "{t}/../rows.xls"],
    ["read", "{t}", "--storage-option", "anon"],
    ["read", "{t}", "--storage-option", "anon=true"],
    ["read", "nosuchprotocol://x"],
    ["locate", "{t}"],
    ["locate", "{t}", "--keys-from", "{t}/no-such-file"],
    ["lookup", "{t}", "k", "--index", "simple"],
    ["lookup", "{t}", "k", "--index", "simple:0"],
    ["lookup", "{t}", "k", "--index", "simple:1_0"],
    ["lookup", "{t}", "k", "-c", "id,id"],
    ["read", "{t}", "-c", "id,id"],
    ["read", "{t}", "-f", "qty = null"],
    ["hash", "k", "--buckets", "100000000"],
    ["lookup", "{t}", "k", "--index", "simple:many"],
    ["hash", "k", "--buckets", "0"],
    ["check", "{t}", "--depth", "deepest"],
    ["check", "{t}", "--partition", "nowhere"],
]


@pytest.mark.parametrize("arguments", WRONG_USAGE, ids=" ".join)
def test_wrong_usage(golden: Golden, cli: Cli, arguments: list[str]) -> None:
    root = str(golden("1.2.0", "tiny_mor"))
    run = cli(*(argument.format(t=root) for argument in arguments))
    assert run.code == 64
    if arguments:  # without any, the help is printed
        assert run.out == ""
        assert run.err.startswith("bucketfmt: ")
        assert run.err.count("\n") == 1


def test_a_closed_stream(golden: Golden) -> None:
    root = str(golden("1.2.0", "tiny_mor"))
    for redirected, code, message in (
        ("read {t} >&-", 2, "standard output is closed"),
        ("upsert {t} - --format csv <&-", 64, "standard input is closed; give a file"),
    ):
        command = f"{' '.join(COMMAND)} {redirected.format(t=root)}"
        run = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
        assert (run.returncode, run.stderr) == (code, f"bucketfmt: {message}\n")


def test_what_the_caller_wrote_is_shown_as_it_was(golden: Golden, cli: Cli) -> None:
    run = cli("read", golden("1.2.0", "tiny_mor"), "-f", "limit=5")
    assert "--filter 'limit=5': no column 'limit'" in run.err


@pytest.mark.parametrize("arguments", [["--help"], ["read", "-h"], ["check", "--help"]])
def test_help(cli: Cli, arguments: list[str]) -> None:
    run = cli(*arguments)
    assert (run.code, run.err) == (0, "")
    assert "Usage: " in run.out


EACH = [
    ["describe"],
    ["history"],
    ["files"],
    ["buckets"],
    ["read"],
    ["locate", "k"],
    ["lookup", "k"],
    ["check"],
]


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_no_table(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    command, *rest = arguments
    run = cli(command, tmp_path, *rest)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"bucketfmt: no Hudi table at {tmp_path}")
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_a_version_that_is_not_read(golden_copy: Golden, cli: Cli, arguments: list[str]) -> None:
    root = state_properties(golden_copy("1.2.0", "tiny_mor"), {"hoodie.table.version": "99"})
    command, *rest = arguments
    run = cli(command, root, *rest)
    assert (run.code, run.out) == (3, "")
    assert run.err.startswith("bucketfmt: not supported: .hoodie/hoodie.properties: ")
    assert run.err.count("\n") == 1


def test_a_merge_that_is_not_built(golden: Golden, cli: Cli) -> None:
    run = cli("read", golden("1.0.2", "dms_mor"))
    assert (run.code, run.out) == (3, "")
    assert "merges records by custom code" in run.err


def test_damage(golden_copy: Golden, cli: Cli) -> None:
    root = golden_copy("1.2.0", "tiny_mor")
    (base_file,) = (root / "us").glob("*.parquet")
    base_file.write_bytes(b"")
    run = cli("read", root)
    assert (run.code, run.out) == (2, "")
    assert base_file.name in run.err
    assert run.err.count("\n") == 1


def test_a_place_that_cannot_be_written(golden: Golden, cli: Cli, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "no/such/folder/rows.csv"):
        run = cli("read", golden("1.2.0", "tiny_mor"), "--output", "csv", "-o", place)
        assert (run.code, run.out) == (2, "")
        assert run.err.startswith("bucketfmt: ")
        assert run.err.count("\n") == 1


def test_what_a_client_of_a_store_logs_is_a_line(
    golden: Golden, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gcsfs logs a request that failed with its traceback, which Python prints of errors."""

    def fail(*_: object, **__: object) -> None:
        try:
            raise OSError("no route")
        except OSError:
            logging.getLogger("gcsfs").exception("out of retries: no route\nand more")
        raise StorageError("no route; check that the store can be reached, then retry")

    monkeypatch.setattr(logging, "lastResort", logging.lastResort)  # restored at the end
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # of pytest
    monkeypatch.setattr("bucketfmt.open", fail)
    run = cli("describe", golden("1.2.0", "tiny_mor"))
    assert (run.code, run.out) == (2, "")
    assert run.err.splitlines() == [
        "bucketfmt: out of retries: no route",
        "bucketfmt: no route; check that the store can be reached, then retry",
    ]


def test_a_disk_that_is_full_is_told_with_the_file(
    golden: Golden, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(row_output, "_write_to", fail)
    run = cli("read", golden("1.2.0", "mor"), "-o", tmp_path / "rows.csv")
    assert (run.code, run.out) == (2, "")
    assert run.err == f"bucketfmt: {tmp_path / 'rows.csv'}: No space left on device\n"
    assert not [*tmp_path.iterdir()]


def test_an_output_that_is_full_is_not_taken_for_the_table(golden: Golden) -> None:
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, "read", str(golden("1.2.0", "mor"))]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (run.returncode, run.stderr) == (2, b"bucketfmt: the output: No space left on device\n")


def test_words_that_the_encoding_of_the_locale_lacks(golden: Golden) -> None:
    """It was an error about surrogates, or about the keys of the table."""
    command = [*COMMAND, "lookup", str(golden("1.2.0", "mor")), "naïve"]
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = subprocess.run(command, env=ascii_only, capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (64, b"")
    assert b"is read as ascii, which has no such characters; set PYTHONUTF8=1" in run.stderr


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (b"1\n0\n", 0, b""),
        (b"", 64, b"bucketfmt: --keys-from -: the file has no keys; give one a line\n"),
    ],
)
def test_keys_from_standard_input(golden: Golden, given: bytes, code: int, told: bytes) -> None:
    command = [*COMMAND, "locate", str(golden("1.2.0", "mor")), "--keys-from", "-"]
    run = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (code, told)
    assert len(run.stdout.splitlines()) >= given.count(b"\n")


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8:strict", "é\udc80😀"), ("ascii:strict", "\\xe9\\udc80\\U0001f600")],
)
def test_what_the_terminal_cannot_show_is_escaped(
    tmp_path: Path, encoding: str, shown: str
) -> None:
    """Text of a damaged file ended in a message on encodings, and as wrong usage."""
    path = tmp_path / "20260101000000000.deltacommit"
    path.write_bytes(b'{"extraMetadata": {"note": "\xc3\xa9\x80\xf0\x9f\x98\x80"}}')
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [*COMMAND, "dump", str(path)]
    run = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert shown.encode("utf-8", "backslashreplace") in run.stdout


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["read", "{t}", "--output", "json"],
        ["read", "{t}", "--output", "csv"],
        ["read", "{t}", "-n", "100000"],
        ["files", "{t}"],
        ["files", "{t}", "--output", "json"],
        ["describe", "{t}"],
        ["buckets", "{t}"],
        ["check", "{t}"],
        ["hash", "a", "b"],
    ],
    ids=" ".join,
)
def test_a_pipe_that_is_closed_is_no_failure(golden: Golden, arguments: list[str]) -> None:
    """As with `| head -1`, but closed before the first line."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, *(a.format(t=golden("1.2.0", "mor")) for a in arguments)]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
def test_ctrl_c(golden: Golden, tmp_path: Path) -> None:
    """While it waits for somebody to say the keys."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [*COMMAND, "lookup", str(golden("1.2.0", "mor")), "--keys-from", str(pipe)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with pipe.open("wb"):  # once the command has opened it too
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (130, b"", b"bucketfmt: stopped\n")


SIGNALLED = """
import os, signal, sys
from bucketfmt.cli.__main__ import main
from bucketfmt.storage.stores.local_store import LocalStore

after, number, *sys.argv[1:] = sys.argv[1:]
# Below `nohup`, or in the background of a shell, the tests ignore some.
signal.signal(int(number), signal.default_int_handler if int(number) == 2 else signal.SIG_DFL)

def signalled(store, path, data, put=LocalStore.put_if_absent):
    done = put(store, path, data)
    if path.endswith(after):
        os.kill(os.getpid(), int(number))
    return done

LocalStore.put_if_absent = signalled
main()
"""


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("after", [".inflight", ".parquet"])
def test_a_command_that_is_ended_takes_its_write_back(
    tmp_path: Path, number: signal.Signals, after: str
) -> None:
    """SIGTERM left the lock for the length of its lease, and a write that stayed pending."""
    rows = pa.table({"id": ["a"], "v": [1]})
    table = bf.create(str(tmp_path / "t"), schema=rows, record_key="id", table_type="COPY_ON_WRITE")
    table.upsert(rows)
    pq.write_table(pa.table({"id": ["a"], "v": [2]}), tmp_path / "rows.parquet")
    command = [sys.executable, "-c", SIGNALLED, after, str(int(number)), "upsert"]
    run = subprocess.run(
        [*command, str(tmp_path / "t"), str(tmp_path / "rows.parquet")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (128 + number, b"", b"bucketfmt: stopped\n")
    lease = json.loads((tmp_path / "t/.hoodie/.locks/table_lock.json").read_bytes())
    assert lease["expired"]
    assert not [*(tmp_path / "t/.hoodie/.heartbeat").iterdir()]
    assert not table.timeline.pending.instants
    assert table.to_arrow()["v"].to_pylist() == [1]


def test_signals_that_are_ignored_stay_so() -> None:
    """As of a command below `nohup`."""
    code = (
        "import os, signal\nfrom bucketfmt.cli.interrupts import interrupted_by_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with interrupted_by_signals():\n    os.kill(os.getpid(), signal.SIGHUP)\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout == b"True\n"


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
def test_wide_rows_stand_one_below_the_other(golden: Golden) -> None:
    """On a terminal too narrow for the grid; in a file or a pipe a row is a line.

    `COLUMNS` is for pipes too: `test_door.py`.
    """
    arguments = ["files", str(golden("1.2.0", "tiny_mor"))]
    coloured = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": ""}
    piped = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=True, env=coloured
    ).stdout
    assert len(piped.splitlines()) == 1 + 3
    shown = on_terminal(*arguments, columns=80).out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert sum(line.count("partition_path") for line in shown.splitlines()) == 3
