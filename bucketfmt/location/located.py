"""Where keys live, as a locator tells: values, without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["NAMED_PARTITIONS", "LateRoutes", "Located", "Settled", "encode_paths"]
__all__ += ["keys_by_partition"]


@dataclass(frozen=True, eq=False)
class Located:
    """Where some keys of one partition live.

    Attributes:
        partition_path: The partition; None of keys that are in no partition.
        rows: Which of the keys that were asked for. A key that may live in several places is there
            as often.
        places: A number for each of these.
        slices: The file slices that may hold keys of a place, by its number. A place that is
            left out has no file group.
        buckets: The bucket id of each of these; None where the index has no buckets.
    """

    partition_path: str | None
    rows: np.ndarray
    places: np.ndarray
    slices: Mapping[int, Sequence[FileSlice]]
    buckets: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Settled:
    """Which file groups have the keys of rows that are to be written.

    Attributes:
        partition_paths: Where each key is stored; null for a new key.
        numbers: The number of each stored key's route in that partition; of a new key its number
            in any partition.
    """

    partition_paths: pa.Array
    numbers: np.ndarray


class LateRoutes(Protocol):
    """Tells which file groups have keys, where that does not follow from the keys."""

    has_global_keys: bool
    """Whether a key is in one partition at most, whichever partition its rows name."""

    moves_keys: bool
    """Whether a row of another partition than the stored one moves the key there."""

    def settle(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Settled:
        """Return the routes of keys as the table has them now.

        Args:
            record_keys: The keys.
            partition_paths: The partition of each; None where the keys are global.

        Raises:
            CorruptError: the index contradicts the table, or is damaged.
            StorageError: the store failed.
        """

    def place_new(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray
    ) -> np.ndarray:
        """Return the numbers of routes that take keys whether they are stored or not.

        Args:
            record_keys: The keys.
            partition_paths: The partition that each key goes to.
        """


NAMED_PARTITIONS = (
    "the keys name their partitions, or the table has none, so there is nothing to choose; leave "
    "partitions= out"
)


def keys_by_partition(
    every_path: Sequence[str],
    record_keys: pa.ChunkedArray,
    partition_paths: pa.ChunkedArray | None,
    partitions: Sequence[str] | None = None,
) -> Iterator[tuple[str, pa.ChunkedArray, np.ndarray]]:
    """Yield each partition path with its keys, and with their places among all keys.

    Args:
        every_path: The partitions of the table.
        record_keys: The keys.
        partition_paths: The partition of each; None for keys that may be in any partition.
        partitions: The partitions to look into, for keys without a partition; all by default.

    Raises:
        ValueError: both `partition_paths` and `partitions` are given.
    """
    every_row = np.arange(len(record_keys))
    if partition_paths is None:
        for path in every_path if partitions is None else partitions:
            yield path, record_keys, every_row
        return
    if partitions is not None:
        raise ValueError(NAMED_PARTITIONS)
    paths, codes = encode_paths(partition_paths)
    if len(paths) < 2:
        yield from ((path, record_keys, every_row) for path in paths)
        return
    order = np.argsort(codes, kind="stable")
    for path, rows in zip(paths, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True):
        yield path, record_keys.take(pa.array(rows)), rows


def encode_paths(partition_paths: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """Return the distinct paths, none of them null, and for each place the number of its path."""
    if pc.max(pc.binary_length(partition_paths)).as_py() == 0:
        return [""], np.zeros(len(partition_paths), np.int32)  # sooner than by hashing each
    encoded = partition_paths.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
