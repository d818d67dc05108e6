"""Rows by the file groups they go to, spilled to disk where they are more than memory should hold.

`find_targets` is pure; `GroupedRows` writes temporary files outside of the table.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bucketfmt.errors import StorageError
from bucketfmt.location.located import encode_paths, keys_by_partition
from bucketfmt.location.locator import Locator
from bucketfmt.location.routes import GroupRef, Route
from bucketfmt.process import this_process

__all__ = ["GroupedRows", "find_targets", "route_rows"]

_BYTES_IN_MEMORY = 224 << 20
_SORTED_BY_RADIX = 1 << 16  # NumPy sorts numbers of 16 bits three times as fast


def route_rows(
    rows: pa.Table,
    record_keys: pa.ChunkedArray,
    partition_paths: pa.ChunkedArray,
    locator: Locator,
) -> Iterator[tuple[Route, pa.Table]]:
    """Yield the rows of each route, in the order they came in.

    Args:
        rows: Any columns.
        record_keys: The record key of each.
        partition_paths: The partition path of each.
        locator: Tells the route of each key.

    Raises:
        KeyEncodingError: a key on which Hudi itself never returns.
    """
    numbers = np.empty(rows.num_rows, np.int64)
    found = [*keys_by_partition((), record_keys, partition_paths)]
    locator.prepare([path for path, *_ in found])
    for path, own_keys, own in found:
        numbers[own] = locator.route(path, own_keys)
    yield from split_rows(rows, partition_paths, numbers)


def split_rows(
    rows: pa.Table, partition_paths: pa.ChunkedArray, numbers: NDArray[np.integer[Any]]
) -> Iterator[tuple[Route, pa.Table]]:
    """Yield the rows of each route, in the order they came in.

    Args:
        rows: Any columns.
        partition_paths: The partition path of each.
        numbers: The number of the route of each, not negative.
    """
    if not rows.num_rows:
        return
    paths, codes = encode_paths(partition_paths)
    order = _stable_order(numbers)
    if len(paths) > 1:
        order = order[_stable_order(codes[order])]
    codes, numbers = codes[order], numbers[order]
    is_first = np.r_[True, (codes[1:] != codes[:-1]) | (numbers[1:] != numbers[:-1])]
    starts = np.flatnonzero(is_first)
    in_order = rows.take(pa.array(order)) if len(starts) > 1 else rows
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        route = Route(paths[codes[start]], int(numbers[start]))
        yield route, in_order.slice(start, end - start)


def find_targets(
    counts: Mapping[Route, int],
    targets_of: Callable[[str, Mapping[int, int]], Mapping[int, Iterable[GroupRef]]],
) -> Iterator[tuple[GroupRef, list[Route]]]:
    """Yield the file groups that take rows, each with all routes whose rows it takes.

    Args:
        counts: How many rows each route has, in the order of the routes.
        targets_of: Returns the file groups that take the rows of the routes of a partition, by
            the numbers of the routes; asked when the groups of the partitions before it were taken.
    """
    for path, own in groupby(counts, key=lambda route: route.partition_path):
        routes = {route.number: route for route in own}
        targets = targets_of(path, {number: counts[route] for number, route in routes.items()})
        found: dict[GroupRef, list[Route]] = {}
        for number, route in routes.items():
            for group in targets[number]:
                found.setdefault(group, []).append(route)
        yield from found.items()


def _stable_order(numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the places of the numbers, which are not negative, in their order."""
    if numbers.max() < _SORTED_BY_RADIX:
        numbers = numbers.astype(np.uint16)
    return np.argsort(numbers, kind="stable")


class GroupedRows:
    """Rows gathered by route. A context: spilled rows are removed at its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0
        self._in_memory: dict[Route, list[pa.Table]] = defaultdict(list)
        self._on_disk: dict[Route, list[tuple[Path, range]]] = defaultdict(list)
        self._num_rows: Counter[Route] = Counter()
        self._process = this_process()
        # No `TemporaryDirectory`: a forked child that exits would remove what its parent needs.
        self._folder: Path | None = None

    def __enter__(self) -> GroupedRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._in_memory.clear()
        if self._folder is not None and self._process == this_process():
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def routes(self) -> list[Route]:
        """The routes there are rows for, sorted."""
        return sorted(self._num_rows)

    @property
    def counts(self) -> dict[Route, int]:
        """How many rows each of the routes has, in their order."""
        return {route: self._num_rows[route] for route in self.routes}

    def add(self, route: Route, rows: pa.Table) -> None:
        """Take rows of a route. The rows of all routes have one schema."""
        self._in_memory[route].append(rows)
        self._bytes += rows.nbytes
        self._num_rows[route] += rows.num_rows
        if self._bytes > _BYTES_IN_MEMORY:
            self._spill()

    def num_rows(self, routes: Iterable[Route]) -> int:
        """Return how many rows of these routes there are."""
        return sum(self._num_rows[route] for route in routes)

    def rows(self, routes: Sequence[Route]) -> pa.Table:
        """Return the rows of routes, route by route in the order they were given.

        May be called in threads.
        """
        with self._lock:
            if self._on_disk and self._in_memory:  # what writes files needs the memory now
                self._spill()
        parts = []
        for route in routes:
            for path, numbers in self._on_disk.get(route, ()):
                with pa.OSFile(str(path)) as source:
                    reader = pa.ipc.open_file(source)
                    batches = [reader.get_batch(number) for number in numbers]
                    parts.append(pa.Table.from_batches(batches, reader.schema))
            parts += self._in_memory.get(route, ())
        return pa.concat_tables(parts)

    def _spill(self) -> None:
        try:
            self._write_to_disk()
        except OSError as error:
            raise StorageError(
                f"temporary files cannot be written: {error}; set TMPDIR to a folder with room"
            ) from error
        self._in_memory.clear()
        self._bytes = 0
        pa.default_memory_pool().release_unused()

    def _write_to_disk(self) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="bucketfmt-"))
        path = self._folder / f"{len(list(self._folder.iterdir()))}.arrow"
        schema = next(iter(self._in_memory.values()))[0].schema
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        written = 0
        with (
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, schema, options=options) as writer,
        ):
            for route, tables in self._in_memory.items():
                batches = pa.concat_tables(tables).combine_chunks().to_batches()
                for batch in batches:
                    writer.write_batch(batch)
                self._on_disk[route].append((path, range(written, written + len(batches))))
                written += len(batches)
