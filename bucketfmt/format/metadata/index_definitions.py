"""The definitions of indexes in the metadata table: index.json.

Pure. Source: HoodieIndexMetadata, HoodieIndexDefinition. Before table version 8 there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode

__all__ = ["IndexDefinition", "decode_index_definitions", "encode_index_definitions"]


class IndexDefinition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One partition of the metadata table.

    Attributes:
        index_name: The partition, such as `column_stats`.
        index_type: Such as `column_stats` or `secondary_index`.
        index_function: Of an expression index; of others empty, or the type.
        source_fields: The columns.
        index_options: Options of the index.
        version: `V1` or `V2`; None before Hudi 1.1.
    """

    index_name: str
    index_type: str
    index_function: str | None = None
    source_fields: Sequence[str] = ()
    index_options: Mapping[str, str] = {}
    version: str | None = None

    @property
    def is_partitioned(self) -> bool:
        """Whether a record index has file groups for each partition of the table."""
        return self.index_options.get("isPartitioned") == "true"


class _Definitions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    index_definitions: Mapping[str, IndexDefinition] = {}


prepare_to_decode(_Definitions)


def decode_index_definitions(data: Buffer) -> Mapping[str, IndexDefinition]:
    """Return the definitions by partition of the metadata table.

    Raises:
        CorruptError: the text is not such JSON.
    """
    return decode_json(data, _Definitions, "index definitions").index_definitions


def encode_index_definitions(definitions: Mapping[str, IndexDefinition]) -> bytes:
    """Return the JSON of definitions."""
    members: dict[str, dict[str, object]] = msgspec.to_builtins(definitions)
    plain = {
        name: {key: value for key, value in own.items() if value is not None}
        for name, own in members.items()
    }
    return msgspec.json.format(msgspec.json.encode({"indexDefinitions": plain}), indent=2)
