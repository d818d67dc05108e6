"""Which of two records with one key stays, as a table's configuration says.

Pure. Sources: BufferedRecordMergerFactory, DeleteContext (1.x, table versions 8 and 9);
HoodieMergedLogRecordScanner, OverwriteWithLatestAvroPayload, DefaultHoodieRecordPayload,
EventTimeAvroPayload, AWSDmsAvroPayload, Iterators.scala (0.15, version 6). Partial updates:
PartialUpdateHandler (1.1 on, version 9), OverwriteNonDefaultsWithLatestAvroPayload and
PartialUpdateAvroPayload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.table.table_config import MergeMode, PartialUpdateMode, TableConfig

__all__ = [
    "PARTIAL_UPDATE",
    "UNAVAILABLE_VALUE",
    "Filling",
    "MergeRules",
    "find_log_rules",
    "find_merge_rules",
    "find_partial_refusal",
]

_PAYLOADS = "org.apache.hudi.common.model."
_LEFT_TO_DO = "write to it with Hudi, and read it read-optimized once Hudi has compacted it"
_OVERWRITE = _PAYLOADS + "OverwriteWithLatestAvroPayload"
_DEFAULT = _PAYLOADS + "DefaultHoodieRecordPayload"
_EVENT_TIME = _PAYLOADS + "EventTimeAvroPayload"
_DMS = _PAYLOADS + "AWSDmsAvroPayload"
_NON_DEFAULTS = _PAYLOADS + "OverwriteNonDefaultsWithLatestAvroPayload"
PARTIAL_UPDATE = _PAYLOADS + "PartialUpdateAvroPayload"
_EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_DELETE_FIELD, _DELETE_MARKER = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
UNAVAILABLE_VALUE = "hoodie.write.partial.update.unavailable.value"
"""The merge property that states the text which stands for a value that the writer did not know."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Values of a record that are those of the record that it wins over (partial update modes).

    Attributes:
        marker: In columns of text, the text that stands for a value that the writer did not know.
            None: nulls are filled, of all columns. (Bytes are not filled: Hudi on Spark compares
            their object with the marker.)
        ignores_defaults: Not the nulls of a column are filled, but its default values. Most columns
            have the default null, or none.
        within_log: Records of the log fill one another; if False, only base rows fill them.
        meta_of_newer: Hudi's own columns are those of the newer record, whichever wins.
    """

    marker: str | None = None
    ignores_defaults: bool = False
    within_log: bool = True
    meta_of_newer: bool = False


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How the records of one key combine: log records oldest to newest, then the base row.

    Attributes:
        ordering_fields: Compared as a tuple where ordering counts. Empty: every row has the
            default ordering value, the integer 0.
        log_by_ordering: Of two log records the record of greater ordering stays, and the newer
            record if the orderings are equal. If False, the newer record stays.
        base_by_ordering: A base row wins over a log record of lower ordering.
        legacy: Table version 6, merged as Hudi 0.15 does it with payload classes. An entry of a
            delete block that has won has no ordering any more: any later row wins over the delete,
            and no base row does. Rows marked as deleted compete as rows. (In 1.x both are deletes
            like any other, and are compared.)
        marked_deletes_overrule: If a row marked as deleted by `_hoodie_is_deleted` wins in the log,
            it removes the base row, whatever the ordering.
        delete_operations: Values of `_hoodie_operation` that mark a row as deleted.
        delete_field: Column that marks a row as deleted where its text is a delete marker.
        delete_markers: These texts; empty exactly if there is no `delete_field`.
        filling: Which values of a record are taken from the record that it wins over; None: none.
        is_class_compared: Log records are compared with base rows only where their ordering values
            are of one Java class, which is so for some types (PartialUpdateAvroPayload). Tables of
            other ones are refused.
    """

    ordering_fields: tuple[str, ...]
    log_by_ordering: bool
    base_by_ordering: bool
    legacy: bool = False
    marked_deletes_overrule: bool = False
    delete_operations: tuple[str, ...] = ("D", "-U")
    delete_field: str | None = None
    delete_markers: tuple[str, ...] = ()
    filling: Filling | None = None
    is_class_compared: bool = False

    @property
    def keeps_last_of_log(self) -> bool:
        """Whether the last entry of a key wins in the log, though ordering counts against the base.

        Where Hudi 0.15 merges a log, it takes an ordering field within a struct for missing.
        """
        return self.legacy and any("." in field for field in self.ordering_fields)

    def check_columns(self, schema: pa.Schema, defaulted: Sequence[str]) -> None:
        """Check that the table has no columns for which Hudi's own rules cannot be told.

        Whether Hudi 1.2 takes a value for a default that is not null depends on the identity of
        Java objects.

        Args:
            schema: The columns of the table.
            defaulted: Those that have another default than null.

        Raises:
            UnsupportedError: there are such columns, and default values are filled; or records of
                logs are ordered by values that are not compared with those of base rows.
        """
        for name in self.ordering_fields if self.is_class_compared else ():
            what = schema.field(name).type if name in schema.names else None
            if "." in name:
                what = "within a struct"
            elif what is None or _has_one_class(what, self.legacy):
                continue
            raise UnsupportedError(
                f"the table merges records by {PARTIAL_UPDATE}, and its ordering field {name} is "
                f"{what}; {_LEFT_TO_DO}"
            )
        if defaulted and self.filling is not None and self.filling.ignores_defaults:
            raise UnsupportedError(
                f"the table replaces default values of columns (a partial update mode), and "
                f"{', '.join(defaulted)} have defaults other than null; compact the table with "
                "Hudi and read it read-optimized"
            )


def find_merge_rules(config: TableConfig) -> MergeRules:
    """Return the rules by which a table merges rows that are given to a writer.

    Raises:
        UnsupportedError: the table merges by custom Java code.
        CorruptError: only one of delete field and delete marker is configured.
    """
    if config.table_version < 8:
        return _rules_of_payload(config)
    if config.table_version == 8 and config.payload_class == PARTIAL_UPDATE:
        return MergeRules(
            ordering_fields=config.ordering_fields,
            log_by_ordering=True,
            base_by_ordering=True,
            filling=_FILLINGS[PARTIAL_UPDATE],
            is_class_compared=config.table_type == "MERGE_ON_READ",
        )
    if config.merge_mode is MergeMode.CUSTOM:
        raise UnsupportedError(
            f"the table merges records by custom code ({config.payload_class or 'a merger'}); "
            + _LEFT_TO_DO
        )
    by_ordering = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    field, markers = _find_delete_marker({**config.properties, **config.merge_properties})
    return MergeRules(
        ordering_fields=config.ordering_fields if by_ordering else (),
        log_by_ordering=by_ordering,
        base_by_ordering=by_ordering,
        delete_field=field,
        delete_markers=markers,
        filling=_find_filling(config),
    )


def find_log_rules(config: TableConfig) -> MergeRules:
    """Return the rules by which a table merges what its logs hold.

    A delete marker that is a merge property is for writers, which log such rows as deletes: Hudi
    1.2 reads a row that was logged with it, as MERGE INTO does, and compacts it, as a row.

    Raises:
        UnsupportedError: as `find_merge_rules`.
        CorruptError: as `find_merge_rules`.
    """
    rules = find_merge_rules(config)
    if config.table_version < 8 or rules.delete_field is None:
        return rules
    field, markers = _find_delete_marker(config.properties)
    return replace(rules, delete_field=field, delete_markers=markers)


def _find_delete_marker(properties: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the column that marks rows as deleted, and the texts that do."""
    field, marker = properties.get(_DELETE_FIELD), properties.get(_DELETE_MARKER)
    if bool(field) != bool(marker):
        raise CorruptError(
            f"only one of {_DELETE_FIELD} and {_DELETE_MARKER} is configured; set "
            "both properties or neither"
        )
    return (field, (marker,)) if field and marker else (None, ())


def _has_one_class(kind: pa.DataType, legacy: bool) -> bool:
    """Whether ordering values of a type are of one Java class in log records and in base rows.

    In Hudi 1.0 texts are not, in either release decimals, dates and bytes are not, nor is what is
    within a struct: a log record of Hudi 0.15 lacks it.
    """
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_boolean(kind)
        or (legacy and pa.types.is_string(kind))
    )


def _find_filling(config: TableConfig) -> Filling | None:
    """Return what the partial update mode of a version 9 table fills."""
    if config.partial_update_mode is PartialUpdateMode.IGNORE_DEFAULTS:
        return Filling(ignores_defaults=True)
    if config.partial_update_mode is PartialUpdateMode.FILL_UNAVAILABLE:
        marker = config.merge_properties.get(UNAVAILABLE_VALUE)
        return None if marker is None else Filling(marker=marker)
    return None


def find_partial_refusal(config: TableConfig, *, by_column_id: bool) -> str | None:
    """Return the kind of table that a table is if log blocks of partial updates are not merged.

    Hudi's writers make no such blocks without meta columns. Where columns are known by id, Hudi's
    readers null the columns that a block lacks.

    Args:
        config: The properties of the table.
        by_column_id: Whether the columns of the table are known by id.
    """
    if not config.populate_meta_fields:
        return "a table without meta columns"
    if config.partial_update_mode is not None or config.payload_class in _FILLINGS:
        return "a table that fills values (a partial update mode)"
    return "a table whose columns are known by id" if by_column_id else None


_FILLINGS = {  # of version 6, the first one of version 8 as well
    PARTIAL_UPDATE: Filling(meta_of_newer=True),
    _NON_DEFAULTS: Filling(ignores_defaults=True, within_log=False),
}


def _rules_of_payload(config: TableConfig) -> MergeRules:
    """Return the rules of a version 6 table, which follow from its payload class.

    A table that states no payload class merges by its ordering fields, so that an older row never
    replaces a newer one (docs/decisions/0017). Flink states none on copy-on-write tables, and its
    writers have EventTimeAvroPayload; Hudi 1.x infers event time ordering from the ordering field.
    """
    strategy = config.properties.get("hoodie.compaction.record.merger.strategy")
    payload_class = config.payload_class or _DEFAULT
    known = _OVERWRITE, _DEFAULT, _EVENT_TIME, _DMS, *_FILLINGS
    if payload_class not in known or strategy not in (None, "", _EVENT_TIME_STRATEGY):
        raise UnsupportedError(
            f"the table merges records by custom code ({payload_class}, merge strategy "
            f"{strategy}); {_LEFT_TO_DO}"
        )
    is_dms = payload_class == _DMS
    return MergeRules(
        ordering_fields=config.ordering_fields,
        log_by_ordering=True,
        base_by_ordering=payload_class in (_DEFAULT, _EVENT_TIME, PARTIAL_UPDATE),
        legacy=True,
        marked_deletes_overrule=payload_class in (_EVENT_TIME, PARTIAL_UPDATE),
        delete_operations=("D",),
        delete_field="Op" if is_dms else None,
        delete_markers=("D", "d") if is_dms else (),
        filling=_FILLINGS.get(payload_class),
        is_class_compared=payload_class == PARTIAL_UPDATE and config.table_type == "MERGE_ON_READ",
    )
