"""Names of a folder as of one moment, and which of them are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bucketfmt.errors import LimitError, StorageError
from bucketfmt.limits import Limits
from bucketfmt.storage.stores import folder_names
from bucketfmt.storage.stores.folder_names import list_at_one_moment
from bucketfmt.storage.stores.local_store import LocalStore

BOUND = 1_000


@pytest.fixture(autouse=True)
def listings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The folders that were listed."""
    listed: list[str] = []
    list_folder = folder_names._list

    def counted(folder: str, most: int | None) -> Sequence[str]:
        listed.append(folder)
        return list_folder(folder, most)

    monkeypatch.setattr(folder_names, "_list", counted)
    folder_names._kept.clear()
    yield listed
    folder_names._kept.clear()


def filled(folder: Path, count: int = 310) -> list[str]:
    folder.mkdir()
    names = [f"{'ac'[number % 2]}{number:03}" for number in range(count)]
    for name in names:
        (folder / name).touch()
    return sorted(names)


def torn(monkeypatch: pytest.MonkeyPatch, folder: Path, coming: Sequence[Sequence[str]]) -> None:
    """Let the folder be listed in two portions, between which files come."""
    whole, left = folder_names._list, [*coming]

    def in_portions(path: str, most: int | None) -> Sequence[str]:
        first = [name for name in whole(path, most) if name < "b"]
        for name in left.pop(0) if left else ():
            (folder / name).touch()
        return (*first, *(name for name in whole(path, most) if name >= "b"))

    monkeypatch.setattr(folder_names, "_list", in_portions)


def on_own_disk(folder: Path) -> bool:
    return folder_names._is_on_own_disk(os.stat(folder).st_dev)


def settled(folder: Path) -> None:
    """Wait until the clock of the kernel has gone on since the folder changed."""
    while folder_names.time.clock_gettime_ns(folder_names._KERNEL_CLOCK) <= (
        os.stat(folder).st_ctime_ns
    ):
        folder_names.time.sleep(0.001)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_long_folder_is_listed_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """A reader saw a later commit, and not an earlier one that came into a portion it had read."""
    folder = tmp_path / "t"
    before = filled(folder)
    monkeypatch.setattr(folder_names, "_is_on_own_disk", lambda _device: is_own)
    torn(monkeypatch, folder, [["a999", "c999"], ["a998", "c998"]])
    names = list_at_one_moment(str(folder), BOUND)
    assert sorted(names) == sorted([*before, "a998", "a999", "c998", "c999"])


def test_a_folder_that_never_stays_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    filled(folder)
    torn(monkeypatch, folder, [[f"a-{number}"] for number in range(10_000)])
    monkeypatch.setattr(folder_names, "_LISTING_S", 0.1)
    with pytest.raises(StorageError, match="read again"):
        list_at_one_moment(str(folder), 10**6)


def test_a_folder_that_stays_is_listed_once(tmp_path: Path, listings: list[str]) -> None:
    folder = tmp_path / "t"
    before = filled(folder)
    if not on_own_disk(folder):
        pytest.skip("the temporary folder is on no file system whose times are known")
    settled(folder)
    names = list_at_one_moment(str(folder), BOUND)
    assert sorted(names) == before
    (folder / "a000").write_bytes(b"content is not listed")
    assert list_at_one_moment(str(folder), BOUND) is names
    assert listings == [str(folder)]


def create(folder: Path) -> None:
    (folder / "new").touch()


def remove(folder: Path) -> None:
    (folder / "a000").unlink()


def rename(folder: Path) -> None:
    (folder / "a000").rename(folder / "new")


def rename_over(folder: Path) -> None:
    (folder / "a000").rename(folder / "a002")


def move_in(folder: Path) -> None:
    (folder.parent / "new").touch()
    (folder.parent / "new").rename(folder / "new")


def link(folder: Path) -> None:
    (folder / "new").hardlink_to(folder / "a000")


def make_folder(folder: Path) -> None:
    (folder / "new").mkdir()


def put_another(folder: Path) -> None:
    folder.rename(folder.parent / "old")
    filled(folder, 320)


@pytest.mark.parametrize("is_set_back", [False, True])
@pytest.mark.parametrize(
    "change", [create, remove, rename, rename_over, move_in, link, make_folder, put_another]
)
def test_each_change_of_names_is_seen(
    tmp_path: Path, change: Callable[[Path], None], is_set_back: bool
) -> None:
    """A modification time that someone sets back hides nothing."""
    folder = tmp_path / "t"
    filled(folder)
    settled(folder)
    list_at_one_moment(str(folder), BOUND)
    before = os.stat(folder)
    change(folder)
    if is_set_back:
        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sorted(list_at_one_moment(str(folder), BOUND)) == sorted(os.listdir(folder))


def test_changes_within_a_tick_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    filled(folder)
    for number in range(300):
        (folder / f"b{number:03}").touch()
        names = list_at_one_moment(str(folder), BOUND)
        assert f"b{number:03}" in names
        assert len(names) == 310 + number + 1


def test_changes_within_a_second_of_a_disk_that_keeps_seconds_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listings: list[str]
) -> None:
    """ext2, and ext4 with small inodes: the names that came later in the second were not seen."""
    load_state = folder_names._load_state

    def in_seconds(folder: str) -> folder_names._State | None:
        state = load_state(folder)
        return state and state._replace(changed=state.changed // 10**9 * 10**9, size=4096)

    monkeypatch.setattr(folder_names, "_load_state", in_seconds)
    folder = tmp_path / "t"
    filled(folder)
    for number in range(40):
        (folder / f"b{number:03}").touch()
        assert f"b{number:03}" in list_at_one_moment(str(folder), BOUND)
        folder_names.time.sleep(0.01)
    folder_names.time.sleep(1.1)
    names = list_at_one_moment(str(folder), BOUND)
    listings.clear()
    kept = list_at_one_moment(str(folder), BOUND)
    assert sorted(kept) == sorted(names)
    assert not listings or not on_own_disk(folder)


def test_a_name_that_another_process_made_is_seen(tmp_path: Path) -> None:
    """Each name is listed from when the process that made it says so."""
    folder = tmp_path / "t"
    filled(folder)
    make = (
        "import os, sys\n"
        "for number in range(500):\n"
        "    os.close(os.open(f'{sys.argv[1]}/b{number:03}', os.O_CREAT | os.O_WRONLY))\n"
        "    print(number, flush=True)\n"
        "    if number % 7 == 0: sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", make, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for line in process.stdout:
            assert f"b{int(line):03}" in list_at_one_moment(str(folder), BOUND)
            if int(line) % 7 == 0:
                process.stdin.write("go on\n")
                process.stdin.flush()
    assert process.returncode == 0


def test_a_folder_of_another_machine_is_listed_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listings: list[str]
) -> None:
    folder = tmp_path / "t"
    filled(folder)
    monkeypatch.setattr(folder_names, "_is_on_own_disk", lambda _device: False)
    folder_names.time.sleep(0.03)
    first = list_at_one_moment(str(folder), BOUND)
    assert list_at_one_moment(str(folder), BOUND) == first
    assert listings == [str(folder)] * 2


def test_an_unknown_device_is_not_trusted() -> None:
    assert not folder_names._is_on_own_disk(os.makedev(4000, 4000))


def test_a_short_folder_is_listed_once_and_each_time(tmp_path: Path, listings: list[str]) -> None:
    before = filled(tmp_path / "t", 300)
    assert sorted(list_at_one_moment(str(tmp_path / "t"), BOUND)) == before
    assert sorted(list_at_one_moment(str(tmp_path / "t"), BOUND)) == before
    assert len(listings) == 2


def test_no_folder_has_no_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert list_at_one_moment(str(tmp_path / "missing"), BOUND) == ()
    assert list_at_one_moment(str(tmp_path / "file"), BOUND) == ()


def test_no_more_names_are_read_than_the_bound(tmp_path: Path) -> None:
    filled(tmp_path / "t", 400)
    assert len(list_at_one_moment(str(tmp_path / "t"), 350)) == 351
    few = LocalStore(str(tmp_path), Limits(folder_entries_max=350))
    for _ in range(2):
        with pytest.raises(LimitError, match="folder_entries_max"):
            few.list_names("t")
        assert len(LocalStore(str(tmp_path)).list_names("t")) == 400


def test_few_folders_are_kept(tmp_path: Path) -> None:
    for number in range(10):
        filled(tmp_path / str(number), 301)
        settled(tmp_path / str(number))
        list_at_one_moment(str(tmp_path / str(number)), BOUND)
    assert len(folder_names._kept) <= folder_names._FOLDERS_KEPT
