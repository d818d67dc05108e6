"""What a write stands on: the table as it was read, its buckets, and its columns afterwards.

I/O: reads the timeline, listings and index files, never data files but for a sample of keys
where nothing states the index.
"""

from __future__ import annotations

import pyarrow as pa

from bucketfmt.errors import (
    IndexUnknownError,
    SchemaError,
    UnsupportedError,
)
from bucketfmt.index.model import Index
from bucketfmt.index.resolve import ResolvedIndex
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.find_locator import find_locator
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.location.locator import Locator
from bucketfmt.process import cached_property
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.columns.column_types import stored_columns
from bucketfmt.rows.columns.meta_columns import META_COLUMNS
from bucketfmt.rows.merging.merge_rules import MergeRules, find_merge_rules
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.snapshot.schema import TableSchema, find_stated_text, find_stating_commit
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.rows.schema_change import (
    GivenColumns,
    SchemaChange,
    find_rescaled,
    plan_columns,
)

__all__ = ["Basis", "check_operations_are_not_kept", "find_columns"]


class Basis:
    """One table at one moment, as a write needs it. Used by one thread.

    Attributes:
        snapshot: The table as it is read.
        incoming: The columns of the rows to write, and what they may change.
        finder: What tells the index.
        index: How keys map to buckets.
        locator: Where keys live, and where rows are written.
        rules: How records merge.
        schema: The columns once the write is done.
        avro_schema: The same as Avro JSON, without Hudi's own columns.
        is_schema_change: Whether these are other columns than the table has.
        schema_changes: What is new about the columns, one text for each.
        kept: The columns that the rows lack and whose stored values stay.
        key_encoding: How complex keys of one field are written; None as the table version has it.
        latest_schema: The schema with column ids, where the table keeps one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        finder: IndexFinder,
        incoming: GivenColumns | None = None,
        index: Index | None = None,
    ) -> None:
        """Read what a write needs to know.

        Args:
            snapshot: The table now.
            finder: Its index.
            incoming: The columns of the rows to write, and what they may change; None for a
                write without rows.
            index: The index that the table is given by work which rewrites all of its rows, and
                which therefore needs neither to know the present index nor how keys are written;
                None: the table keeps its index.

        Raises:
            IndexUnknownError: nothing tells how keys map to buckets.
            UnsupportedError: a kind of table that this release does not write.
            SchemaError: the rows do not fit the table.
        """
        of_values = incoming is not None
        self.key_encoding = (
            find_key_encoding(snapshot, of_values=of_values) if index is None else None
        )
        self.snapshot = snapshot
        self.incoming = incoming
        self.finder = finder
        self.index: Index = _writable_index(finder.resolve(snapshot)) if index is None else index
        self._config = snapshot.state.config
        snapshot.state.config.check_writable()
        check_operations_are_not_kept(snapshot)
        self.rules: MergeRules = find_merge_rules(self._config)
        self.locator: Locator = find_locator(snapshot, finder)
        self.is_schema_change = False
        self.schema_changes: tuple[str, ...] = ()
        self.kept: tuple[str, ...] = ()
        self.schema, self.avro_schema = self._plan_schema(incoming)
        self.rules.check_columns(self.schema.data, self.schema.defaulted)

    @property
    def schema_entries(self) -> dict[str, str | None]:
        """What `extraMetadata` of a commit states of the columns."""
        entries: dict[str, str | None] = {"schema": self.avro_schema}
        if self.latest_schema is not None:
            entries["latest_schema"] = self.latest_schema
        return entries

    @property
    def stated_by(self) -> CommitRecord | None:
        """The commit that states the columns the write stands on."""
        return find_stating_commit(self.snapshot.commits)

    @cached_property
    def latest_schema(self) -> str | None:
        """The newest schema with column ids that a commit states."""
        commits = reversed(self.snapshot.commits)
        return next((each.latest_schema for each in commits if each.latest_schema), None)

    def _plan_schema(self, incoming: GivenColumns | None) -> tuple[TableSchema, str]:
        config = self._config
        text = find_stated_text(self.snapshot.commits, config)
        known = find_columns(self.snapshot, text)
        change = self._plan_change(None if known is None else known.data, incoming)
        planned, self.schema_changes = change.schema, change.changes
        if incoming is not None and incoming.missing == "keep":
            self.kept = change.missing
        self.is_schema_change = known is None or planned is not known.data
        name, namespace = f"{config.name}_record", f"hoodie.{config.name}"
        if known is not None and not self.is_schema_change:
            # Its ids go along: files from before a column was renamed need them to be read.
            return known, text or avro_schema_json(planned, name, namespace)
        if known is not None and known.internal is not None:
            raise UnsupportedError(
                "new columns in a table whose columns have ids (hoodie.schema.on.read.enable); "
                "add them with ALTER TABLE in Spark first"
            )
        if known is not None:
            self._check_rescaled(known.data, planned)
        meta_columns = META_COLUMNS if config.populate_meta_fields else ()
        defaulted = () if known is None else known.defaulted
        schema = TableSchema(planned, meta_columns=meta_columns, defaulted=defaulted)
        return schema, avro_schema_json(planned, name, namespace)

    def _check_rescaled(self, known: pa.Schema, planned: pa.Schema) -> None:
        """Refuse another type of a decimal of which rows are logged (`find_rescaled`)."""
        rescaled = find_rescaled(known, planned)
        if rescaled is None or self._config.table_type != "MERGE_ON_READ":
            return
        self.snapshot.state.lister.prepare(self.snapshot.partitions)
        for path in self.snapshot.partitions:
            if any(file_slice.log_files for file_slice in self.snapshot.slices(path)):
                raise UnsupportedError(
                    f"column {rescaled}, and Hudi reads rows that are logged as other values then; "
                    "compact the table first, and write again",
                    partition=path,
                )

    def _plan_change(self, known: pa.Schema | None, incoming: GivenColumns | None) -> SchemaChange:
        if incoming is None:
            if known is None:
                raise SchemaError("the table has no columns yet; write rows first")
            return SchemaChange(known)
        config = self._config
        if known is None:
            return SchemaChange(stored_columns(incoming.schema, config.table_version))
        return plan_columns(known, incoming, config)


def find_columns(snapshot: Snapshot, stated: str | None) -> TableSchema | None:
    """Return the columns of a table; None: nothing states them, and no row is written.

    Args:
        snapshot: The table now.
        stated: What its commits or its properties state (`find_stated_text`).
    """
    return None if stated is None and not snapshot.commits else snapshot.schema


def _writable_index(resolved: ResolvedIndex) -> Index:
    if resolved.index is None:
        raise IndexUnknownError(
            f"how keys map to buckets is unknown ({resolved.evidence}), and a guess would put "
            f"keys where nobody finds them; {resolved.next_step}"
        )
    if resolved.bucket_index is None and not resolved.index.keeps_locations:
        raise UnsupportedError(
            f"writing by {resolved.index}; this release writes tables with a bucket index or a "
            "record index"
        )
    return resolved.index


def check_operations_are_not_kept(snapshot: Snapshot) -> None:
    """Refuse a table whose files keep `_hoodie_operation`: what is written here has no such column.

    Hudi asks the newest file whether there is such a column; where that file has none, its readers
    overlook rows that were logged as deleted.

    Raises:
        UnsupportedError: it is such a table.
        NotFoundError: that file was rolled back or cleaned since the snapshot was taken.
    """
    if snapshot.keeps_operations:
        raise UnsupportedError(
            "writing to a table that keeps the change of each row in _hoodie_operation (Flink's "
            "changelog.enabled, Spark's hoodie.allow.operation.metadata.field): deletes in its "
            "logs would be overlooked; write to it, and compact it, with Flink or Spark, as before"
        )
