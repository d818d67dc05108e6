"""Every bound on untrusted input, in one place.

A table is untrusted input. Whatever a length or a count in a table says, memory and time stay
within these bounds. Input that exceeds a bound raises a `LimitError` that names the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from bucketfmt.arguments import check_int
from bucketfmt.errors import LimitError

__all__ = ["DEFAULT_LIMITS", "Limits"]

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB


@dataclass(frozen=True)
class Limits:
    """Upper bounds, each inclusive and in the unit that its name ends with.

    The defaults are far above what Hudi writes and far below what a machine has.
    """

    # folders
    folder_entries_max: int = 3_000_000  # those of a timeline of a million instants

    # files read whole
    properties_bytes_max: int = 4 * _MIB
    timeline_file_bytes_max: int = 512 * _MIB
    hashing_metadata_bytes_max: int = 64 * _MIB
    log_file_bytes_max: int = 4 * _GIB
    history_file_bytes_max: int = 512 * _MIB

    # log blocks
    log_blocks_per_file_max: int = 1_000_000
    log_header_entries_max: int = 64
    log_header_value_bytes_max: int = 64 * _MIB
    records_per_block_max: int = 50_000_000
    hfile_block_bytes_max: int = 256 * _MIB  # of one block, decompressed
    record_positions_max: int = 50_000_000

    # rows in memory
    base_file_rows_max: int = 2_000_000_000
    row_group_rows_max: int = 50_000_000
    row_group_bytes_max: int = 4 * _GIB  # uncompressed, as the parquet footer states it
    log_rows_bytes_max: int = 8 * _GIB  # decoded log rows of one file slice

    # schemas and nested encodings
    schema_fields_max: int = 20_000
    schema_depth_max: int = 64
    kryo_objects_max: int = 10_000_000
    json_depth_max: int = 128

    # index and timeline
    ring_nodes_max: int = 1_000_000
    directory_depth_max: int = 20  # of extendible hashing: 2^20 entries
    num_buckets_max: int = 99_999_999  # a bucket id is eight decimal digits
    partition_rules_max: int = 10_000
    path_bytes_max: int = 4 * _KIB
    timeline_instants_max: int = 5_000_000
    bloom_filter_bytes_max: int = 64 * _MIB

    def __post_init__(self) -> None:
        for field in fields(self):
            check_int(field.name, getattr(self, field.name), 0)

    def check(self, name: str, value: int) -> int:
        """Return `value` if it is within the limit called `name`, else raise `LimitError`.

        Raises:
            LimitError: `value` exceeds the limit.
        """
        bound: int = getattr(self, name)
        if value > bound:
            raise LimitError(
                f"{value} exceeds the limit {name} = {bound}; "
                f"if the table is trusted, open it with limits=Limits({name}=...)"
            )
        return value


DEFAULT_LIMITS = Limits()
