"""The half of a rehash that happens anywhere: the rows of some buckets go to their new buckets.

I/O. A `RehashTask` is a small value that pickles, and a step is some hundred bytes for each file
slice. Rows keep `_hoodie_commit_time` and `_hoodie_commit_seqno`, since nothing in them changes, as
rows do that Hudi clusters (`hoodie.clustering.preserve.commit.metadata`).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.names import (
    BaseFileName,
    FileGroupId,
    IoType,
    MarkerName,
    parse_write_token,
)
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT
from bucketfmt.index.layout import BucketLayout
from bucketfmt.location.routes import Route
from bucketfmt.resize.plan_rehash import RehashStep
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.meta_rows import add_meta_fields, file_constants, merge_schema
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.rows.parquet.parquet_chunks import Codec
from bucketfmt.slices.slice_codec import decode_slice, encode_slice
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.write.commit.receipts import Receipt, encode_receipt
from bucketfmt.write.files.data_file import put_data_file
from bucketfmt.write.files.row_report import RowReporter
from bucketfmt.write.rows.grouping import GroupedRows, split_rows

__all__ = ["RehashTask", "encode_step", "groups_of"]

_FILE_IDS = uuid.UUID("4b0c9a56-6b0a-5d0c-8a53-2f4f1b0de7c1")  # of no meaning, but ours
_BATCH_ROWS = 1 << 18


class _Step(msgspec.Struct, frozen=True, array_like=True):
    """A step as it is sent: the file groups to write have the ids that the planner chose."""

    partition_path: str
    slices: tuple[bytes, ...]
    file_ids: dict[int, str]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Step)


def encode_step(step: RehashStep, layout: BucketLayout, instant: str) -> bytes:
    """Return a step as few bytes, the same for the same slices.

    Other slices are written to other file groups: what was written of a step before its slices
    changed is told from what counts.

    Args:
        step: The step.
        layout: The new buckets.
        instant: The requested time of the rehash.
    """
    slices = tuple(map(encode_slice, step.slices))
    digest = hashlib.sha256(b"".join(slices)).hexdigest()
    file_ids = {}
    for bucket in step.buckets:
        name = f"{instant}/{step.partition_path}/{bucket}/{digest}"
        file_ids[bucket] = layout.new_file_id(bucket, str(uuid.uuid5(_FILE_IDS, name)))
    return _ENCODER.encode(_Step(step.partition_path, slices, file_ids))


def groups_of(payload: bytes) -> list[FileGroupId]:
    """Return the file groups that a step writes, whether or not they get rows.

    Raises:
        CorruptError: these are not the bytes of a step.
    """
    step = _decode(payload)
    return [(step.partition_path, file_id) for file_id in step.file_ids.values()]


def _decode(payload: bytes) -> _Step:
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"no step of a rehash as it was sent: {error}") from None


@dataclass(frozen=True, eq=False)
class RehashTask:
    """Divides rows anew for a rehash that was begun elsewhere.

    Pickles; holds the store's options, secrets among them. Safe to use from several threads.

    Attributes:
        basis: What reading a slice needs to know.
        schema: The table's columns.
        avro_schema: The same as Avro JSON, without Hudi's own.
        instant: The requested time of the rehash.
        layout: The new buckets, the same in all partitions.
        codec: Of parquet.
        reporter: Reports the rows of the files; None if no metadata table wants it.
    """

    basis: ReadBasis
    schema: TableSchema
    avro_schema: str
    instant: str
    layout: BucketLayout
    codec: Codec
    reporter: RowReporter | None

    def rehash(self, payload: bytes, write_token: str) -> list[bytes]:
        """Write the rows of a step to their new file groups, and return a receipt for each.

        Doing it twice leaves files too many, which `StartedRehash.publish` removes. Rows are
        collected in memory up to some hundred megabytes, and in temporary files beyond.

        Args:
            payload: One of `StartedRehash.payloads`.
            write_token: `<task>-<stage>-<attempt>`: three numbers that no other attempt has.

        Raises:
            CorruptError: a file is missing or damaged.
            UnsupportedError: blocks that are not read here; let Hudi compact the table.
            ConflictError: the rehash has ended meanwhile.
            StorageError: the store failed.
        """
        parse_write_token(write_token)
        step = _decode(payload)
        path = step.partition_path
        with GroupedRows() as grouped:
            for rows in self._read(step):
                numbers = self.layout.assign(rows.column(RECORD_KEY))
                paths = pa.chunked_array([pa.repeat(pa.scalar(path), rows.num_rows)])
                for route, own in split_rows(rows, paths, numbers):
                    if route.number not in step.file_ids:
                        raise CorruptError(
                            "a file group has keys of other buckets than its own, so that dividing "
                            "it would double them; bucketfmt check --depth full lists them",
                            partition=path,
                            bucket=route.number,
                        )
                    grouped.add(route, own)
            return [
                encode_receipt(self._write(path, file_id, write_token, grouped, bucket))
                for bucket, file_id in step.file_ids.items()
            ]

    def _read(self, step: _Step) -> Iterator[pa.Table]:
        populated = self.basis.config.populate_meta_fields
        output = merge_schema(self.schema.data, is_populated=populated)
        reader = SliceReader(self.basis, RowSpec(self.schema, output), side_by_side=True)
        for sent in step.slices:
            yield from reader.read(decode_slice(sent), _BATCH_ROWS)

    def _write(
        self, path: str, file_id: str, write_token: str, grouped: GroupedRows, bucket: int
    ) -> Receipt:
        route = Route(path, bucket)
        receipt = Receipt(partition_path=path, file_id=file_id, write_token=write_token)
        if not grouped.num_rows([route]):
            return receipt
        rows, populated = grouped.rows([route]), self.basis.config.populate_meta_fields
        name = str(BaseFileName(file_id, write_token, self.instant, "parquet"))
        data = encode_base_file(
            rows if populated else rows.drop_columns([RECORD_KEY]),
            add_meta_fields(self.avro_schema),
            KeyFooter() if populated else None,
            self.codec,
            constants=file_constants(path, name, is_populated=populated),
        )
        marker = MarkerName(path, name, IoType.CREATE)
        stat = put_data_file(self.basis.store, self.instant, marker, file_id, data)
        report = None
        if self.reporter is not None:
            no_keys = pa.chunked_array([], pa.string())
            report = self.reporter.of_base_file(name, data, rows.column(RECORD_KEY), no_keys)
        stat = msgspec.structs.replace(
            stat, prev_commit=NULL_COMMIT, num_writes=rows.num_rows, num_inserts=rows.num_rows
        )
        return msgspec.structs.replace(receipt, stat=stat, report=report)
