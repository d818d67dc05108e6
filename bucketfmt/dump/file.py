"""Chooses the annotator for a file of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bucketfmt.dump.annotation import Annotation, text_of
from bucketfmt.dump.avro import annotate_container
from bucketfmt.dump.base_file import annotate_base_file
from bucketfmt.dump.hfile import annotate_hfile
from bucketfmt.dump.json_text import annotate_json
from bucketfmt.dump.log_file import annotate_log_file
from bucketfmt.dump.properties import annotate_properties
from bucketfmt.errors import UnsupportedError
from bucketfmt.format.encoding.avro_container import CONTAINER_MAGIC
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.log.log_block import MAGIC
from bucketfmt.format.names.layout import (
    HISTORY_VERSION_NAME,
    PARTITION_METAFILE,
    find_archive_number,
    is_hashing_metadata_name,
    is_properties_name,
)
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["annotate_file"]

_HASHING_METADATA_RULES = {
    "value": "RING-3",
    "fileIdPrefix": "RING-6",
    "tag": "RING-10",
    "numBuckets": "RING-8",
    "seqNo": "RING-9",
    "bucket_mappings": "RING-11",
    **dict.fromkeys(("version", "partitionPath", "instant"), "RING-7"),
}
_DIRECTORY_RULES = {
    "bucketId": "EXT-2",
    "localDepth": "EXT-2",
    "globalDepth": "EXT-2",
    "fileIdPrefix": "EXT-4",
    **dict.fromkeys(("numBuckets", "seqNo"), "EXT-7"),
    **dict.fromkeys(("version", "partitionPath", "instant", "buckets"), "EXT-6"),
}
_COMMIT_RULES = {
    "path": "META-5",
    "prevCommit": "META-6",
    "fileSizeInBytes": "META-7",
    "logOffset": "META-7",
    "logVersion": "META-8",
    "baseFile": "META-8",
    "operationType": "META-10",
    "partitionToReplaceFileIds": "META-11",
}


def annotate_file(
    name: str, data: Buffer, limits: Limits = DEFAULT_LIMITS, records_max: int = 3
) -> Iterator[Annotation]:
    """Yield the fields of a file of a table, by its name and its first bytes.

    Damage is annotated at its place, after the fields before it.

    Args:
        name: The file's name, without its folder.
        data: Its bytes.
        limits: Bounds on what is decoded.
        records_max: Rows to show of each data block.

    Raises:
        UnsupportedError: there is no annotator for this kind of file.
    """
    head = bytes(data[: len(MAGIC)])
    if not len(data):
        yield Annotation(0, 0, "empty", "an empty file: an instant without content, or a marker")
    elif ".log." in name or find_archive_number(name) is not None or head == MAGIC:
        yield from annotate_log_file(data, limits, records_max)
    elif is_properties_name(name) or name == PARTITION_METAFILE:
        yield from annotate_properties(data, limits)
    elif head.startswith(CONTAINER_MAGIC):
        yield from annotate_container(data, limits, _COMMIT_RULES)
    elif head.startswith(b"PAR1") or name.endswith(".parquet"):
        yield from annotate_base_file(data, limits)
    elif is_hashing_metadata_name(name):
        is_directory = b'"globalDepth"' in bytes(data)
        rules = _DIRECTORY_RULES if is_directory else _HASHING_METADATA_RULES
        yield from annotate_json(data, limits, rules)
    elif head.lstrip()[:1] in (b"{", b"["):
        yield from annotate_json(data, limits, _COMMIT_RULES)
    elif name.endswith(".hfile"):
        yield from annotate_hfile(data, limits, records_max)
    elif name == HISTORY_VERSION_NAME:
        yield Annotation(0, len(data), "version", text_of(str(bytes(data), "utf-8", "replace")))
    else:
        raise UnsupportedError(
            f"{name}: this kind of file cannot be shown field by field; give a log file, a file of "
            "the timeline, hashing metadata, hoodie.properties or a base file"
        )
