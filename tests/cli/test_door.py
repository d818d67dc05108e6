"""The first minute: no extras, the version, completion, names that are nearly right, and folders
that are no Hudi table.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, datetime
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from bucketfmt.cli.app import COMMANDS
from bucketfmt.cli.render import json_rows, json_text
from tests.cli.conftest import COMMAND, Cli
from tests.golden import unpack

ROOT = Path(__file__).parents[2]

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {names}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
sys.argv = ["bucketfmt", "--version"]
{code}
"""


def run_without(names: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that cannot import some packages."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=names, code=code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_the_command_line_without_its_extra() -> None:
    run = run_without(["typer"], "from bucketfmt.cli.__main__ import main; main()")
    told = "bucketfmt: the command line needs typer: pip install 'bucketfmt[cli]'\n"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", told)


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
def test_python_without_extras() -> None:
    code = """
import io, bucketfmt as bf, pyarrow as pa, tempfile
rows = pa.table({"id": ["a"]})
folder = tempfile.mkdtemp()
t = bf.create(folder, schema=rows.schema, record_key=["id"], index=bf.SimpleBucketIndex(1))
def tell(call):
    try:
        call()
    except (ImportError, bf.StorageError) as error:
        print(error)
def spark():
    import bucketfmt_spark
tell(t.scan().to_pandas)
tell(t.scan().to_polars)
tell(spark)
tell(lambda: bf.open("gs://bucket/table"))
tell(lambda: bf.open("abfs://bucket/table"))
tell(lambda: bf.open("s3://bucket/table"))
tell(lambda: t.report().html)
"""
    missing = ["pandas", "polars", "pyspark", "gcsfs", "adlfs", "s3fs", "jinja2"]
    run = run_without(missing, code)
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "pandas is not installed: pip install 'bucketfmt[pandas]'",
        "polars is not installed: pip install 'bucketfmt[polars]'",
        "bucketfmt_spark needs pyspark: pip install 'bucketfmt[spark]'",
        "gs:// needs a package: pip install 'bucketfmt[gcs]'",
        "abfs:// needs a package: pip install 'bucketfmt[azure]'",
        "s3:// needs a package: pip install 'bucketfmt[s3]'",
        "jinja2 is not installed: pip install 'bucketfmt[report]'",
    ]


def test_a_file_system_whose_libraries_are_missing_is_told_in_one_line(cli: Cli) -> None:
    run = cli("describe", "hdfs://nowhere:1/table")
    assert run.code == 2
    assert run.err.count("\n") == 1
    assert "hdfs:// needs Java and Hadoop's client: set JAVA_HOME" in run.err


def test_the_version(cli: Cli) -> None:
    run = cli("--version")
    assert (run.code, run.out) == (0, "bucketfmt 0.1.0\n")


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("bucketfmt lo", "locate lookup"),
        ("bucketfmt --v", "--version"),
        ("bucketfmt read --out", "--output --out"),
        ("bucketfmt check x --depth f", "full"),
    ],
)
def test_completion(words: str, found: str) -> None:
    run = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "_BUCKETFMT_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
    )
    assert run.stdout.split() == found.split()


NEARLY = [
    (["raed", "{t}"], 64, "No such command 'raed'. Did you mean 'read'?"),
    (["read", "{t}", "--colums", "id"], 64, "no such option --colums; did you mean --columns"),
    (["read", "{t}", "-c", "idd"], 64, "no column 'idd'; did you mean 'id'?"),
    (["read", "{t}", "-f", "Qty > 2"], 64, "no column 'Qty'; did you mean 'qty'?"),
    (["read", "{t}", "-c", "zzz"], 64, "no column 'zzz'; there are id, name, price, qty"),
]


@pytest.mark.parametrize(("arguments", "code", "told"), NEARLY)
def test_did_you_mean(
    cli: Cli, tmp_path_factory: pytest.TempPathFactory, arguments: list[str], code: int, told: str
) -> None:
    root = unpack("1.2.0", "tiny_mor", tmp_path_factory.getbasetemp() / "golden") / "tiny_mor"
    run = cli(*(argument.format(t=root) for argument in arguments))
    assert (run.code, run.out) == (code, "")
    assert told in run.err
    assert run.err.count("\n") == 1


def test_dash_o_is_a_file_in_every_command() -> None:
    for name, (module, _) in COMMANDS.items():
        command = typer.main.get_group(import_module(module).app).commands[name]
        for option in command.params:
            if "-o" in option.opts:
                assert (name, option.name) == (name, "out")


def test_rows_wider_than_columns_are_a_line_for_each_value(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = unpack("1.2.0", "tiny_mor", tmp_path_factory.getbasetemp() / "golden") / "tiny_mor"
    wide = cli("files", root).out.splitlines()
    monkeypatch.setenv("COLUMNS", "100")
    narrow = cli("files", root).out.splitlines()
    assert max(map(len, wide)) > 100
    assert max(map(len, narrow)) <= 100
    assert narrow[0].split() == ["partition_path", wide[1].split()[0]]


def test_json_has_types() -> None:
    rows = pa.table(
        {
            "at": pa.array([datetime(2026, 1, 2, 3, 4, 5, 60)], pa.timestamp("us")),
            "day": [date(2026, 1, 2)],
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "deep": pa.array([[[("b", None)]]], pa.list_(pa.map_(pa.string(), pa.int32()))),
        }
    )
    shown = '{"at": "2026-01-02T03:04:05.000060", "day": "2026-01-02", "m": {"a": 1}, '
    assert json_text(json_rows(rows)[0]) == shown + '"deep": [{"b": null}]}'
    twice = pa.table({"m": pa.array([[("a", 1), ("a", 2)]], rows.schema.field("m").type)})
    assert json_rows(twice) == [{"m": [("a", 1), ("a", 2)]}]
    numbers = pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))})
    assert json_rows(numbers) == [{"m": [(1, 2)]}]
