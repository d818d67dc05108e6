"""An index as text, for command lines and for options that are text. Pure."""

from __future__ import annotations

from itertools import product

from bucketfmt.arguments import check_text
from bucketfmt.index.model import Index, RecordIndex
from bucketfmt.index.numbered_buckets import (
    MultiGroupBucketIndex,
    PartitionBucketIndex,
    SimpleBucketIndex,
)
from bucketfmt.index.stored_buckets import ConsistentHashingIndex, ExtendibleHashingIndex

__all__ = ["parse_index"]

_RECORD_INDEXES = {
    index.text: index
    for index in (RecordIndex(*flags) for flags in product((False, True), repeat=2))
}


def parse_index(text: str) -> Index:
    """Return the index that a text names.

    >>> import bucketfmt as bf
    >>> bf.parse_index("simple:16:id").num_buckets
    16

    Args:
        text: `simple:N`, `simple:N:FIELD,FIELD`, `partition:N:REGEX,N;...`, `consistent:N`,
            `consistent:N:virtual-logs`, `extendible:N`, `multigroup:N`, `multigroup:N:BYTES`,
            `record`, `record:moving` (a row moves its key to the partition of the row) or
            `record:partitioned` (keys are unique in their partition).

    Raises:
        ValueError: the text names no index, or there is no such number of buckets.
        TypeError: `text` is not text.
    """
    check_text("text", text)
    if text in _RECORD_INDEXES:
        return _RECORD_INDEXES[text]
    kind, _, rest = text.partition(":")
    number, _, detail = rest.partition(":")
    try:
        if kind == "simple":
            fields = tuple(detail.split(",")) if detail else None
            return SimpleBucketIndex(_number(number), fields)
        if kind == "partition" and detail:
            return PartitionBucketIndex(_number(number), detail)
        if kind == "consistent" and detail in ("", "virtual-logs"):
            return ConsistentHashingIndex(_number(number), virtual_logs=bool(detail))
        if kind == "extendible":
            return ExtendibleHashingIndex(_number(number))
        if kind == "multigroup":
            sizes = (_number(detail),) if detail else ()
            return MultiGroupBucketIndex(_number(number), *sizes)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from error
    raise ValueError(
        f"{text}: give simple:N[:FIELD,FIELD], partition:N:REGEX,N;..., "
        "consistent:N[:virtual-logs], extendible:N, multigroup:N[:BYTES], or "
        "record[:moving|:partitioned]"
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no whole number" if text else "the number is missing")
    return int(text)
