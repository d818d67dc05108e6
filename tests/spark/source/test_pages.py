"""The pages about Spark: their snippets run as they stand, one after the other, in one session."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark import jobs
from tests.resize.test_migrate import filled
from tests.spark.tables import make_table

ROOT = Path(__file__).parents[3]
PAGES = ("spark-jobs.md", "spark.md")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NOT_RUN = ("JOB=", "python -m build", "python -m venv", "docker ")
"""Commands that need a network, a cluster or a container engine."""


class Block(NamedTuple):
    place: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = (ROOT / "docs/how-to" / page).read_text()
        for found in _BLOCK.finditer(text):
            line = text[: found.start()].count("\n") + 1
            yield Block(f"{page}:{line}", found[1], found[2])


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a console."""
    for line in text.replace("\\\n", " ").splitlines():
        assert line.startswith("$ "), line
        yield shlex.split(line[2:])


def job_of(words: list[str]) -> list[str] | None:
    """Return the arguments of a job; None for another command."""
    if words[:3] == ["python", "-m", "bucketfmt_spark"]:
        return words[3:]
    for program in ("$JOB", "local:///opt/bucketfmt/job.py"):
        if program in words:
            return words[words.index(program) + 1 :]
    return None


def make_the_lake(spark: SparkSession, folder: Path) -> None:
    """Make what the pages take as given: some tables, and files that arrived."""
    ids = [f"t{n}" for n in range(20)]
    rows = pa.table({"id": ids, "name": [f"rider {n}" for n in range(20)]})
    make_table(folder / "lake/riders", rows, bf.SimpleBucketIndex(4))
    visits = pa.table(
        {
            "user": [f"u{n % 4}" for n in range(20)],
            "at": pa.array(range(20), pa.int64()),
            "amount": [n / 4 for n in range(20)],
        }
    )
    index = bf.SimpleBucketIndex(4, ("user",))
    make_table(folder / "lake/visits", visits, index, record_key=["user", "at"])
    make_table(
        folder / "lake/rides",
        rows,
        bf.ConsistentHashingIndex(4),
        table_type="MERGE_ON_READ",
        table_version=8,
    )
    filled(folder / "lake/old")
    columns = (
        "id STRING, city STRING, fare DOUBLE, ts BIGINT, updates INT, _hoodie_is_deleted BOOLEAN"
    )
    arrived = spark.createDataFrame([("t7", "sf", 3.0, 3, 0, False)], columns)
    for name in ("orders", "2024-01-31"):
        arrived.write.parquet(str(folder / "landing" / name))
    arrived.select("id", "city").write.parquet(str(folder / "landing/keys"))


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    spark.catalog.dropTempView("trips")


def test_every_snippet_runs_as_it_stands(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_the_lake(session, tmp_path)
    known: dict[str, Any] = {"spark": session}
    run: dict[str, Callable[[str, str], object]] = {
        "python": lambda text, place: exec(compile(text, place, "exec"), known),
        "console": run_console,
        "dockerfile": lambda text, _: None,
    }
    for block in blocks():
        text = re.sub("s3://(lake|landing)", rf"{tmp_path}/\1", block.text)
        try:
            run[block.language](text, block.place)
        except Exception as error:
            raise AssertionError(f"the snippet at {block.place} fails: {error}") from error
    capsys.readouterr()
    found = bf.open(tmp_path / "lake/copy")
    assert found.timeline.completed.instants
    assert found.scan().to_arrow()["id"].to_pylist()


def run_console(text: str, place: str) -> None:
    """Run the jobs of this machine, and read the arguments of those for a cluster."""
    for words in commands(text):
        arguments = job_of(words)
        if arguments is None:
            assert " ".join(words).startswith(_NOT_RUN), words
        elif words[0] == "python":
            assert jobs.main(arguments) == 0, words
        else:
            jobs._parser().parse_args(arguments)


def test_the_image_is_that_of_the_page_and_takes_the_wheel_of_this_project() -> None:
    (page,) = (block.text for block in blocks() if block.language == "dockerfile")
    recipe = (ROOT / "examples/spark/Dockerfile").read_text()
    assert page == recipe
    project = (ROOT / "pyproject.toml").read_text()
    assert 'name = "bucketfmt"' in project
    (wheel, extras) = re.findall(r"ls /tmp/(\w+)-\*\.whl\)\[([\w,]+)\]", recipe)[0]
    assert f"COPY dist/{wheel}-*.whl /tmp/" in recipe
    assert wheel == "bucketfmt"
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
    assert re.search(r'^spark = \["pyspark[^"]*", "sqlglot[^"]*"\]', project, re.MULTILINE)
    (job,) = re.findall(r"printf '(.*?)' > /opt/bucketfmt/job\.py", recipe)
    assert job.replace("\\n", "\n").splitlines()[1] == "from bucketfmt_spark.jobs import main"
    (submitted,) = (
        line
        for block in blocks()
        if block.language == "console"
        for line in commands(block.text)
        if any(word.startswith("k8s://") for word in line)
    )
    assert "local:///opt/bucketfmt/job.py" in submitted
