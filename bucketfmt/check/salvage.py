"""What a damaged hoodie.properties still tells, so that the rest of the table can be checked.

I/O, read only. Readers and writers refuse such a table, as Hudi does where a checksum is wrong;
a check says what is damaged (T006) and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.names.damaged_names import repair_property_names
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import load_config, load_damaged_properties

__all__ = ["load_config_to_check"]

_NAME, _CHECKSUM = "hoodie.table.name", "hoodie.table.checksum"
_UNNAMED = "(no name)"
_FLAGS = (
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.datasource.write.slash.separated.date.partitioning",
    "hoodie.populate.meta.fields",
    "hoodie.table.cdc.enabled",
)
_REPEATED = ("hoodie.table.initial.version", "hoodie.timeline.layout.version")
_MERGING = (
    "hoodie.compaction.record.merger.strategy",
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
)


def load_config_to_check(store: Store, limits: Limits) -> TableConfig:
    """Return what hoodie.properties says; of a damaged one, with no sound backup, what is left.

    Raises:
        TableNotFoundError: there is no table.
        CorruptError: too little is left: nothing tells the table's version or kind.
        UnsupportedError: the table is of a version or kind that this release does not read.
    """
    try:
        return load_config(store, limits)
    except CorruptError as damage:
        for found in load_damaged_properties(store, limits):
            with suppress(BucketfmtError):
                for properties in _readings(found):
                    with suppress(CorruptError):
                        return TableConfig.from_properties(properties)
        raise damage from None


def _readings(found: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the properties without what a table can be read without, less and less of it."""
    properties = repair_property_names(found)
    properties.pop(_CHECKSUM, None)
    properties.setdefault(_NAME, _UNNAMED)
    yield properties
    for flag in _FLAGS:
        if properties.get(flag, "true").lower() not in ("true", "false"):
            del properties[flag]
    for name in _REPEATED:
        properties.pop(name, None)
    yield properties
    for name in _MERGING:
        properties.pop(name, None)
    yield properties
