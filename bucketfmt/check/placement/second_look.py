"""What is behind keys that seem to be in the wrong place: asked again of merged rows.

I/O: reads the file slices that gave cause, and those the keys should be in. B006, B008, B009,
P001. Only what a reader would see counts: a record that was deleted or updated since is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.check.placement.index_view import IndexView, infer_buckets
from bucketfmt.check.placement.keys import (
    KeyTally,
    describe_best_fit,
    expected_key_prefix,
    is_misplaced,
    key_prefix,
)
from bucketfmt.check.report import Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, UnsupportedError
from bucketfmt.index.layout import BucketLayout
from bucketfmt.rows.columns.column_paths import find_column, top_column
from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.merged_keys import merged_keys, merged_rows
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["SecondLook"]

_KEYS_MAX = 200_000  # misplaced keys of one slice that are followed up
_SHOWN = 3
_TEXT = pa.string()


class SecondLook:
    """Reads merged rows of the slices of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._config = snapshot.state.config

    def look_at_partition(
        self, tallies: Sequence[KeyTally], slices: Sequence[FileSlice], view: IndexView
    ) -> Iterator[Event]:
        """Yield B006 and B008 for the misplaced keys of one partition, or the P001 behind them.

        Args:
            tallies: Of the slices with misplaced keys.
            slices: All live slices of the partition.
            view: The index.
        """
        if view.has_rules:
            index, sample = infer_buckets(self._snapshot, slices, view)
            partition_path = slices[0].partition_path
            stated = view.num_buckets(partition_path)
            if index is not None and index.num_buckets != stated:
                yield Finding.of(
                    "P001",
                    f"the rule gives {stated} buckets, but {index.num_buckets} is the only number "
                    f"that fits {sample.num_keys} keys",
                    partition=partition_path,
                    file_groups=[(s.partition_path, s.file_id) for s in slices],
                )
                return
        confirmed = [(tally, self._misplaced_keys(tally)) for tally in tallies]
        everywhere = pa.chunked_array([keys for _, keys in confirmed], _TEXT)
        counts = pc.value_counts(everywhere.combine_chunks())
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        for tally, keys in confirmed:
            if len(keys):
                yield from self._misplaced(tally, keys, repeated, slices)

    def _misplaced_keys(self, tally: KeyTally) -> pa.Array:
        """Return the misplaced keys a reader sees; as tallied, where the log cannot be merged."""
        layout, bucket_id = tally.layout, tally.bucket_id
        if layout is None or bucket_id is None:
            return pa.array([], _TEXT)
        found: list[pa.Array] = []
        try:
            for keys in merged_keys(self._snapshot, tally.file_slice):
                wrong = is_misplaced(keys, layout, bucket_id)
                found.append(keys.filter(pa.array(wrong)))
                if sum(map(len, found)) >= _KEYS_MAX:
                    break
        except BucketfmtError:
            found = [pc.unique(pa.chunked_array(tally.suspects, _TEXT))]
        return pa.concat_arrays([pa.array([], _TEXT), *found])

    def _misplaced(
        self, tally: KeyTally, keys: pa.Array, repeated: pa.Array, slices: Sequence[FileSlice]
    ) -> Iterator[Finding]:
        layout, bucket_id = tally.layout, tally.bucket_id
        if layout is None or bucket_id is None:
            return
        targets = layout.assign(keys)
        is_double = pc.is_in(keys, value_set=repeated).to_numpy(zero_copy_only=False).copy()
        others: list[FileSlice] = []
        for target in np.unique(targets).tolist():
            at_home = keys.filter(pa.array(targets == target))
            there = self._find(at_home, _slices_of(slices, layout, target))
            if len(there):
                is_double |= pc.is_in(keys, value_set=there).to_numpy(zero_copy_only=False)
                others += _slices_of(slices, layout, target)
        doubles, alone = keys.filter(pa.array(is_double)), keys.filter(pa.array(~is_double))
        path = tally.file_slice.partition_path
        if len(doubles):
            yield Finding.of(
                "B008",
                f"{len(doubles)} keys of this bucket are in another one too: {_show(doubles)}",
                partition=path,
                bucket=bucket_id,
                slices=[tally.file_slice, *others],
            )
        if len(alone):
            belongs = int(layout.assign(alone.slice(0, 1))[0])
            fields = self._config.record_key_fields or layout.hash_fields
            fit = describe_best_fit(alone, layout, bucket_id, fields)
            yield Finding.of(
                "B006",
                f"{len(alone)} keys of this bucket belong in others: {_show(alone)}, the first in "
                f"{belongs}; {fit}",
                partition=path,
                bucket=bucket_id,
                slices=[tally.file_slice],
            )

    def count_shared_keys(self, slices: Sequence[FileSlice]) -> int | None:
        """Return how many keys are in more than one slice; None where a slice cannot be read."""
        seen, shared = pa.array([], _TEXT), 0
        try:
            for file_slice in slices:
                own = pa.concat_arrays(
                    [pa.array([], _TEXT), *merged_keys(self._snapshot, file_slice)]
                )
                own = pc.unique(own)
                shared += pc.sum(pc.is_in(own, value_set=seen), min_count=0).as_py()
                seen = pa.concat_arrays([seen, own])
        except (BucketfmtError, pa.ArrowException):
            return None
        return shared

    def _find(self, keys: pa.Array, slices: Sequence[FileSlice]) -> pa.Array:
        """Return those of `keys` that readers also see in `slices`."""
        found = [pa.array([], _TEXT)]
        with suppress(BucketfmtError):  # told where it was examined
            for file_slice in slices:
                for batch in merged_keys(self._snapshot, file_slice):
                    found.append(batch.filter(pc.is_in(batch, value_set=keys)))
        return pa.concat_arrays(found)

    # -- how keys are written

    def look_at_encodings(
        self, named: Mapping[str, FileSlice], plain: Mapping[str, FileSlice]
    ) -> Iterator[Event]:
        """Yield B009 where keys of a single field are written both `7` and `id:7`, or as the
        table's key generator never writes them.

        Args:
            named: Slices with keys that begin with the field's name, by any identity.
            plain: Slices with others.
        """
        prefix, expected = key_prefix(self._config), expected_key_prefix(self._config)
        if prefix is None or not (named or plain) or (expected is False and not named):
            return
        if not named and expected is not True:
            return
        if not named:
            yield Finding.of(
                "B009",
                f"no key begins with {prefix!r}, as all that Hudi 1.1 and later write to this "
                "table will: it was upgraded from a version that writes them without",
                severity="warning",
            )
            return
        try:
            named_slices = [s for s in named.values() if self._is_written_with(s, prefix)]
            plain_slices = [s for s in plain.values() if self._is_written_with(s, "")]
        except UnsupportedError as error:
            yield NotChecked("how keys are written", error.message, is_gap=False)
            return
        except BucketfmtError:
            return  # told where the files were examined
        if named_slices and plain_slices:
            evidence = f"some keys begin with {prefix!r} and some do not, for values that do not"
        elif named_slices and expected is False:
            evidence = f"keys begin with {prefix!r}, which the key generator "
            evidence += f"{self._config.key_generator.value} does not write"
        else:
            return
        few = min(named_slices, plain_slices or named_slices, key=len)
        partitions = {file_slice.partition_path for file_slice in few}
        yield Finding.of(
            "B009",
            evidence,
            partition=next(iter(partitions)) if len(partitions) == 1 else None,
            slices=few,
        )

    def _is_written_with(self, file_slice: FileSlice, prefix: str) -> bool:
        """Return whether a key of the slice is `prefix` and the value of the key field."""
        field = self._config.record_key_fields[0]
        top = top_column(self._snapshot.schema.data.names, field)
        for rows in merged_rows(self._snapshot, file_slice, [RECORD_KEY, top]):
            column = find_column(rows, field)
            if column is None:
                continue
            values = java_strings(column.combine_chunks()).cast(_TEXT)
            written = pc.binary_join_element_wise(prefix, values, "")
            keys = rows.column(RECORD_KEY).combine_chunks().cast(_TEXT)
            if pc.any(pc.equal(keys, written)).as_py():
                return True
        return False


def _slices_of(
    slices: Sequence[FileSlice], layout: BucketLayout, bucket_id: int
) -> Sequence[FileSlice]:
    return [s for s in slices if layout.bucket_of(s.file_id) == bucket_id]


def _show(keys: pa.Array) -> str:
    shown = ", ".join(repr(key[:80]) for key in keys.slice(0, _SHOWN).to_pylist())
    return shown + (", ..." if len(keys) > _SHOWN else "")
