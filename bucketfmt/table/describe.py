"""What a table is, in facts for people: type, version, keys, index, size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from bucketfmt.format.table.table_config import MergeMode, TableConfig
from bucketfmt.metadata_table.metadata_lister import metadata_behind

if TYPE_CHECKING:
    from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
    from bucketfmt.table.table import Table

__all__ = ["describe_table"]


def describe_table(table: Table) -> dict[str, Any]:
    """Return the facts of a table as plain values, by name, in the order to show them in.

    Raises:
        CorruptError: the timeline, or what states the index, is damaged.
        StorageError: the store failed.
    """
    config, partitions = table.config, table.inspect.partitions()
    commits = table.inspect.commits()
    completed = commits.filter(pc.equal(commits["state"], "COMPLETED"))
    resolved = table.resolved_index
    metadata = metadata_behind(table.state.lister)
    return {
        "table": config.name,
        "uri": table.uri,
        "type": config.table_type,
        "version": config.table_version,
        "record key": ", ".join(config.record_key_fields) or "generated",
        "partitioned by": ", ".join(config.partition_fields) or "nothing",
        "ordering": ", ".join(config.ordering_fields) or "commit time",
        "merge mode": _merging_of(config),
        "index": str(resolved.index) if resolved.index else "unknown",
        "index known from": f"{resolved.source}: {resolved.evidence}",
        "partitions": partitions.num_rows,
        "file groups": pc.sum(partitions["file_groups"]).as_py() or 0,
        "base files": pc.sum(partitions["base_files"]).as_py() or 0,
        "log files": pc.sum(partitions["log_files"]).as_py() or 0,
        "size": pc.sum(partitions["size"]).as_py() or 0,
        "completed instants": completed.num_rows,
        "last instant": pc.max(completed["requested_time"]).as_py(),
        "pending instants": commits.num_rows - completed.num_rows,
        "metadata table": ", ".join(config.metadata_partitions) or "none",
        "files listed by": _listed_by(metadata),
        "files left out by": _left_out_by(metadata),
    }


def _merging_of(config: TableConfig) -> str:
    """Say how records merge: the mode, the class of a custom one, the partial update mode."""
    found = [config.merge_mode.value]
    if config.merge_mode is MergeMode.CUSTOM and config.payload_class:
        found.append(config.payload_class.rpartition(".")[2])
    if config.partial_update_mode is not None:
        found.append(f"partial update mode {config.partial_update_mode.value}")
    return ", ".join(found)


def _listed_by(metadata: TrustedMetadata | None) -> str:
    """Say what reads list the table by, and why not by its metadata table."""
    if metadata is None:
        return "folders"
    reason = metadata.why_not("files")
    return "metadata table" if reason is None else f"folders, not the metadata table: {reason}"


def _left_out_by(metadata: TrustedMetadata | None) -> str:
    """Say what filtered reads leave files out by, and why not by the metadata table."""
    if metadata is None or "column_stats" not in metadata.partition_names:
        return "nothing"
    reason = metadata.why_not("column_stats")
    return "column_stats" if reason is None else f"nothing, not column_stats: {reason}"
