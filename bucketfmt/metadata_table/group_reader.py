"""The records of one file group of the metadata table: its base file and its log, merged.

I/O: reads a small base file whole and the blocks that are asked for of a large one; reads log
files whole. Source: HoodieBackedTableMetadata, HoodieMergedLogRecordScanner.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    NotFoundError,
    UnsupportedError,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.hfile.entry_kernels import EntryColumns, sorted_places
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.log.delete_records import decode_delete_block
from bucketfmt.format.log.log_block import BlockType, CorruptSpan, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import select_blocks
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import (
    MetadataRecord,
    MetadataSchema,
    RecordLocation,
    decode_metadata_record,
    decode_metadata_schema,
)
from bucketfmt.format.metadata.record_location_kernels import (
    RecordLocations,
    decode_record_locations,
)
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.merge_records import merge_records
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.log_files import load_log_file
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import beside, map_in_order, reader_count

__all__ = ["GroupReader"]

_WHOLE_BYTES = 8 << 20  # a file up to this size is read in one request
_SCHEMA = b"schema"
_BYTES = pa.large_binary()
_CODED = pa.dictionary(pa.int32(), _BYTES)


@dataclass(frozen=True)
class _Layer:
    """Records that one write added, or keys that it deleted.

    Attributes:
        path: Of the file that the layer is in.
        records: The records by key; None of a layer that deletes.
        schema: Of the records.
        deleted: The keys that the write deleted.
    """

    path: str
    records: HFile | None = None
    schema: MetadataSchema | None = None
    deleted: frozenset[bytes] = frozenset()

    def decode(self, value: Buffer) -> MetadataRecord:
        """Return what a value of the layer says."""
        if self.schema is None:
            raise CorruptError("an HFile of the metadata table without schema", path=self.path)
        return decode_metadata_record(value, self.schema)

    def decode_locations(self, values: pa.LargeBinaryArray) -> RecordLocations:
        """Return what values of the record index say."""
        if self.schema is None:
            raise CorruptError("an HFile of the metadata table without schema", path=self.path)
        return decode_record_locations(values, self.schema)


class _Columns(NamedTuple):
    """Keys of records, in any order, and their encoded values.

    Attributes:
        keys: `large_binary`.
        values: A dictionary of `large_binary`; null where the record is deleted.
    """

    keys: pa.LargeBinaryArray
    values: pa.DictionaryArray


class GroupReader:
    """Looks up and scans the records of a file group. What was read is kept, if it may be.

    Attributes:
        file_slice: The files of the file group that count.
    """

    def __init__(
        self,
        store: Store,
        file_slice: FileSlice,
        is_valid_instant: Callable[[str], bool],
        replaces: bool,
        limits: Limits,
        *,
        keeps_files: bool = True,
    ) -> None:
        """Prepare to read.

        Args:
            store: The files of the metadata table.
            file_slice: Its files that count.
            is_valid_instant: Whether the log blocks of an instant count.
            replaces: Whether the newest record of a key stands alone, so that older records need
                not be looked for.
            limits: Bounds on what is read.
            keeps_files: Whether files that are read whole are kept; else they are read again.
        """
        self.file_slice = file_slice
        self._keeps = keeps_files or file_slice.size > _WHOLE_BYTES
        self._store = store
        self._is_valid_instant = is_valid_instant
        self._replaces = replaces
        self._limits = limits

    def lookup(
        self, keys: Sequence[bytes], owns: Callable[[bytes], bool] | None = None
    ) -> list[MetadataRecord | None]:
        """Return the record of each key, None for a key without one.

        Args:
            keys: Of records.
            owns: Whether a key belongs into this file group, of which each file is asked.

        Raises:
            CorruptError: a file is damaged, or is not of this file group.
            UnsupportedError: a file or a record is of a kind that is not read.
            StorageError: the store failed.
        """
        found: list[list[MetadataRecord]] = [[] for _ in keys]  # the newest first
        wanted = list(range(len(keys)))
        for layer in reversed(self._layers):
            if not wanted:
                break
            wanted = [number for number in wanted if keys[number] not in layer.deleted]
            if layer.records is None:
                continue
            with self._reading(layer):
                _check_place(layer.records, owns)
                values = layer.records.find([keys[number] for number in wanted])
                for number, value in zip(wanted, values, strict=True):
                    if value is not None:
                        found[number].append(layer.decode(value))
            if self._replaces:
                wanted = [number for number in wanted if not found[number]]
        return [merge_records(records[::-1]) if records else None for records in found]

    def locate(
        self, keys: pa.LargeBinaryArray, owns: Callable[[bytes], bool] | None = None
    ) -> RecordLocations:
        """Return the locations of keys, in a file group of the record index: as `lookup`, faster.

        Args:
            keys: `large_binary` without nulls, in any order.
            owns: As in `lookup`.
        """
        numbers = np.full(len(keys), -1, np.int32)
        locations: list[RecordLocation] = []
        wanted = np.arange(len(keys))
        for layer in reversed(self._layers):
            if not len(wanted):
                break
            sought = keys.take(pa.array(wanted))
            if layer.records is None:
                gone = pc.is_in(sought, pa.array(layer.deleted, pa.large_binary()))
                wanted = wanted[~gone.to_numpy(zero_copy_only=False)]
                continue
            with self._reading(layer):
                _check_place(layer.records, owns)
                found = layer.decode_locations(layer.records.find_all(sought))
            is_found = found.numbers >= 0
            numbers[wanted[is_found]] = found.numbers[is_found] + len(locations)
            locations += found.locations
            wanted = wanted[~is_found]
        return RecordLocations(locations, numbers)

    def with_logs(self, names: Container[str]) -> GroupReader:
        """Return a reader of the base file and of some of the log files.

        Args:
            names: Of the log files.
        """
        logs = tuple(file for file in self.file_slice.log_files if str(file.name) in names)
        return GroupReader(
            self._store,
            msgspec.structs.replace(self.file_slice, log_files=logs),
            self._is_valid_instant,
            self._replaces,
            self._limits,
        )

    def logged_keys(self, names: Container[str]) -> pa.LargeBinaryArray:
        """Return the keys of records that some of the log files add or delete.

        Args:
            names: Of the log files.

        Raises:
            CorruptError, UnsupportedError, StorageError: as `scan`.
        """
        found = [pa.array([], _BYTES)]
        for layer in self.with_logs(names)._log_layers():
            found.append(pa.array(layer.deleted, _BYTES))
            if layer.records is not None:
                with self._reading(layer):
                    found += (batch.keys for batch in layer.records.batches())
        return pa.concat_arrays(found)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, MetadataRecord]]:
        """Yield the keys that begin with a prefix, in order, each with its record.

        Raises:
            CorruptError: a file is damaged.
            UnsupportedError: a file or a record is of a kind that is not read.
            StorageError: the store failed.
        """
        streams = [self._entries(n, layer, prefix) for n, layer in enumerate(self._layers)]
        for key, entries in groupby(merge(*streams, key=itemgetter(0, 1)), itemgetter(0)):
            records: list[MetadataRecord] = []
            for _, _, record in entries:
                if record is None or self._replaces:
                    records.clear()
                if record is not None:
                    records.append(record)
            if records:
                yield key, merge_records(records)

    def scan_columns(self, schema: MetadataSchema) -> EntryColumns:
        """Return all records, encoded, in the order of their keys.

        Records that no log file has a key of are passed on as they are stored. Where records of a
        key add up, those whose key is in a log file are merged, and left out if they say that they
        are deleted.

        Args:
            schema: By which to encode.

        Raises:
            CorruptError, UnsupportedError, StorageError: as `scan`.
        """
        num_bases = int(self.file_slice.base_file is not None)
        layers = self._layers
        if self._replaces:
            parts = [part for layer in layers for part in self._columns_of(layer, schema)]
        else:
            parts = [part for own in layers[:num_bases] for part in self._columns_of(own, schema)]
            logged = [
                part.keys for own in layers[num_bases:] for part in self._columns_of(own, schema)
            ]
            parts.append(self._merged(pa.chunked_array(logged, _BYTES).unique(), schema))
        keys = pa.concat_arrays([pa.array([], _BYTES), *(part.keys for part in parts)])
        values = pa.chunked_array([part.values for part in parts], _CODED).unify_dictionaries()
        newest = pa.array(sorted_places(keys))
        keys, values = keys.take(newest), values.combine_chunks().take(newest)
        stays = values.is_valid()
        return EntryColumns(keys.filter(stays), values.filter(stays))

    def _columns_of(self, layer: _Layer, schema: MetadataSchema) -> Iterator[_Columns]:
        """Yield the keys of a layer, and their values by a schema."""
        if layer.records is None:
            gone = pa.array(layer.deleted, _BYTES)
            yield _Columns(gone, pa.nulls(len(gone), _BYTES).dictionary_encode())
            return
        with self._reading(layer):
            for batch in layer.records.batches():
                coded = batch.values.dictionary_encode()
                if layer.schema != schema:
                    found = [layer.decode(value) for value in coded.dictionary.to_pylist()]
                    values = [encode_metadata_record(record, schema) for record in found]
                    coded = pa.DictionaryArray.from_arrays(coded.indices, pa.array(values, _BYTES))
                yield _Columns(batch.keys, coded)

    def _merged(self, keys: pa.LargeBinaryArray, schema: MetadataSchema) -> _Columns:
        """Return the records of keys, what is stored of each added up; null for those deleted."""
        values = [
            None
            if record is None or getattr(record, "is_deleted", False)
            else encode_metadata_record(record, schema)
            for record in self.lookup(keys.to_pylist())
        ]
        return _Columns(keys, pa.array(values, _BYTES).dictionary_encode())

    def _entries(
        self, number: int, layer: _Layer, prefix: bytes
    ) -> Iterator[tuple[bytes, int, MetadataRecord | None]]:
        """Yield (key, number of the layer, record or None for a deletion) in the order of keys."""
        if layer.records is None:
            for key in sorted(key for key in layer.deleted if key.startswith(prefix)):
                yield key, number, None
            return
        with self._reading(layer):
            for key, value in layer.records.find_prefix(prefix):
                yield key, number, layer.decode(value)

    @contextmanager
    def _reading(self, layer: _Layer) -> Iterator[None]:
        try:
            yield
        except BucketfmtError as error:
            raise error.within(path=layer.path) from None

    @property
    def _layers(self) -> tuple[_Layer, ...]:
        return self._kept_layers if self._keeps else self._load_layers()

    @cached_property
    def _kept_layers(self) -> tuple[_Layer, ...]:
        return self._load_layers()

    def _load_layers(self) -> tuple[_Layer, ...]:
        """Return the layers, the oldest first."""
        base = self.file_slice.base_file
        if base is None:
            return tuple(self._log_layers())
        with beside(self._store, lambda: self._base_layer(base)) as loaded:
            logs = list(self._log_layers())
        return (loaded(), *logs)

    def _base_layer(self, file: DataFile) -> _Layer:
        size = file.check_exists()
        try:
            if size <= _WHOLE_BYTES:
                records = HFile.of(self._read_whole(file.path, size), self._limits)
            else:
                fetch = partial(self._store.read_ranges, file.path)
                records = HFile(fetch, size, self._limits)
            return self._record_layer(file.path, records, None)
        except BucketfmtError as error:
            raise error.within(path=file.path) from None

    def _read_whole(self, path: str, size: int) -> bytes:
        try:
            return self._store.read(path, size)
        except LimitError as error:
            raise NotFoundError(
                "the file that was listed is gone, and a larger one has its name; read again"
            ) from error

    def _log_layers(self) -> Iterator[_Layer]:
        path_of: dict[int, str] = {}
        logs = self.file_slice.log_files

        def load(file: DataFile) -> list[LogBlock | CorruptSpan]:
            return load_log_file(self._store, file, self._limits)

        def files() -> Iterator[list[LogBlock | CorruptSpan]]:
            loaded = map_in_order(
                load, logs, reader_count(self._store, [f.size or 0 for f in logs])
            )
            for file, blocks in zip(logs, loaded, strict=True):
                path_of.update((id(block), file.path) for block in blocks)
                yield blocks

        for block in select_blocks(files(), is_valid_instant=self._is_valid_instant):
            path = path_of[id(block)]
            try:
                yield self._log_layer(path, block)
            except BucketfmtError as error:
                raise error.within(path=path, base_offset=block.content_offset) from None

    def _log_layer(self, path: str, block: LogBlock) -> _Layer:
        if block.block_type is BlockType.DELETE:
            keys = decode_delete_block(block.content, self._limits).record_keys
            return _Layer(path, deleted=frozenset(key.encode() for key in keys if key is not None))
        if block.block_type is not BlockType.HFILE_DATA:
            raise UnsupportedError(
                f"a {block.block_type.name} block in the metadata table; rebuild it with Hudi"
            )
        records = HFile.of(block.content, self._limits)
        return self._record_layer(path, records, block.header.get(HeaderKey.SCHEMA))

    def _record_layer(self, path: str, records: HFile, header_schema: str | None) -> _Layer:
        text = records.file_info.get(_SCHEMA)
        if text is None and header_schema is not None:
            text = header_schema.encode()
        schema = None if text is None else decode_metadata_schema(text, self._limits)
        return _Layer(path, records, schema)


def _check_place(records: HFile, owns: Callable[[bytes], bool] | None) -> None:
    """Check that a file is of its file group, of which a key that it lacks does not tell.

    Raises:
        CorruptError: the first key belongs into another file group.
    """
    if owns is not None and records.first_key is not None and not owns(records.first_key):
        raise CorruptError(
            f"the key {records.first_key[:100]!r} belongs into another file group of the "
            "metadata table: this is not the file that was written under this name"
        )
