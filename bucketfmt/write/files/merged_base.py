"""The next base file of a file group: the rows of the one before, and what changes them.

Pure; the rows of the old file come as a stream, and the old file's footer with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.choices import Codec
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, WriteStat
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.merging.merge import MergedLog
from bucketfmt.rows.merging.ordering import Indexes
from bucketfmt.rows.parquet.base_file_writer import ROW_GROUP_BYTES, BaseFileWriter
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.rows.row_file import RowFile
from bucketfmt.slices.slice_reader import BasePiece
from bucketfmt.snapshot.data_files.files import DataFile

__all__ = ["MergedBase", "encode_merged_base"]


@dataclass(frozen=True)
class MergedBase:
    """A base file, and what became of the rows of the one before.

    Attributes:
        data: The file.
        num_rows: Its rows.
        num_updates: How many of them replaced an older row of their key.
        num_inserts: How many have a key that the file before had not.
        num_deletes: Rows of the file before whose key has no row in it.
        written_keys: The keys that the file before had not.
        removed_keys: The keys that only the file before had.
    """

    data: pa.Buffer = field(repr=False)
    num_rows: int
    num_updates: int
    num_inserts: int
    num_deletes: int
    written_keys: pa.ChunkedArray = field(repr=False)
    removed_keys: pa.ChunkedArray = field(repr=False)

    def complete(self, stat: WriteStat, base: DataFile | None, table_version: int) -> WriteStat:
        """Return the stat of the file with what became of the rows of the one before.

        Args:
            stat: Of the file, as it was put.
            base: The file before; None if there was none.
            table_version: 6, 8 or 9.
        """
        return msgspec.structs.replace(
            stat,
            prev_commit=NULL_COMMIT if base is None else base.name.instant,
            prev_base_file=str(base.name) if base and table_version >= 8 else None,
            num_writes=self.num_rows,
            num_deletes=self.num_deletes,
            num_update_writes=self.num_updates,
            num_inserts=self.num_inserts,
        )


def encode_merged_base(
    log: MergedLog,
    pieces: Iterable[BasePiece],
    replaced: RowFile | None,
    avro_schema: str,
    constants: Mapping[str, str | None],
    *,
    key_footer: KeyFooter | None,
    codec: Codec,
) -> MergedBase:
    """Return the base file that `log` makes of the one before.

    Args:
        log: The changes; it is used up.
        pieces: The file before. What it stores is copied where it stays as it is.
        replaced: That file, for the keys its footer tells; None if there was none.
        avro_schema: Of the file.
        constants: The columns that have one value in all of the file; rows come without them.
        key_footer: Takes the keys, where those of the file before are not gone on with; None if
            the footer is to tell no keys.
        codec: Of the file.

    Raises:
        SchemaError: rows do not fit the schema.
    """
    known = None
    if key_footer is not None and replaced is not None and not log.has_deletes:
        known = KeyFooter.resume(replaced, len(log.record_keys))
    sink = pa.BufferOutputStream()
    pieces = iter(pieces)
    first = list(islice(pieces, 1))
    copying = any(piece.stored for piece in first)
    pieces = chain(first, pieces)
    del first  # as below
    footer = known or key_footer
    writer = BaseFileWriter(sink, avro_schema, footer, codec, constants=constants, copying=copying)
    names = writer.schema.names

    def write(piece: BasePiece) -> None:
        if piece.stored:
            writer.write_row_group(piece.rows, piece.stored, are_keys_new=known is None)
        else:
            writer.write(piece.rows, are_keys_new=known is None)

    before = after = 0
    removed = _RemovedKeys(log)
    last: BasePiece | None = None
    for piece in pieces:
        if last is not None:
            write(last)
            last = None
        standing = _standing(log, piece, names, removed)
        before, after = before + piece.rows.num_rows, after + standing.rows.num_rows
        if standing.rows.nbytes < ROW_GROUP_BYTES // 2:
            last = standing  # it takes the inserts, if nothing follows
        else:
            write(standing)
        del piece, standing  # or they are held while the next is read
    inserts = log.remaining()
    if last is not None:
        write(BasePiece(last.rows) if inserts.num_rows else last)
    writer.write(inserts.select(names))
    writer.close()
    return MergedBase(
        sink.getvalue(),
        writer.num_rows,
        log.num_updates,
        inserts.num_rows,
        before - after,
        inserts.column(RECORD_KEY),
        removed.keys,
    )


class _RemovedKeys:
    """Collects the keys of which no row is left."""

    def __init__(self, log: MergedLog) -> None:
        self._deleted = log.deleted_keys
        self._gone: list[pa.Array] = []
        self._left: list[pa.Array] = []  # of a key that was there twice

    def add(self, rows: pa.Table, gone: Indexes) -> None:
        """Take the rows of a piece, and the places of those that go."""
        if not len(self._deleted):
            return
        keys = rows.column(RECORD_KEY).cast(self._deleted.type)
        stays = np.ones(rows.num_rows, np.bool_)
        stays[gone] = False
        left = keys.filter(pa.array(stays))
        self._gone += keys.filter(pa.array(~stays)).chunks
        self._left += left.filter(pc.is_in(left, self._deleted)).chunks

    @property
    def keys(self) -> pa.ChunkedArray:
        """Those of all pieces so far."""
        kind = self._deleted.type
        if not self._gone:
            return pa.chunked_array([], kind)
        gone, left = (pa.chunked_array(own, kind) for own in (self._gone, self._left))
        return gone.filter(pc.invert(pc.is_in(gone, left)))


def _standing(
    log: MergedLog, piece: BasePiece, names: list[str], removed: _RemovedKeys
) -> BasePiece:
    """Return the rows that are left of a piece, and what is stored of them already."""
    replacements = log.find_replacements(piece.rows)
    removed.add(piece.rows, replacements.gone)
    if not piece.stored or len(replacements.gone):
        return BasePiece(replacements.apply(piece.rows).select(names))
    changed = replacements.find_changed_columns(piece.rows)
    rows = replacements.apply(piece.rows, changed).select(names)
    kept = {name: piece.stored[name] for name in names if name in piece.stored.keys() - changed}
    return BasePiece(rows, kept)
