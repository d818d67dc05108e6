"""An index as text, for command lines and for options that are text. Pure."""

from __future__ import annotations

from bucketfmt.arguments import check_text
from bucketfmt.index.model import Index
from bucketfmt.index.numbered_buckets import (
    MultiGroupBucketIndex,
    PartitionBucketIndex,
    SimpleBucketIndex,
)
from bucketfmt.index.stored_buckets import ConsistentHashingIndex, ExtendibleHashingIndex

__all__ = ["parse_index"]


def parse_index(text: str) -> Index:
    """Return the index that a text names.

    >>> import bucketfmt as bf
    >>> bf.parse_index("simple:16:id").num_buckets
    16

    Args:
        text: `simple:N`, `simple:N:FIELD,FIELD`, `partition:N:REGEX,N;...`, `consistent:N`,
            `consistent:N:virtual-logs`, `extendible:N`, `multigroup:N` or `multigroup:N:BYTES`.

    Raises:
        ValueError: the text names no index, or there is no such number of buckets.
        TypeError: `text` is not text.
    """
    check_text("text", text)
    kind, _, rest = text.partition(":")
    number, _, detail = rest.partition(":")
    try:
        if kind == "simple":
            fields = tuple(detail.split(",")) if detail else None
            return SimpleBucketIndex(int(number), fields)
        if kind == "partition" and detail:
            return PartitionBucketIndex(int(number), detail)
        if kind == "consistent" and detail in ("", "virtual-logs"):
            return ConsistentHashingIndex(int(number), virtual_logs=bool(detail))
        if kind == "extendible":
            return ExtendibleHashingIndex(int(number))
        if kind == "multigroup":
            sizes = (int(detail),) if detail else ()
            return MultiGroupBucketIndex(int(number), *sizes)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from error
    raise ValueError(
        f"{text}: give simple:N[:FIELD,FIELD], partition:N:REGEX,N;..., "
        "consistent:N[:virtual-logs], extendible:N, or multigroup:N[:BYTES]"
    )
