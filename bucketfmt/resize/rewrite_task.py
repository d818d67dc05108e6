"""The half of a change of buckets that happens anywhere: rows go to the file groups of new buckets.

I/O. A `RewriteTask` is a small value that pickles, and a step is some hundred bytes for each file
slice. Rows keep `_hoodie_commit_time` and `_hoodie_commit_seqno`, since nothing in them changes, as
rows do that Hudi clusters (`hoodie.clustering.preserve.commit.metadata`).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from bucketfmt.arguments import check_kind
from bucketfmt.choices import Codec
from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.names.names import FileGroupId, IoType, MarkerName, parse_write_token
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT
from bucketfmt.index.layout_codec import decode_layout, encode_layout
from bucketfmt.location.routes import Route
from bucketfmt.resize.migration.settle_keys import Doubled, KeySettling, SettledRows
from bucketfmt.resize.plan_rewrite import RewriteStep
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.meta_rows import add_meta_fields
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.slices.slice_codec import decode_slice, encode_slice
from bucketfmt.storage.streams import map_in_order, task_count
from bucketfmt.write.commit.receipts import Receipt, encode_receipt
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.base_file_task import BaseFileTask
from bucketfmt.write.files.row_report import load_reporter
from bucketfmt.write.files.table_codec import DEFAULT_CODEC
from bucketfmt.write.properties.key_filters import new_key_footer
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.grouping import GroupedRows, split_rows

__all__ = ["RewriteTask", "encode_step", "groups_of", "size_of"]

_FILE_IDS = uuid.UUID("4b0c9a56-6b0a-5d0c-8a53-2f4f1b0de7c1")  # of no meaning, but ours
_BATCH_ROWS = 1 << 18
_WRITERS_MAX = 8  # of a step, beside those of other steps


class _Step(msgspec.Struct, frozen=True, array_like=True):
    """A step as it is sent: the file groups to write have the ids that the planner chose."""

    partition_path: str
    slices: tuple[bytes, ...]
    layout: bytes
    file_ids: dict[int, str]
    sort_by: tuple[str, ...]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Step)


def encode_step(step: RewriteStep, instant: str) -> bytes:
    """Return a step as few bytes, the same for the same slices.

    Other slices are written to other file groups, where the layout does not state their ids: what
    was written of a step before its slices changed is told from what counts.

    Args:
        step: The step.
        instant: The requested time of the commit.

    Raises:
        CorruptError: the layout does not state the id that a file group must have.
    """
    slices = tuple(map(encode_slice, step.slices))
    digest = hashlib.sha256(b"".join(slices)).hexdigest()
    file_ids = {}
    for bucket in step.buckets:
        name = f"{instant}/{step.partition_path}/{bucket}/{digest}"
        file_ids[bucket] = step.layout.new_file_id(bucket, str(uuid.uuid5(_FILE_IDS, name)))
    sent = _Step(step.partition_path, slices, encode_layout(step.layout), file_ids, step.sort_by)
    return _ENCODER.encode(sent)


def groups_of(payload: bytes) -> list[FileGroupId]:
    """Return the file groups that a step writes, whether or not they get rows.

    Raises:
        CorruptError: these are not the bytes of a step.
        TypeError: `payload` is not bytes.
    """
    step = _decode(payload)
    return [(step.partition_path, file_id) for file_id in step.file_ids.values()]


def size_of(payload: bytes) -> int:
    """Return the bytes of the files that a step reads.

    Raises:
        CorruptError: these are not the bytes of a step.
        TypeError: `payload` is not bytes.
    """
    return _size(_decode(payload))


def _size(step: _Step) -> int:
    return sum(decode_slice(sent).size for sent in step.slices)


def _decode(payload: bytes) -> _Step:
    check_kind("payload", payload, bytes, "one of StartedRewrite.payloads")
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"no step of a rewrite as it was sent: {error}") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class RewriteTask(BaseFileTask):
    """Divides rows anew for a change of buckets that was begun elsewhere. As `BaseFileTask`.

    Attributes:
        codec: Of parquet.
        settling: What becomes of keys; None if they stay, and each has one row.
    """

    codec: Codec
    settling: KeySettling | None = None

    @classmethod
    def of(
        cls,
        basis: Basis,
        instant: str,
        codec: Codec | None,
        settling: KeySettling | None = None,
    ) -> RewriteTask:
        """Return the task of a change of buckets that is planned on this table.

        Args:
            basis: The table.
            instant: The requested time of the change.
            codec: Of parquet; None: the table has no file that would tell.
            settling: Which rows of a key stay; None: keys have one row each.
        """
        snapshot, state = basis.snapshot, basis.snapshot.state
        return cls(
            basis=snapshot.basis,
            schema=basis.schema,
            avro_schema=basis.avro_schema,
            instant=instant,
            reporter=load_reporter(state.store, state.config, state.limits, takes_keys=False),
            codec=codec or DEFAULT_CODEC,
            settling=settling,
        )

    def markers(self, payload: bytes, write_token: str) -> list[MarkerName]:
        """Return what announces the files that `rewrite` makes of these arguments, at most."""
        step = _decode(payload)
        return [
            self._marker(step.partition_path, file_id, write_token)
            for file_id in step.file_ids.values()
        ]

    def _marker(self, path: str, file_id: str, write_token: str) -> MarkerName:
        return MarkerName(path, self.name(file_id, write_token), IoType.CREATE)

    def rewrite(
        self, payload: bytes, write_token: str, announcer: Announcer | None = None
    ) -> list[bytes]:
        """Write the rows of a step to their new file groups, and return a receipt for each.

        Doing it twice leaves files too many, which `StartedRewrite.publish` removes. Rows are
        collected in memory up to some hundred megabytes, and in temporary files beyond.

        Args:
            payload: One of `StartedRewrite.payloads`.
            write_token: `<task>-<stage>-<attempt>`: three numbers that no other attempt has.
            announcer: Of the files of this process; None: of the files of this step.

        Raises:
            CorruptError: a file is missing or damaged, or has keys of other buckets.
            UnsupportedError: blocks that are not read here; let Hudi compact the table. Or keys
                are not as `settling` has them.
            ConflictError: the commit has ended meanwhile.
            StorageError: the store failed.
        """
        parse_write_token(write_token)
        step = _decode(payload)
        announcer = announcer or Announcer(self.basis.store, self.instant)
        path, layout = step.partition_path, decode_layout(step.layout)
        with GroupedRows() as grouped:
            for read in self._read(step):
                rows = read
                if self.settling is not None:
                    rows = self.settling.name_keys(read, path)
                numbers = layout.assign(rows.column(RECORD_KEY))
                paths = pa.chunked_array([pa.repeat(pa.scalar(path), rows.num_rows)])
                for route, own in split_rows(rows, paths, numbers):
                    if route.number not in step.file_ids:
                        raise CorruptError(
                            "a file group has keys of other buckets than its own, so that dividing "
                            'it would double them; check(depth="full") lists them, and '
                            "repair_buckets() moves them",
                            partition=path,
                            bucket=route.number,
                        )
                    grouped.add(route, own)
            doubled = Doubled()

            def settled_files() -> Iterator[tuple[str, SettledRows]]:
                nonlocal doubled
                for bucket, file_id in step.file_ids.items():
                    settled = self._settle(grouped, Route(path, bucket))
                    if step.sort_by and settled.rows.num_rows:
                        settled = replace(settled, rows=_sorted(settled.rows, step.sort_by))
                    if settled.doubled is not None:
                        doubled += settled.doubled
                    if not doubled.keys:
                        yield file_id, settled

            def write(file: tuple[str, SettledRows]) -> bytes:
                return encode_receipt(self._write(path, *file, write_token, announcer))

            receipts = list(map_in_order(write, settled_files(), self._writers(step)))
            if doubled.keys:
                raise doubled.error(path)
            return receipts

    def _writers(self, step: _Step) -> int:
        """Return with how many threads to write the files of a step.

        On a disk it is one: steps are done side by side, and keep the processors busy.
        """
        if self.basis.store.failures_are_final:
            return 1
        own_size = _size(step) // max(1, len(step.file_ids))
        return min(_WRITERS_MAX, task_count(self.basis.store, [own_size]))

    def _read(self, step: _Step) -> Iterator[pa.Table]:
        reader = self.reader()
        for sent in step.slices:
            yield from reader.read(decode_slice(sent), _BATCH_ROWS)

    def _settle(self, grouped: GroupedRows, route: Route) -> SettledRows:
        if not grouped.num_rows([route]):
            return SettledRows(pa.table({}))
        rows = grouped.rows([route])
        if self.settling is None:
            return SettledRows(rows)
        try:
            return self.settling.settle(rows)
        except BucketfmtError as error:
            raise error.within(partition=route.partition_path) from None

    def _write(
        self,
        path: str,
        file_id: str,
        settled: SettledRows,
        write_token: str,
        announcer: Announcer,
    ) -> Receipt:
        receipt = Receipt(partition_path=path, file_id=file_id, write_token=write_token)
        rows, marker = settled.rows, self._marker(path, file_id, write_token)
        if not rows.num_rows:
            return receipt
        data = encode_base_file(
            rows if self.is_populated else rows.drop_columns([RECORD_KEY]),
            add_meta_fields(self.avro_schema),
            new_key_footer(self.basis.config),
            self.codec,
            constants=self.constants(path, marker.data_file_name),
        )
        keys = rows.column(RECORD_KEY)
        stat, report = self.put(marker, file_id, data, keys, announcer=announcer)
        stat = msgspec.structs.replace(
            stat,
            prev_commit=NULL_COMMIT,
            num_writes=rows.num_rows,
            num_inserts=rows.num_rows - settled.renamed,
            num_update_writes=settled.renamed,
            num_deletes=settled.dropped,
        )
        return replace(receipt, stat=stat, report=report)


def _sorted(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    unknown = sorted(set(columns) - set(rows.column_names))
    if unknown:
        raise UnsupportedError(f"rows sorted by {unknown[0]!r}, which is no column of the table")
    return rows.sort_by([(name, "ascending") for name in columns])
