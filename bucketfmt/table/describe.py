"""What a table is: type, version, keys, index, size; as values, and in words for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from bucketfmt.format.table.table_config import MergeMode
from bucketfmt.metadata_table.metadata_lister import metadata_behind

if TYPE_CHECKING:
    from bucketfmt.table.table import Table

__all__ = ["TableFacts", "load_facts"]


@dataclass(frozen=True)
class TableFacts:
    """The facts of a table.

    Attributes:
        table: The name.
        uri: Where it is.
        type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        version: Of the table.
        record_key: The fields of record keys; empty where keys are generated.
        partitioned_by: The partition fields.
        ordering: The ordering fields.
        merge_mode: How records of a key merge.
        payload_class: What merges them where the mode is `CUSTOM`.
        partial_update_mode: What columns keep their values in an update, where some do.
        index: As text that names it, such as `simple:4`; None where it is unknown.
        index_source: Who says so.
        index_evidence: What is said.
        partitions, file_groups, base_files, log_files: How many there are.
        size: Of the files, in bytes.
        completed_instants, pending_instants: How many are on the active timeline.
        last_instant: The newest completed one; None where there is none.
        metadata_table: The partitions of the metadata table that are ready for use.
        files_listed_by: What reads list files by: `folders` or `metadata table`.
        not_listed_by: Why the metadata table is left alone; None where it is not.
        files_left_out_by: What filtered reads leave files out by: `column_stats` or None.
        not_left_out_by: Why `column_stats` is left alone; None where it is not.
    """

    table: str
    uri: str
    type: str
    version: int
    record_key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    ordering: tuple[str, ...]
    merge_mode: str
    payload_class: str | None
    partial_update_mode: str | None
    index: str | None
    index_source: str
    index_evidence: str
    partitions: int
    file_groups: int
    base_files: int
    log_files: int
    size: int
    completed_instants: int
    last_instant: str | None
    pending_instants: int
    metadata_table: tuple[str, ...]
    files_listed_by: str
    not_listed_by: str | None
    files_left_out_by: str | None
    not_left_out_by: str | None

    def in_words(self) -> dict[str, Any]:
        """Return the facts for people, by name, in the order to show them in."""
        listed_by, left_out_by = self.files_listed_by, self.files_left_out_by or "nothing"
        if self.not_listed_by is not None:
            listed_by += f", not the metadata table: {self.not_listed_by}"
        if self.not_left_out_by is not None:
            left_out_by += f", not column_stats: {self.not_left_out_by}"
        return {
            "table": self.table,
            "uri": self.uri,
            "type": self.type,
            "version": self.version,
            "record key": ", ".join(self.record_key) or "generated",
            "partitioned by": ", ".join(self.partitioned_by) or "nothing",
            "ordering": ", ".join(self.ordering) or "commit time",
            "merge mode": self._merging_in_words(),
            "index": self.index or "unknown",
            "index known from": f"{self.index_source}: {self.index_evidence}",
            "partitions": self.partitions,
            "file groups": self.file_groups,
            "base files": self.base_files,
            "log files": self.log_files,
            "size": self.size,
            "completed instants": self.completed_instants,
            "last instant": self.last_instant,
            "pending instants": self.pending_instants,
            "metadata table": ", ".join(self.metadata_table) or "none",
            "files listed by": listed_by,
            "files left out by": left_out_by,
        }

    def _merging_in_words(self) -> str:
        found = [self.merge_mode]
        if self.payload_class is not None:
            found.append(self.payload_class.rpartition(".")[2])
        if self.partial_update_mode is not None:
            found.append(f"partial update mode {self.partial_update_mode}")
        return ", ".join(found)


def load_facts(table: Table) -> TableFacts:
    """Return the facts of a table.

    Raises:
        CorruptError: the timeline, or what states the index, is damaged.
        StorageError: the store failed.
    """
    config, partitions = table.config, table.inspect.partitions()
    commits = table.inspect.commits()
    completed = commits.filter(pc.equal(commits["state"], "COMPLETED"))
    resolved = table.resolved_index
    metadata = metadata_behind(table.state.lister)
    unlisted = None if metadata is None else metadata.why_not("files")
    has_statistics = metadata is not None and "column_stats" in metadata.partition_names
    kept_in = metadata.why_not("column_stats") if metadata is not None and has_statistics else None
    is_custom, partial = config.merge_mode is MergeMode.CUSTOM, config.partial_update_mode
    return TableFacts(
        table=config.name,
        uri=table.uri,
        type=config.table_type,
        version=config.table_version,
        record_key=config.record_key_fields,
        partitioned_by=config.partition_fields,
        ordering=config.ordering_fields,
        merge_mode=config.merge_mode.value,
        payload_class=(config.payload_class or None) if is_custom else None,
        partial_update_mode=None if partial is None else partial.value,
        index=str(resolved.index) if resolved.index else None,
        index_source=resolved.source,
        index_evidence=resolved.evidence,
        partitions=partitions.num_rows,
        file_groups=pc.sum(partitions["file_groups"]).as_py() or 0,
        base_files=pc.sum(partitions["base_files"]).as_py() or 0,
        log_files=pc.sum(partitions["log_files"]).as_py() or 0,
        size=pc.sum(partitions["size"]).as_py() or 0,
        completed_instants=completed.num_rows,
        last_instant=pc.max(completed["requested_time"]).as_py(),
        pending_instants=commits.num_rows - completed.num_rows,
        metadata_table=tuple(config.metadata_partitions),
        files_listed_by="folders" if metadata is None or unlisted else "metadata table",
        not_listed_by=unlisted,
        files_left_out_by="column_stats" if has_statistics and kept_in is None else None,
        not_left_out_by=kept_in,
    )
