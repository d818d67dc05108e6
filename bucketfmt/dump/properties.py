"""Annotates Java properties line by line. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bucketfmt.dump.annotation import Annotation, text_of
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.table.properties import check_table_checksum, decode_properties
from bucketfmt.limits import Limits

__all__ = ["annotate_properties"]

_RULES = {
    "hoodie.table.checksum": "PROP-4",
    "hoodie.table.name": "PROP-5",
    "hoodie.table.version": "PROP-6",
    "hoodie.timeline.path": "PROP-9",
    "hoodie.timeline.history.path": "PROP-9",
    "hoodie.archivelog.folder": "PROP-9",
    "hoodie.table.keygenerator.type": "PROP-10",
    "hoodie.table.keygenerator.class": "PROP-10",
    "hoodie.table.partition.fields": "PROP-11",
    "hoodie.table.ordering.fields": "PROP-12",
    "hoodie.table.precombine.field": "PROP-12",
    "hoodie.record.merge.mode": "PROP-13",
    "hoodie.record.merge.strategy.id": "PROP-14",
    "hoodie.compaction.payload.class": "PROP-14",
}


def annotate_properties(data: Buffer, limits: Limits) -> Iterator[Annotation]:
    """Yield comments and properties, and whether the checksum is right."""
    raw = bytes(data)
    offset = 0
    pending = b""
    for line in raw.splitlines(keepends=True):
        content = line.rstrip(b"\r\n")
        pending += line
        continued = (len(content) - len(content.rstrip(b"\\"))) % 2 == 1
        if continued and not pending.lstrip().startswith((b"#", b"!")):
            continue
        yield from _annotate_line(pending, offset, limits)
        offset += len(pending)
        pending = b""
    if pending:
        yield from _annotate_line(pending, offset, limits)
    try:
        properties = decode_properties(raw, limits)
        if "hoodie.table.checksum" in properties:
            check_table_checksum(properties)
    except BucketfmtError as error:
        yield Annotation(0, len(raw), "damage", error.message, "PROP-4", is_damage=True)


def _annotate_line(line: bytes, offset: int, limits: Limits) -> Iterator[Annotation]:
    text = line.strip()
    if not text:
        return
    if text.startswith((b"#", b"!")):
        shown = text_of(text.decode("latin-1"))
        yield Annotation(offset, len(line), "comment", shown, "PROP-1")
        return
    try:
        for key, value in decode_properties(line, limits).items():
            rule = _RULES.get(key, "PROP-1")
            yield Annotation(offset, len(line), key, text_of(value), rule)
    except BucketfmtError as error:
        yield Annotation(offset, len(line), "damage", error.message, "PROP-1", is_damage=True)
