"""Which codec of parquet files hoodie.properties states. Pure."""

from __future__ import annotations

from bucketfmt.choices import Codec
from bucketfmt.format.table.table_config import TableConfig

__all__ = ["check_stated_codec", "stated_codec"]

_PROPERTY = "hoodie.parquet.compression.codec"
_NAMES: dict[str, Codec] = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "uncompressed": "none",
}
_OF_PARQUET = (*_NAMES, "lzo", "brotli", "lz4", "lz4_raw")  # CompressionCodecName of parquet-mr


def stated_codec(config: TableConfig) -> Codec | None:
    """Return the codec that hoodie.properties states; gzip for a codec that is not written here."""
    name = config.properties.get(_PROPERTY, "").strip().lower()
    return _NAMES.get(name, "gzip") if name else None


def check_stated_codec(config: TableConfig) -> None:
    """Refuse the properties of a new table whose codec parquet does not have.

    Raises:
        ValueError: hoodie.properties is to state an unknown codec.
    """
    name = config.properties.get(_PROPERTY, "")
    if name.strip() and name.strip().lower() not in _OF_PARQUET:
        raise ValueError(f"{_PROPERTY} is one of {', '.join(_OF_PARQUET)}, not {name!r}")
