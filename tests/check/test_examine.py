"""A check whose file slices were examined by several processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.api import opening
from bucketfmt.check.report import Counted, NotChecked
from bucketfmt.check.sound_slices import SoundSlice, decode_sound_slice
from bucketfmt.progress import Progress
from bucketfmt.testing.recording_store import RecordingStore


def examine(table: bf.Table, depth: str, of: int) -> list[bytes]:
    return [data for number in range(of) for data in table.examine(depth, number, of)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "name"), [("1.2.0", "mor"), ("0.15.0", "mor")])
@pytest.mark.parametrize("depth", ["default", "full"])
def test_the_report_is_that_of_one_process(
    golden: Callable[[str, str], Path], version: str, name: str, depth: str
) -> None:
    table = bf.open(golden(version, name))
    examined = examine(table, depth, 3)
    assert len(examined) == len(table.scan().plan().slices)
    store = RecordingStore(table.store)
    watched = bf.Table(store, table.config, table.limits, None)
    assert watched.check(depth, examined=examined) == table.check(depth)  # type: ignore[arg-type]
    opened = {path for path in store.paths("open_arrow") if path.endswith(".parquet")}
    store.operations.clear()
    watched.check(depth)  # type: ignore[arg-type]
    assert len(opened) < len({p for p in store.paths("open_arrow") if p.endswith(".parquet")})


def test_slices_with_faults_and_changed_slices_are_examined_again(
    golden_copy: Callable[[str, str], Path],
) -> None:
    root = golden_copy("1.2.0", "cow")
    table = bf.open(root)
    before = examine(table, "full", 2)
    one, another = (s.base_file for s in table.scan().plan().slices[:2])
    assert one is not None
    assert another is not None
    (root / one.path).write_bytes((root / one.path).read_bytes()[:-20])
    (root / another.path).write_bytes((root / another.path).read_bytes() + b"x")
    after = examine(table, "full", 2)
    assert len(after) < len(before)
    report = table.check("full")
    assert {one.path, another.path} <= {path for f in report.findings for path in f.paths}
    assert table.check("full", examined=after) == report
    assert table.check("full", examined=before) == report


def test_shares_and_values_that_are_not_as_they_were_sent(
    golden: Callable[[str, str], Path],
) -> None:
    table = bf.open(golden("1.2.0", "cow"))
    with pytest.raises(ValueError, match="number is 0 to 1, not 2"):
        table.examine("full", 2, 2)
    with pytest.raises(ValueError, match="of is 1 or more, not 0"):
        table.examine("full", 0, 0)
    with pytest.raises(TypeError, match="number is an integer such as 4, not '0'"):
        table.examine("full", "0", 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"is what Table\.examine returned, not 'x'"):
        table.check("full", examined=["x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"is what Table\.examine returned, not 120"):
        table.check("full", examined=b"x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="depth is quick"):
        table.examine("deep", 0, 1)  # type: ignore[arg-type]
    with pytest.raises(bf.CorruptError, match="not an examined file slice as it was sent"):
        table.check("full", examined=[b"\x90"])
    told = SoundSlice((("a", 1),), {"keys": 2}, (("a", "why"),), 2, 1)
    assert decode_sound_slice(told.encode()) == told
    assert list(told.events()) == [Counted("keys", 2), NotChecked("a", "why", is_gap=False)]


@pytest.mark.rotated(0, among="processes that check", one_of=3)
@pytest.mark.parametrize("depth", ["quick", "full"])
def test_processes_report_what_one_does(golden: Callable[[str, str], Path], depth: str) -> None:
    root = golden("1.2.0", "mor")
    told: list[Progress] = []
    report = bf.check_table(root, depth=depth, processes=2, progress=told.append)  # type: ignore[arg-type]
    assert report == bf.check_table(root, depth=depth)  # type: ignore[arg-type]
    by_processes = [(one.done, one.total) for one in told if one.stage == "processes"]
    assert by_processes == ([] if depth == "quick" else [(1, 2), (2, 2)])


@pytest.mark.rotated(0, among="processes that check", one_of=3)
def test_processes_find_damage_and_damaged_properties(
    golden_copy: Callable[[str, str], Path],
) -> None:
    root = golden_copy("1.2.0", "cow")
    one = bf.open(root).scan().plan().slices[0].base_file
    assert one is not None
    (root / one.path).write_bytes((root / one.path).read_bytes()[:-20])
    properties = root / ".hoodie/hoodie.properties"
    properties.write_bytes(properties.read_bytes() + b"hoodie.table.checksum=1\n")
    report = bf.check_table(root, depth="full", processes=2)
    assert {"T006", "T002"} == {finding.id for finding in report.findings}
    assert report == bf.check_table(root, depth="full")


@pytest.mark.rotated(0, among="processes that check", one_of=3)
def test_processes_check_a_whole_table(golden: Callable[[str, str], Path]) -> None:
    root = golden("1.2.0", "cow")
    for part in ({"partitions": [""]}, {"since": "2020"}, {"metadata_table_only": True}):
        with pytest.raises(ValueError, match="several processes check a whole table"):
            bf.check_table(root, processes=2, **part)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="processes is 1 or more, not 0"):
        bf.check_table(root, processes=0)
    with pytest.raises(bf.TableNotFoundError):
        bf.check_table(root / "missing", processes=2, depth="full")


@pytest.mark.rotated(0, among="processes that check", one_of=3)
def test_a_process_that_dies_leaves_its_slices_to_the_check(
    golden: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden("1.2.0", "cow")
    expected = bf.check_table(root, depth="full")
    monkeypatch.setattr(opening, "_open_damaged", DyingElsewhere(os.getpid(), root))
    assert bf.check_table(root, depth="full", processes=2) == expected


@dataclass
class DyingElsewhere:
    """Opens a table in this process, and kills every other."""

    process: int
    root: Path

    def __call__(self, *_: object) -> bf.Table:
        if os.getpid() != self.process:
            os.kill(os.getpid(), signal.SIGKILL)
        return bf.open(self.root)


@pytest.mark.rotated(0, among="processes that check", one_of=3)
def test_an_interrupt_of_this_process_alone_ends_the_others(
    golden: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They were waited for, whatever they had to examine still."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    root, begun = golden("1.2.0", "cow"), tmp_path / "begun"
    slow = SlowElsewhere(os.getpid(), root, begun)
    monkeypatch.setattr(opening, "_open_damaged", slow)

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            bf.check_table(root, depth="full", processes=2)
    finally:
        signal.signal(signal.SIGINT, before)
    slow_s = time.time() - begun.stat().st_mtime
    assert slow_s < SLOW_S / 2


SLOW_S = 30.0


@dataclass
class SlowElsewhere:
    """Opens a table in this process, and takes long in every other."""

    process: int
    root: Path
    begun: Path

    def __call__(self, *_: object) -> bf.Table:
        if os.getpid() != self.process:
            self.begun.touch()
            time.sleep(SLOW_S)
        return bf.open(self.root)
