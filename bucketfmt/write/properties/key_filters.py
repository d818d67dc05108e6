"""How exact the filters of keys in new base files are. Pure."""

from __future__ import annotations

from bucketfmt.format.buckets.index_settings import has_single_groups
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.parquet.key_footer import HUDIS_RATE, KeyFooter

__all__ = ["new_key_footer"]

_RATE_OF_BUCKETS = 1e-3


def new_key_footer(config: TableConfig) -> KeyFooter | None:
    """Return the footer entries of a base file to come; None where files tell no keys.

    The filter has Hudi's rate of false positives where anybody asks filters for keys. A bucket
    index asks none, and with the rate of a thousandth a key takes 10 hashes instead of 30
    (docs/decisions/0043).
    """
    if not config.populate_meta_fields:
        return None
    is_asked = "bloom_filters" in config.metadata_partitions
    is_found_by_hash = has_single_groups(config.properties)
    return KeyFooter(rate=HUDIS_RATE if is_asked or not is_found_by_hash else _RATE_OF_BUCKETS)
