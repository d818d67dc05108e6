"""The next base file of a file group: the rows of the one before, and what changes them.

Pure; the rows of the old file come as a stream, and the old file's footer with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from bucketfmt.rows.base_file import BaseFileReader
from bucketfmt.rows.base_file_writer import BaseFileWriter, Codec, KeyFooter
from bucketfmt.rows.merge import MergedLog

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
    """

    data: pa.Buffer = field(repr=False)
    num_rows: int
    num_updates: int
    num_inserts: int
    num_deletes: int


def encode_merged_base(
    log: MergedLog,
    base_rows: Iterable[pa.Table],
    replaced: BaseFileReader | None,
    avro_schema: str,
    constants: Mapping[str, str | None],
    *,
    with_key_footer: bool,
    codec: Codec,
) -> MergedBase:
    """Return the base file that `log` makes of the one before.

    Args:
        log: The changes; it is used up.
        base_rows: The rows of the file before.
        replaced: That file, for the keys its footer tells; None if there was none.
        avro_schema: Of the file.
        constants: The columns that have one value in all of the file; rows come without them.
        with_key_footer: Whether the footer is to tell keys.
        codec: Of the file.

    Raises:
        SchemaError: rows do not fit the schema.
    """
    footer = known = None
    if with_key_footer:
        if replaced is not None and not log.has_deletes:
            known = KeyFooter.resume(replaced)
        footer = known or KeyFooter()
    sink = pa.BufferOutputStream()
    writer = BaseFileWriter(sink, avro_schema, footer, codec, constants=constants)
    names = writer.schema.names
    before = after = 0
    for rows in base_rows:
        standing = log.apply(rows)
        before, after = before + rows.num_rows, after + standing.num_rows
        writer.write(standing.select(names), are_keys_new=known is None)
    inserts = log.remaining()
    writer.write(inserts.select(names))
    writer.close()
    return MergedBase(
        sink.getvalue(),
        writer.num_rows,
        log.num_updates,
        inserts.num_rows,
        before - after,
    )
