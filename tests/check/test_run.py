"""How a check goes: progress, stopping, stores that fail, and bytes nobody wrote."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.check.report import (
    CheckReport,
    Counted,
    Finding,
    NotChecked,
    ReportBuilder,
    Subject,
    merge_reports,
)
from bucketfmt.choices import Depth
from bucketfmt.errors import BucketfmtError, StorageError, UnsupportedError
from bucketfmt.progress import Progress
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.testing.corruptions import Damage, flip_bits, forge_fields, splice, truncate
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import Operation, RecordingStore
from bucketfmt.timeline.table_properties import load_config
from tests.write.models import create_table, rows

Golden = Callable[[str, str], Path]

TINY = ["tiny_cow", "tiny_mor", "tiny_ch"]
LIMITS = bf.Limits()


class FailingStore(RecordingStore):
    """Raises `error` at the operation of that number, counted from 0, and from then on."""

    def __init__(self, store: Store, number: int, error: BaseException) -> None:
        super().__init__(store)
        self.operations = _Fuse(number, error)


class _Fuse(list[Operation]):
    def __init__(self, number: int, error: BaseException) -> None:
        super().__init__()
        self.number, self.error = number, error

    def append(self, operation: Operation) -> None:
        super().append(operation)
        if len(self) > self.number:
            raise self.error


def table_of(store: Store) -> bf.Table:
    return bf.Table(store, load_config(store, LIMITS), LIMITS, None)


def count_operations(store: MemoryStore) -> int:
    recording = RecordingStore(store)
    bf.Table(recording, load_config(store, LIMITS), LIMITS, None).check("full")
    return len(recording.operations)


# -- progress


@pytest.mark.parametrize("depth", ["quick", "default", "full"])
def test_progress_goes_on_to_the_end_of_each_stage(golden: Golden, depth: str) -> None:
    told: list[Progress] = []
    report = bf.open(golden("1.2.0", "mor")).check(depth, progress=told.append)
    stages = defaultdict(list)
    for progress in told:
        stages[progress.stage].append((progress.done, progress.total))
    assert list(stages) == ["timeline", "partitions", "file groups"][: 2 if depth == "quick" else 3]
    for steps in stages.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]
    assert stages["partitions"][-1] == (3, 3)
    if depth != "quick":
        assert stages["file groups"][-1] == (12, 12)
    assert report.status == "clean"


# -- stopping


@pytest.mark.parametrize("name", TINY)
def test_ctrl_c_at_any_moment_ends_with_a_report(golden: Golden, name: str) -> None:
    store = MemoryStore.of_folder(golden("1.2.0", name))
    config = load_config(store, LIMITS)
    for number in range(count_operations(store)):
        failing = FailingStore(store, number, KeyboardInterrupt())
        report = bf.Table(failing, config, LIMITS, None).check("full")
        assert report.interrupted
        assert (report.status, report.exit_code) == ("incomplete", 130)
        (sentence,) = (s for s in report.not_checked if s.endswith(": the check was stopped"))
        if number == 0:
            assert sentence.startswith("everything: ")


def test_ctrl_c_keeps_what_was_found(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "mor")
    (root / "eu/.hoodie_partition_metadata").unlink()

    def stop(progress: Progress) -> None:
        if progress.stage == "file groups" and progress.done == 3:
            raise KeyboardInterrupt

    report = bf.open(root).check("full", progress=stop)
    assert report.interrupted
    assert (report.status, report.exit_code) == ("findings", 130)
    assert [finding.id for finding in report.findings] == ["T005"]
    assert "the files of 9 of 12 file groups: the check was stopped" in report.not_checked
    assert report.checked["base files opened"] >= 3


_SLOW_CHECK = """
import sys, time
import bucketfmt.api.opening
from bucketfmt.cli.__main__ import main
from bucketfmt.storage.open import open_store
from bucketfmt.testing.recording_store import RecordingStore

class SlowStore(RecordingStore):
    def open_arrow(self, path):
        print(f"opening {path}\\n", end="", file=sys.stderr, flush=True)
        time.sleep(0.2)
        return super().open_arrow(path)

bucketfmt.api.opening.open_store = lambda *given: SlowStore(open_store(*given))
sys.argv = ["bucketfmt", "check", *sys.argv[1:]]
main()
"""


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
@pytest.mark.parametrize("opened", [1, 12])
def test_ctrl_c_on_the_command_line(golden: Golden, opened: int) -> None:
    command = [sys.executable, "-c", _SLOW_CHECK, str(golden("1.2.0", "cow"))]
    process = subprocess.Popen(
        [*command, "--depth", "full", "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for _ in range(opened):
        assert process.stderr.readline().startswith("opening ")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    report = json.loads(out)
    assert report["status"] == "incomplete"
    assert any(s.endswith(": the check was stopped") for s in report["not_checked"])


# -- stores that fail


@pytest.mark.parametrize("name", TINY)
def test_a_store_that_fails_is_never_clean_nor_damaged(golden: Golden, name: str) -> None:
    store = MemoryStore.of_folder(golden("1.2.0", name))
    config = load_config(store, LIMITS)
    for number in range(count_operations(store)):
        failing = FailingStore(store, number, StorageError("the network is down"))
        table = bf.Table(failing, config, LIMITS, None)
        if number < 2:
            with pytest.raises(StorageError):  # the properties, the timeline: nothing can be said
                table.check("full")
            continue
        report = table.check("full")
        assert report.status == "incomplete"
        assert all(finding.severity == "info" for finding in report.findings)
        assert any("the network is down" in sentence for sentence in report.not_checked)


class LockedStore(RecordingStore):
    """Refuses to list one folder."""

    def list(self, folder: str = "") -> list[FileInfo]:
        if folder == "us":
            raise StorageError("permission denied", path=folder)
        return super().list(folder)


@pytest.mark.parametrize("depth", ["quick", "default", "full"])
def test_of_a_partition_that_cannot_be_listed_nothing_is_said(tmp_path: Path, depth: Depth) -> None:
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(1))
    table.upsert(rows(range(9), 1))
    table.metadata_table.init("files", "column_stats", "record_index")
    table = table_of(LockedStore(table.store))
    report = table.check(depth)
    assert report.status == "incomplete"
    assert not report.findings
    assert "us: permission denied" in report.not_checked


# -- any bytes


def damages(data: bytes, seed: int, count: int) -> Iterator[Damage]:
    """Of each kind, some: bits flipped, ends cut, numbers forged, parts moved."""
    random = Random(seed)
    for _ in range(count if data else 0):
        offset = random.randrange(len(data))
        yield from flip_bits(data, random.randrange(1 << 30), [offset])
        yield from truncate(data, [offset])
        forged = list(forge_fields(data, [offset]))
        yield from random.sample(forged, min(1, len(forged)))
        yield from splice(data, random.randrange(1 << 30), 1)


def rows_of(table: bf.Table) -> pa.Table:
    return table.scan().to_arrow().sort_by("id")


@pytest.mark.rotated(0)
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_any_bytes_are_findings_or_not_checked(golden: Golden, version: str, name: str) -> None:
    """The check never fails; and what it calls clean can be read."""
    store = MemoryStore.of_folder(golden(version, name))
    files = [path for path in store.files if not path.endswith(".crc")]
    for number, path in enumerate(sorted(files)):
        for damage in damages(store.files[path], number, count=1):
            damaged = store.with_file(path, damage.data)
            try:
                table = table_of(damaged)
            except BucketfmtError:
                assert path == ".hoodie/hoodie.properties"
                continue
            report = table.check("full")
            problems = [s for s in report.not_checked if "the check itself failed" in s]
            assert not problems, (path, damage.what, problems)
            if report.status == "clean":
                try:
                    rows_of(table)
                except UnsupportedError:  # a merge rule: no damage, and said
                    assert any(s.startswith("how log files are merged") for s in report.not_checked)
                except BucketfmtError as error:
                    pytest.fail(f"{path}, {damage.what}: clean, but {error}")


# -- the report


def finding(number: int, severity: str = "error") -> Finding:
    return Finding.of("T002", f"file {number}", paths=[f"us/{number}"], severity=severity)  # type: ignore[arg-type]


def test_the_worst_findings_are_kept() -> None:
    builder = ReportBuilder("full", max_findings=3)
    for number in range(40):
        builder.add(finding(number, "info"))
    builder.add(finding(99, "warning"))
    builder.add(finding(7, "error"))
    builder.add(finding(7, "error"))
    report = builder.build()
    assert [f.severity for f in report.findings] == ["error", "warning", "info"]
    assert report.not_checked == ("39 further findings are left out (max_findings)",)
    assert (report.status, report.exit_code) == ("findings", 1)


def test_an_error_that_is_left_out_still_counts() -> None:
    builder = ReportBuilder("full", max_findings=1)
    for number in range(9):
        builder.add(finding(number))
    report = builder.build()
    assert (len(report.findings), report.status) == (1, "findings")


def test_reasons_are_told_once() -> None:
    builder = ReportBuilder("quick", max_findings=3)
    for number in range(5):
        builder.add(NotChecked(f"us/{number}", "too large"))
    builder.add(NotChecked("eu", "not asked for", is_gap=False))
    builder.add(Counted("files", 3))
    builder.add(Counted("files"))
    report = builder.build()
    assert report.not_checked == ("us/0 and 4 more: too large", "eu: not asked for")
    assert report.checked == {"files": 4}
    assert (report.status, bool(report)) == ("incomplete", False)


def test_infos_leave_a_table_clean() -> None:
    builder = ReportBuilder("quick", max_findings=3)
    builder.add(finding(1, "info"))
    builder.add(NotChecked("keys", "by design", is_gap=False))
    report = builder.build()
    assert (report.status, report.exit_code, bool(report)) == ("clean", 0, True)


def test_a_report_as_json_has_only_plain_values() -> None:
    builder = ReportBuilder("quick", max_findings=3)
    builder.add(finding(1))
    report: CheckReport = builder.build()
    document = report.to_dict()
    assert json.loads(json.dumps(document)) == document
    assert set(document) == {
        "status",
        "depth",
        "checked",
        "not_checked",
        "findings",
        "findings_left_out",
    }
    assert set(document["findings"][0]) == {
        "id",
        "severity",
        "partition",
        "bucket",
        "file_groups",
        "paths",
        "instants",
        "evidence",
        "cause",
        "fix",
        "data_loss",
    }


def test_a_finding_names_all_files() -> None:
    paths = [
        f"p/0000000{n % 10}-0000-0000-0000-000000000000-{n}_0-1-0_1.parquet" for n in range(33)
    ]
    many = Finding.of("T002", "lost", partition="p", paths=[*paths, "p/x", paths[0]])
    assert many.evidence == "lost"
    assert many.paths == (*paths, "p/x")
    assert many.subject.file_groups == tuple(("p", path[2:].split("_")[0]) for path in paths)
    archived = Finding.of("T001", "lost", paths=[".hoodie/archived/.commits_.archive.1_1-0-1"])
    assert archived.subject == Subject(paths=archived.paths)
    data = many.to_dict()
    assert data["file_groups"][0] == {"partition": "p", "file_id": many.subject.file_groups[0][1]}
    assert Finding.from_dict(data) == many


def test_merged_reports_tell_all_that_is_left_out() -> None:
    reports = []
    for partition in ("a", "b"):
        builder = ReportBuilder("quick", max_findings=2)
        for number in range(5):
            builder.add(Finding.of("T005", f"{number}", partition=partition))
        reports.append(builder.build())
    assert [report.findings_left_out for report in reports] == [3, 3]
    merged = merge_reports(reports, max_findings=3)
    assert (len(merged.findings), merged.findings_left_out) == (3, 7)
    assert merged.not_checked == ("7 further findings are left out (max_findings)",)
