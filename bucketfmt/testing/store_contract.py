"""What every `Store` must do, as a class of pytest tests that is subclassed for each kind of store.

Needs pytest: `pip install 'bucketfmt[testing]'`.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketfmt.errors import (
    LimitError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.storage.store import FileInfo, Store

__all__ = ["StoreContract"]

_LARGE_BYTES = 9 << 20  # clients send files of this size in parts
_UNSAFE_PATHS = ["../x", "a/../../x", "/etc/passwd", "a\0b", "..", "a/..", "s3://b/x", "a//b", "a/"]


class StoreContract:
    """The tests of a `Store`. A subclass whose name begins with `Test` has two fixtures.

    `store` returns an empty store, and `other` returns another store of the same files, as
    another process would open it.

    Attributes:
        replaces_on_condition: False if this kind of store has no way to replace a file on
            condition. Then `read_versioned` and `replace_if` have to raise `UnsupportedError`.
    """

    replaces_on_condition: ClassVar[bool] = True

    @pytest.fixture
    def version(self, store: Store) -> str:
        """Return the version of the file `d/f`, which holds `one`."""
        store.put_if_absent("d/f", b"one")
        if not self.replaces_on_condition:
            for refused in (
                lambda: store.read_versioned("d/f", 9),
                lambda: store.replace_if("d/f", b"two", "any"),
            ):
                with pytest.raises(UnsupportedError):
                    refused()
            assert store.read("d/f", 9) == b"one"
            pytest.skip("this kind of store says that it does not replace on condition")
        data, version = store.read_versioned("d/f", 9)
        assert data == b"one"
        return version

    def test_is_a_store_and_tells_where(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.uri

    def test_reads_what_was_put(self, store: Store) -> None:
        assert store.put_if_absent("a/b/c.bin", b"\x00\xffdata") is True
        assert store.read("a/b/c.bin", 100) == b"\x00\xffdata"

    def test_reads_an_empty_file(self, store: Store) -> None:
        assert store.put_if_absent("folder/1.commit.requested", b"") is True
        assert store.read("folder/1.commit.requested", 0) == b""
        assert [i.size for i in store.list("folder")] == [0]

    @pytest.mark.parametrize("data", [bytearray(b"abc"), memoryview(b"xabcx")[1:4]])
    def test_puts_any_buffer(self, store: Store, data: bytearray | memoryview) -> None:
        store.put_if_absent("f", data)
        store.replace("g", data)
        assert store.read("f", 9) == store.read("g", 9) == b"abc"

    def test_read_refuses_a_file_above_the_limit(self, store: Store) -> None:
        store.put_if_absent("f", b"12345")
        assert store.read("f", 5) == b"12345"
        with pytest.raises(LimitError, match="5 bytes, and the limit") as caught:
            store.read("f", 4)
        assert caught.value.path == "f"

    def test_missing_files(self, store: Store) -> None:
        store.put_if_absent("folder/f", b"1")
        for path in ("x", "folder/x", "x/y/z", "folder"):
            for attempt in (
                lambda path=path: store.read(path, 10),
                lambda path=path: store.read_ranges(path, [(0, 1)]),
                lambda path=path: store.open_arrow(path),
            ):
                with pytest.raises(NotFoundError) as caught:
                    attempt()
                assert caught.value.path == path
        assert store.info("x") is None
        assert store.info("folder/x") is None

    def test_reads_a_range(self, store: Store) -> None:
        store.put_if_absent("f", b"0123456789")
        assert store.read_ranges("f", [(0, 10)]) == [b"0123456789"]
        assert store.read_ranges("f", [(3, 4), (10, 0), (9, 1), (2, 3)]) == [
            b"3456",
            b"",
            b"9",
            b"234",
        ]
        assert store.read_ranges("f", []) == []

    @pytest.mark.parametrize(("start", "length"), [(0, 11), (10, 1), (5, 2**60), (-1, 2), (3, -1)])
    def test_a_range_outside_the_file_is_truncation(
        self, store: Store, start: int, length: int
    ) -> None:
        store.put_if_absent("f", b"0123456789")
        with pytest.raises(TruncatedError) as caught:
            store.read_ranges("f", [(start, length)])
        assert caught.value.path == "f"

    def test_opens_for_arrow(self, store: Store) -> None:
        table = pa.table({"x": list(range(1000)), "y": ["é"] * 1000})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=100)
        store.put_if_absent("p=1/data.parquet", sink.getvalue().to_pybytes())
        with store.open_arrow("p=1/data.parquet") as file:
            assert file.size() == sink.getvalue().size
            file.seek(file.size() - 4)
            assert file.read(4) == b"PAR1"
            assert pq.ParquetFile(file).read() == table
        with store.open_arrow("p=1/data.parquet") as file:
            assert pq.ParquetFile(file, pre_buffer=True).read_row_group(7) == table.slice(700, 100)

    def test_open_files_do_not_disturb_one_another(self, store: Store) -> None:
        store.put_if_absent("f", bytes(range(256)) * 64)
        files = [store.open_arrow("f") for _ in range(4)]
        for at, file in enumerate(files):
            file.seek(at)
        assert [file.read(1) for file in files] == [b"\0", b"\1", b"\2", b"\3"]

    def test_lists_one_level_sorted_with_sizes(self, store: Store) -> None:
        before = time.time() - 2
        for path, size in (("t/b", 2), ("t/a", 1), ("t/sub/c", 3), ("t/sub/d/e", 4), ("u", 5)):
            store.put_if_absent(path, b"x" * size)
        infos = store.list("t")
        assert [(i.path, i.size, i.is_dir) for i in infos] == [
            ("t/a", 1, False),
            ("t/b", 2, False),
            ("t/sub", 0, True),
        ]
        assert [i.name for i in infos] == ["a", "b", "sub"]
        told = [i.modified for i in infos if not i.is_dir and i.modified is not None]
        assert all(before <= modified <= time.time() + 2 for modified in told)
        assert {*store.list_names("t")} - {"sub"} == {"a", "b"}
        assert [i.path for i in store.list("t/sub")] == ["t/sub/c", "t/sub/d"]
        assert [i.path for i in store.list("")] == ["t", "u"]

    def test_lists_nothing_where_there_is_no_folder(self, store: Store) -> None:
        store.put_if_absent("f", b"1")
        assert store.list("missing") == []
        assert store.list("f") == []
        assert [*store.list_names("missing"), *store.list_names("f")] == []
        assert store.list("f/below") == []

    def test_names_that_hive_partitions_have(self, store: Store) -> None:
        path = "day=2024-01-01 00%3A00/ü=é &#?/x+y.parquet"
        store.put_if_absent(path, b"1")
        assert store.read(path, 1) == b"1"
        assert [i.path for i in store.list("day=2024-01-01 00%3A00/ü=é &#?")] == [path]

    def test_info(self, store: Store) -> None:
        store.put_if_absent("d/f", b"123")
        info, folder = store.info("d/f"), store.info("d")
        assert info is not None
        assert folder is not None
        assert info == FileInfo("d/f", 3, info.modified)
        assert folder.is_dir

    def test_put_if_absent_keeps_the_first(self, store: Store) -> None:
        assert store.put_if_absent("f", b"first") is True
        assert store.put_if_absent("f", b"second") is False
        assert store.read("f", 10) == b"first"

    def test_put_if_absent_has_one_winner(self, store: Store) -> None:
        start = threading.Barrier(8)

        def put(number: int) -> bool:
            start.wait()
            return store.put_if_absent("race/f", b"%d" % number * 1000)

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(put, range(8)))
        assert outcomes.count(True) == 1
        assert store.read("race/f", 1000) == b"%d" % outcomes.index(True) * 1000
        assert [i.name for i in store.list("race")] == ["f"]

    def test_replace(self, store: Store) -> None:
        store.replace("d/f", b"one")
        store.replace("d/f", b"second")
        assert store.read("d/f", 10) == b"second"
        assert [i.size for i in store.list("d")] == [6]

    def test_replace_if_wants_the_version_that_was_read(self, store: Store, version: str) -> None:
        assert version
        assert store.read_versioned("d/f", 3) == (b"one", version)
        second = store.replace_if("d/f", b"two", version)
        assert second not in (None, version)
        assert store.replace_if("d/f", b"three", version) is None
        assert store.read_versioned("d/f", 3) == (b"two", second)
        third = store.replace_if("d/f", memoryview(b"xfourx")[1:5], str(second))
        assert store.read_versioned("d/f", 9) == (b"four", third)
        assert [i.name for i in store.list("d")] == ["f"]

    def test_replace_if_sees_what_others_did(
        self, store: Store, other: Store, version: str
    ) -> None:
        other.replace("d/f", b"other")
        assert store.replace_if("d/f", b"two", version) is None
        data, version = store.read_versioned("d/f", 9)
        assert data == b"other"
        other.delete("d/f")
        assert store.replace_if("d/f", b"two", version) is None
        assert store.info("d/f") is None
        other.put_if_absent("d/f", b"again")
        assert store.replace_if("d/f", b"two", version) is None
        assert store.read("d/f", 9) == b"again"

    def test_replace_if_of_what_is_not_there(self, store: Store, version: str) -> None:
        for path in ("d/g", "nowhere/f", "d"):
            assert store.replace_if(path, b"2", version) is None
        with pytest.raises(NotFoundError):
            store.read_versioned("d/g", 9)
        with pytest.raises(NotFoundError):
            store.read_versioned("d", 9)
        assert [i.path for i in store.list("")] == ["d"]

    def test_read_versioned_refuses_a_file_above_the_limit(
        self, store: Store, version: str
    ) -> None:
        with pytest.raises(LimitError, match="3 bytes"):
            store.read_versioned("d/f", 2)
        assert store.read_versioned("d/f", 3)[1] == version

    def test_replace_if_has_one_winner(self, store: Store, version: str) -> None:
        for round_ in range(3):
            _, version = store.read_versioned("d/f", 9000)
            start = threading.Barrier(6)

            def put(number: int, start: Any = start, version: str = version) -> bool:
                start.wait()
                return None is not store.replace_if("d/f", b"%d" % number * 1000, version)

            numbers = range(round_ * 10, round_ * 10 + 6)
            with ThreadPoolExecutor(6) as pool:
                outcomes = list(pool.map(put, numbers))
            assert outcomes.count(True) == 1
            winner = numbers[outcomes.index(True)]
            assert store.read("d/f", 9000) == b"%d" % winner * 1000

    def test_large_files(self, store: Store) -> None:
        """Clients send them in parts, where a condition is easily forgotten."""
        first, second = bytes(_LARGE_BYTES), b"x" * _LARGE_BYTES
        assert store.put_if_absent("large", first) is True
        assert store.put_if_absent("large", second) is False
        assert store.read("large", _LARGE_BYTES) == first
        store.replace("large", second)
        assert store.read("large", _LARGE_BYTES) == second

    def test_says_whether_a_failed_verb_is_done_with(self, store: Store) -> None:
        assert store.failures_are_final in (True, False)

    def test_says_whether_dead_writers_leave_files(self, store: Store) -> None:
        assert store.writes_beside in (True, False)

    def test_delete(self, store: Store) -> None:
        store.put_if_absent("d/f", b"1")
        store.put_if_absent("d/g", b"1")
        store.delete("d/f")
        store.delete("d/f")
        store.delete("nowhere/f")
        assert [i.path for i in store.list("d")] == ["d/g"]
        assert store.put_if_absent("d/f", b"2") is True

    def test_delete_tree(self, store: Store) -> None:
        for path in ("t/a", "t/b/c", "tt"):
            store.put_if_absent(path, b"1")
        store.delete_tree("t")
        store.delete_tree("t")
        assert [i.path for i in store.list("")] == ["tt"]

    def test_the_root_is_not_written(self, store: Store) -> None:
        for attempt in (
            lambda: store.put_if_absent("", b""),
            lambda: store.replace("", b""),
            lambda: store.replace_if("", b"", "v"),
            lambda: store.delete(""),
            lambda: store.delete_tree(""),
        ):
            with pytest.raises(ValueError, match="root"):
                attempt()

    @pytest.mark.parametrize("path", _UNSAFE_PATHS)
    def test_unsafe_paths_are_refused_by_every_verb(self, store: Store, path: str) -> None:
        for attempt in (
            lambda: store.read(path, 10),
            lambda: store.read_ranges(path, [(0, 1)]),
            lambda: store.open_arrow(path),
            lambda: store.list(path),
            lambda: store.list_names(path),
            lambda: store.info(path),
            lambda: store.put_if_absent(path, b""),
            lambda: store.replace(path, b""),
            lambda: store.read_versioned(path, 10),
            lambda: store.replace_if(path, b"", "v"),
            lambda: store.delete(path),
            lambda: store.delete_tree(path),
        ):
            with pytest.raises(UnsafePathError):
                attempt()

    def test_sees_what_others_commit(self, store: Store, other: Store) -> None:
        """A listing or a size that was cached must not hide a later commit."""
        store.put_if_absent("t/1", b"1")
        assert [i.name for i in store.list("t")] == ["1"]
        assert store.read("t/1", 9) == b"1"
        other.put_if_absent("t/2", b"22")
        assert store.read("t/2", 9) == b"22"
        with store.open_arrow("t/2") as file:
            assert file.read() == b"22"
        assert [i.name for i in store.list("t")] == ["1", "2"]
        other.replace("t/1", b"longer")
        assert store.read("t/1", 9) == b"longer"
        assert [i.size for i in store.list("t")] == [6, 2]
        other.delete("t/2")
        assert store.info("t/2") is None
        with pytest.raises(NotFoundError):
            store.read("t/2", 9)

    def test_many_threads_read(self, store: Store) -> None:
        for number in range(8):
            store.put_if_absent(f"t/{number}", b"%d" % number * 500)

        def read(number: int) -> bool:
            with store.open_arrow(f"t/{number}") as file:
                whole = bytes(file.read())
            return whole == store.read(f"t/{number}", 1000) == b"%d" % number * 500

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, list(range(8)) * 3))

    def test_errors_are_of_the_package(self, store: Store) -> None:
        store.put_if_absent("f", b"1")
        with pytest.raises(StorageError):
            store.read("f/below", 10)
