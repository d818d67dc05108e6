"""The `demo` command: the main functions, end to end, on a table that Hudi wrote."""

from __future__ import annotations

import shlex
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import bucketfmt
from bucketfmt.cli.commands.check import print_report
from bucketfmt.cli.commands.tables import draw_buckets
from bucketfmt.cli.demo_resize import show_resizing
from bucketfmt.cli.render import console, print_facts, print_table
from bucketfmt.format.names.layout import METADATA_FOLDER
from bucketfmt.index.skew import measure_skew
from bucketfmt.table.describe import load_facts
from bucketfmt.texts import size_text

__all__ = ["demo"]

app = typer.Typer()


@app.command()
def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the table that Hudi wrote in a new folder."),
    ] = None,
) -> None:
    """Read and check a table that Hudi wrote; then create, write and resize new tables."""
    if keep is not None and keep.exists():
        raise typer.BadParameter(f"--keep {keep}: the folder exists; give a new one")
    packed = Path(__file__).with_name("demo_table.tar.xz")
    with tempfile.TemporaryDirectory(prefix="bucketfmt-demo-") as folder:
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        root = next(at for at in Path(folder).iterdir() if (at / METADATA_FOLDER).is_dir())
        if keep is not None:
            shutil.copytree(root, keep)  # before the demo damages it
        show(root)
        show_writing(Path(folder, "trips"))
        show_resizing(Path(folder, "rides"), _step)
    if keep is not None:
        _step(f"bucketfmt check {shlex.quote(str(keep))}", "the table of the demo, for you to try")


def show(root: Path) -> None:
    """Run the steps, and print the Python code of each."""
    _step("t = bucketfmt.open(path)", "the table, written by Apache Hudi 1.2.0")
    table = bucketfmt.open(root)
    facts = load_facts(table)
    shown = {"uri": "(a temporary folder)", "size": size_text(facts.size)}
    print_facts({**facts.in_words(), **shown})

    _step("t.inspect.commits()", "what was done to it")
    commits = table.inspect.commits()
    print_table(commits.select(["requested_time", "action", "state", "operation_type"]))

    keys = ["key-000125", "key-000007", "key-000310"]
    _step(f"t.locate({keys})", "where keys live, by hashing alone: no data file is opened")
    located = table.locate(keys, partitions=["eu", "us"])
    print_table(located.select(["record_key", "partition_path", "bucket_id", "base_file"]))

    _step(f"t.lookup({keys})", "their rows: one was deleted, one updated, one inserted late")
    print_table(table.lookup(keys))

    _step("t.scan(filter=[('qty', '=', 6)]).count()", "a scan, logs merged as Hudi merges them")
    found = table.scan(filter=[("qty", "=", 6)]).count()
    console().print(found, "of", table.scan().count(), "rows")

    _step("bucketfmt buckets PATH", "how even the buckets are")
    sizes = table.inspect.buckets().to_pylist()
    largest = max(row["size"] for row in sizes)
    for path in sorted({row["partition_path"] for row in sizes}):
        rows = [row for row in sizes if row["partition_path"] == path]
        draw_buckets(path, rows, measure_skew([row["size"] for row in rows]), largest)

    _step("t.check(depth='full').status", "a file-system check, for tables")
    console().print(table.check(depth="full").status)

    lost, doubled = damage(root, located.to_pylist()[0])
    _step(f"cut {lost}; copy {doubled}", "now a log file is cut, and a bucket gets a second group")
    print_report(bucketfmt.open(root).check(depth="full"))


def show_writing(root: Path) -> None:
    """Create a table, write to it and read it back."""
    trips = pa.table(
        {"id": ["t1", "t2", "t3"], "city": ["sf", "ny", "sf"], "ts": [1, 1, 1], "fare": [9, 7, 3]}
    )
    _step(
        "t = bucketfmt.create(path, ...)", "a new merge-on-read table that Hudi can carry on with"
    )
    table = bucketfmt.create(
        root,
        schema=trips.schema,
        record_key=["id"],
        partition_by=["city"],
        ordering=["ts"],
        index=bucketfmt.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
    )
    _step("t.upsert(trips); t.upsert(more); t.delete(['t2'])", "three commits")
    table.upsert(trips)
    table.upsert(
        pa.table({"id": ["t1", "t4"], "city": ["sf", "la"], "ts": [2, 2], "fare": [10, 4]})
    )
    table.delete(["t2"])
    print_table(table.scan().to_arrow().sort_by("id"))
    _step("t.compact()", "what was logged becomes base files")
    result = table.compact()
    if result is not None:
        console().print(f"{result.operation}: {len(result.files)} files")
    commits = table.inspect.commits()
    print_table(commits.select(["requested_time", "action", "state", "operation_type"]))
    console().print("check:", table.check(depth="full").status)


def damage(root: Path, located: dict[str, Any]) -> tuple[str, str]:
    """Truncate a log file of a located key, and copy the key's base file to another file id."""
    log_file, base_file = root / located["log_files"][-1], root / located["base_file"]
    log_file.write_bytes(log_file.read_bytes()[:-100])
    other_group = base_file.name[:9] + "dead-4bad-8bad-deadbeefdead" + base_file.name[36:]
    shutil.copy(base_file, base_file.with_name(other_group))
    return log_file.name, base_file.name


def _step(code: str, comment: str) -> None:
    console().print(f"\n>>> {code}", style="bold", markup=False)
    console().print(f"# {comment}", style="dim", markup=False)
