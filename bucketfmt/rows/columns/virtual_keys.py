"""Record keys and partition paths of rows, made from their columns.

Writers make them, and so do readers of a table that does not store them
(`hoodie.populate.meta.fields=false`). Pure and vectorised. Sources: KeyGenUtils,
KeyGenerator.constructRecordKey, CustomAvroKeyGenerator, RecordContext.virtualKeyExtractor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import KeyEncodingError, SchemaError, UnsupportedError
from bucketfmt.format.keys.record_keys import (
    EMPTY_PLACEHOLDER,
    NULL_PLACEHOLDER,
    KeyEncoding,
    ambiguous_value_error,
    find_ambiguous_marks,
)
from bucketfmt.format.names.paths import (
    DEFAULT_PARTITION,
    ambiguous_partition_error,
    check_partition_path,
    escape_partition_value,
)
from bucketfmt.format.table.table_config import KeyGenerator, TableConfig
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.date_formats import TAKEN_AS_PATHS
from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.columns.time_partitions import TimePartitions

__all__ = ["is_encoding_open", "partition_paths", "record_keys"]

_GENERATORS = {
    KeyGenerator.SIMPLE,
    KeyGenerator.TIMESTAMP,
    KeyGenerator.NON_PARTITION,
    KeyGenerator.CUSTOM,
    KeyGenerator.COMPLEX,
    KeyGenerator.GLOBAL_DELETE,
}

_PARTITION_FIELDS = ("hoodie.table.partition.fields", "hoodie.datasource.write.partitionpath.field")
_KINDS = {"SIMPLE", "TIMESTAMP"}
_SLASHED = "hoodie.datasource.write.slash.separated.date.partitioning"


def is_encoding_open(config: TableConfig) -> bool:
    """Return whether Hudi releases differ in how they write the table's keys: `7` or `id:7`.

    Releases differ before table version 9, with complex keys of one field (HUDI-7001).
    """
    is_complex = config.key_generator is KeyGenerator.COMPLEX
    return is_complex and len(config.record_key_fields) == 1 and config.table_version < 9


def record_keys(
    rows: pa.Table,
    config: TableConfig,
    encoding: KeyEncoding | None = None,
    *,
    are_stored: bool = False,
) -> pa.ChunkedArray:
    """Return the record key of each row, as `format_record_key` would write it.

    Args:
        rows: The rows, with the table's record key fields; a dot in a field leads into a struct.
        config: Gives the fields and the key generator.
        encoding: How a complex key generator writes a single field. None: as Hudi writes to a table
            of this version, NAMED from 9 on.
        are_stored: Whether the rows come from the table, whose writer may have accepted ambiguous
            values.

    Raises:
        KeyEncodingError: all key values of a row are null or empty; or a row of other values would
            have the same key (`find_ambiguous_marks`), unless the rows are stored.
        SchemaError: a key field is not among the columns.
        UnsupportedError: keys of this generator do not follow from columns, or a key field has
            a type without text.
    """
    fields, generator = config.record_key_fields, config.key_generator
    if generator not in _GENERATORS or not fields:
        raise UnsupportedError(
            f"record keys of the key generator {generator.value} cannot be made from columns; "
            "pass the record keys themselves"
        )
    if encoding is None:
        encoding = KeyEncoding.NAMED if config.table_version >= 9 else KeyEncoding.VALUE
    is_named = (
        len(fields) > 1
        or generator is KeyGenerator.GLOBAL_DELETE
        or (generator is KeyGenerator.COMPLEX and encoding is KeyEncoding.NAMED)
    )
    texts = [_texts(rows, field) for field in fields]
    unset = [pc.fill_null(pc.equal(text, ""), True) for text in texts]
    bare = unset[0]
    for mask in unset[1:]:
        bare = pc.and_(bare, mask)
    if pc.any(bare).as_py():
        row = pc.index(bare, True).as_py()
        raise KeyEncodingError(
            f"row {row}: the record key fields {', '.join(fields)} are null or empty; "
            "Hudi takes no such row"
        )
    if not is_named:
        return texts[0]
    if len(fields) > 1 and not are_stored:
        _check_unambiguous(fields, texts)
    parts = []
    for field, text in zip(fields, texts, strict=True):
        written = pc.if_else(pc.equal(text, ""), EMPTY_PLACEHOLDER, text)
        written = pc.fill_null(written, NULL_PLACEHOLDER)
        parts.append(pc.binary_join_element_wise(field, written, ":"))
    return _column(pc.binary_join_element_wise(*parts, ","))


def _check_unambiguous(fields: Sequence[str], texts: Sequence[pa.ChunkedArray]) -> None:
    """Refuse values by which two different rows would have the same key."""
    for position, (field, text) in enumerate(zip(fields, texts, strict=True)):
        suspects = [(word, pc.equal(text, word)) for word in (NULL_PLACEHOLDER, EMPTY_PLACEHOLDER)]
        for mark in find_ambiguous_marks(fields, position):
            suspects.append((mark, pc.match_substring(text, mark)))
        for found, mask in suspects:
            if pc.any(mask).as_py():
                row = pc.index(mask, True).as_py()
                raise ambiguous_value_error(field, text[row].as_py(), found, f"row {row}: ")


def partition_paths(
    rows: pa.Table, config: TableConfig, *, are_stored: bool = False
) -> pa.ChunkedArray:
    """Return the partition path of each row, as `format_partition_path` would write it.

    Fields that the key generator takes as times are written in the table's date format.

    Args:
        rows: The rows, with the table's partition fields; a dot in a field leads into a struct.
        config: Gives the fields, and how paths are made.
        are_stored: Whether the rows come from the table, whose writer may have accepted ambiguous
            values.

    Raises:
        KeyEncodingError: other values have the same path (`ambiguous_partition_error`), unless the
            rows are stored.
        SchemaError: a partition field is not among the columns, or holds no time where the table
            needs a time.
        UnsupportedError: the table's properties do not say how its partition paths are made, or
            a partition field has a type without text.
        UnsafePathError: a value would lead out of the table.
    """
    if not config.partition_fields:
        return pa.chunked_array([pa.repeat(pa.scalar("", pa.string()), rows.num_rows)])
    parts, times_of = [], _find_times(config)
    is_split = times_of.count(False) > 1 and not config.url_encode
    for field, is_time in zip(config.partition_fields, times_of, strict=True):
        if is_time:
            times = TimePartitions.from_properties(config.properties)
            text = times.values(_find(rows, field), field)
        else:
            text = _texts(rows, field)
            if not are_stored:
                _check_own_path(field, text, is_split=is_split)
        text = _map_distinct(text, escape_partition_value) if config.url_encode else text
        text = pc.if_else(pc.fill_null(pc.equal(text, ""), True), DEFAULT_PARTITION, text)
        parts.append(pc.binary_join_element_wise(field, text, "=") if config.hive_style else text)
    return _map_distinct(_column(pc.binary_join_element_wise(*parts, "/")), check_partition_path)


def _check_own_path(field: str, text: pa.ChunkedArray, *, is_split: bool) -> None:
    """Refuse values that share their folder with other values.

    Args:
        field: The partition field.
        text: The values of the field.
        is_split: Whether a "/" in the value could begin the next field. The number of "/" in a
            formatted time is known.
    """
    masks = [pc.equal(text, ""), pc.equal(text, DEFAULT_PARTITION)]
    if is_split:
        masks.append(pc.match_substring(text, "/"))
    for mask in masks:
        if pc.any(mask).as_py():
            row = pc.index(mask, True).as_py()
            raise ambiguous_partition_error(field, text[row].as_py(), f"row {row}: ")


def _find_times(config: TableConfig) -> list[bool]:
    """Return per partition field whether its values are formatted times."""
    fields, generator = config.partition_fields, config.key_generator
    if config.partition_path_holds_values:
        return [False] * len(fields)
    if generator is KeyGenerator.TIMESTAMP and len(fields) == 1 and not _is_slashed(config):
        return [True]
    if generator is KeyGenerator.CUSTOM and not _is_slashed(config):
        for key in _PARTITION_FIELDS:
            pairs = [item.split(":") for item in config.properties.get(key, "").split(",")]
            kinds = [pair[-1].strip().upper() for pair in pairs]
            if [pair[0].strip() for pair in pairs] == list(fields) and set(kinds) <= _KINDS:
                return [kind == "TIMESTAMP" for kind in kinds]
        raise UnsupportedError(
            f"which of the partition fields {', '.join(fields)} are times is not recorded; put it "
            f"into hoodie.properties: {_PARTITION_FIELDS[1]}={fields[0]}:SIMPLE or :TIMESTAMP, ..."
        )
    raise UnsupportedError(
        "the table's partition paths are not made of its columns' values; " + TAKEN_AS_PATHS
    )


def _is_slashed(config: TableConfig) -> bool:
    return config.properties.get(_SLASHED, "").lower() == "true"


def _texts(rows: pa.Table, field: str) -> pa.ChunkedArray:
    chunks = [java_strings(chunk).cast(pa.string()) for chunk in _find(rows, field).chunks]
    return pa.chunked_array(chunks, pa.string())


def _find(rows: pa.Table, field: str) -> pa.ChunkedArray:
    column = find_column(rows, field)
    if column is None:
        raise SchemaError(f"the rows have no column {field}, which keys and partitions are made of")
    return column


def _map_distinct(column: pa.ChunkedArray, function: Callable[[str], str]) -> pa.ChunkedArray:
    """Return `function` of each text; the function is called once for each distinct text."""
    encoded = column.combine_chunks().dictionary_encode()
    texts = [None if text is None else function(text) for text in encoded.dictionary.to_pylist()]
    return _column(pa.array(texts, pa.string()).take(encoded.indices))


def _column(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
