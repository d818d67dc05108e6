"""Which partitions and files a table has is asked of a lister, which need not list folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config

Golden = Callable[[str, str], Path]

METAFILE = ".hoodie_partition_metadata"
BASE = "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0_0-1-1_20240101000000000.parquet"
LOG = ".00000001-1ad8-4c4f-84b0-f9f06e6013ae-0_20240101000000000.log.1_0-1-1"
CDC = f"{LOG}.cdc"
FILE_ID = "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0"


def test_a_folder_with_a_partition_metafile_is_a_partition() -> None:
    names = [
        f"b/{METAFILE}",
        f"a/x=1/{METAFILE}.parquet",
        f"a/x=1/below/{METAFILE}",  # nothing is looked for below a partition
        f"no_partition/{BASE}",
        f".hoodie/metadata/files/{METAFILE}",
    ]
    assert StoreLister(MemoryStore(dict.fromkeys(names, b""))).partitions == ("a/x=1", "b")
    assert StoreLister(MemoryStore({METAFILE: b"", f"b/{METAFILE}": b""})).partitions == ("",)


def test_a_partition_that_is_called_as_a_metafile_hides_no_other() -> None:
    names = [f"{METAFILE}/{METAFILE}", f"a/{METAFILE}", f"{METAFILE}_2/b/{METAFILE}"]
    lister = StoreLister(MemoryStore(dict.fromkeys(names, b"")))
    assert lister.partitions == (METAFILE, f"{METAFILE}_2/b", "a")
    assert lister.other_files("") == []


def test_files_of_a_partition_are_its_data_files_by_file_id_and_the_names_of_others() -> None:
    names = [METAFILE, BASE, LOG, CDC, "20240101000000000.commit", "folder/x"]
    store = MemoryStore({f"p/{name}": name.encode() for name in names})
    lister = StoreLister(store)
    ((file_id, own),) = lister.files("p").items()
    assert file_id == FILE_ID
    assert {(file.path, file.size) for file in own} == {
        (f"p/{BASE}", len(BASE)),
        (f"p/{LOG}", len(LOG)),
    }
    assert sorted(lister.other_files("p")) == sorted([METAFILE, "20240101000000000.commit"])


def test_a_partition_that_is_not_there_has_no_files() -> None:
    lister = StoreLister(MemoryStore())
    assert lister.files("p") == {}
    assert lister.other_files("p") == []


def test_each_folder_is_listed_once() -> None:
    store = RecordingStore(MemoryStore({f"p/{METAFILE}": b"", f"p/{BASE}": b""}))
    lister = StoreLister(store)
    for _ in range(2):
        assert lister.partitions == ("p",)
        lister.prepare(["p", "gone"])
        assert list(lister.files("p")) == [FILE_ID]
        assert lister.files("gone") == {}
    assert store.paths("list") == ["", "p", "gone"]


@dataclass
class KnownFiles:
    """A lister that knows the files of a table already."""

    partition_files: dict[str, Mapping[str, Sequence[DataFile]]]

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(self.partition_files))

    def files(self, partition_path: str) -> Mapping[str, Sequence[DataFile]]:
        return self.partition_files.get(partition_path, {})

    def other_files(self, partition_path: str) -> Sequence[str]:
        return ()

    def prepare(self, partition_paths: Sequence[str]) -> None:
        pass


@pytest.mark.parametrize("release", ["0.15.0", "1.2.0"])
def test_a_snapshot_reads_by_another_lister_and_lists_no_partition(
    golden: Golden, release: str
) -> None:
    store = RecordingStore(MemoryStore.of_folder(golden(release, "mor_compacted")))
    config = load_config(store, DEFAULT_LIMITS)
    timeline = load_timeline(store, config)
    listing = StoreLister(store)
    known = KnownFiles({path: listing.files(path) for path in listing.partitions})

    def read(lister: StoreLister | KnownFiles) -> list[dict[str, object]]:
        snapshot = Snapshot(TableState(store, config, timeline, DEFAULT_LIMITS, lister))
        reader = SliceReader(snapshot, RowSpec(snapshot.schema, snapshot.schema.data))
        slices = snapshot.slices_of(snapshot.partitions)
        return [
            row for each in slices for rows in reader.read(each, None) for row in rows.to_pylist()
        ]

    expected = read(listing)
    store.operations.clear()
    assert read(known) == expected != []
    assert [path for path in store.paths("list") if not path.startswith(".hoodie")] == []
