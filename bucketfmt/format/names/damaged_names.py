"""Names that one damaged byte turned into unknown names, which readers would skip.

Pure. Readers skip properties and fields that they do not know, so that newer writers can add some.
A damaged name would be skipped likewise, and the default taken: a table would lose its ordering
field, a replacecommit the file groups that it replaced. A name that differs in one character from a
known name that is missing is taken as damaged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bucketfmt.errors import CorruptError

__all__ = ["check_names", "check_property_names", "differ_in_one", "repair_property_names"]

_PROPERTIES = frozenset(
    [
        "hoodie.archivelog.folder",
        "hoodie.bootstrap.base.path",
        "hoodie.compaction.payload.class",
        "hoodie.compaction.record.merger.strategy",
        "hoodie.datasource.write.drop.partition.columns",
        "hoodie.datasource.write.hive_style_partitioning",
        "hoodie.datasource.write.partitionpath.urlencode",
        "hoodie.datasource.write.slash.separated.date.partitioning",
        "hoodie.populate.meta.fields",
        "hoodie.record.merge.mode",
        "hoodie.record.merge.strategy.id",
        "hoodie.table.base.file.format",
        "hoodie.table.cdc.enabled",
        "hoodie.table.create.schema",
        "hoodie.table.format",
        "hoodie.table.initial.version",
        "hoodie.table.keygenerator.class",
        "hoodie.table.keygenerator.type",
        "hoodie.table.metadata.partitions",
        "hoodie.table.name",
        "hoodie.table.ordering.fields",
        "hoodie.table.partial.update.mode",
        "hoodie.table.partition.fields",
        "hoodie.table.precombine.field",
        "hoodie.table.recordkey.fields",
        "hoodie.table.timeline.timezone",
        "hoodie.table.type",
        "hoodie.table.version",
        "hoodie.timeline.history.path",
        "hoodie.timeline.layout.version",
        "hoodie.timeline.path",
    ]
)
"""The properties that `TableConfig` reads."""


def check_names(found: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse names if one is a known, missing name with one character changed.

    Raises:
        CorruptError: a name is damaged.
    """
    names = set(found)
    missing = [name for name in known if name not in names]
    for name in names.difference(known):
        for meant in missing:
            if differ_in_one(name, meant):
                raise CorruptError(
                    f"{what}: {name[:80]!r} is damaged, and was {meant!r}; restore the file"
                )


def check_property_names(properties: Mapping[str, str]) -> None:
    """Refuse properties that a damaged byte has hidden: in the name, in `=`, or in a line's end.

    Raises:
        CorruptError: a property that `TableConfig` reads is missing, and its damaged name is
            present.
    """
    check_names(properties, _PROPERTIES, "hoodie.properties")
    values = "\n".join(properties.values())
    for name in _PROPERTIES - properties.keys():
        for key in (key for key in properties if name in key or f"{name}=" in values):
            separator = key[len(name) : len(name) + 1] if key.startswith(name) else ""
            in_key = separator and (ord(separator) ^ ord("=")).bit_count() == 1
            if in_key or f"{name}=" in properties[key]:
                raise CorruptError(
                    f"hoodie.properties: {name} is glued to {key[:80]!r}; restore the file"
                )


def repair_property_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties after repairing the damage that `check_property_names` refuses."""
    repaired = dict(properties)
    for name in sorted(_PROPERTIES - properties.keys()):
        for key, value in properties.items():
            before, found, after = value.partition(f"{name}=")
            if found:  # the end of a line is damaged
                repaired[key], repaired[name] = before[:-1], after
            elif key.startswith(name):  # the separator is
                rest = key[len(name) + 1 :]
                repaired[name] = f"{rest}={value}" if value else rest
                repaired.pop(key, None)
            elif differ_in_one(key, name):
                repaired[name] = value
                repaired.pop(key, None)
    return repaired


def differ_in_one(first: str, second: str) -> bool:
    """Return whether two texts of one length differ in exactly one character."""
    if len(first) != len(second):
        return False
    return sum(a != b for a, b in zip(first, second, strict=True)) == 1
