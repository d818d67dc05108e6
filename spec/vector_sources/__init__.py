"""The sources of the vectors: one module per topic, each a generator of `Vector`s."""

from __future__ import annotations

from spec.vector_sources import (
    commits,
    deletes,
    directories,
    file_groups,
    footers,
    hashing,
    hfiles,
    keys,
    logs,
    metadata_records,
    names,
    paths,
    places,
    properties,
    rings,
    rules,
    slices,
    snapshots,
    timeline,
    virtual_logs,
)

__all__ = ["SOURCES"]

SOURCES = (
    names.vectors,
    paths.vectors,
    places.vectors,
    timeline.vectors,
    properties.vectors,
    keys.vectors,
    hashing.vectors,
    rules.vectors,
    rings.vectors,
    directories.vectors,
    file_groups.vectors,
    logs.vectors,
    virtual_logs.vectors,
    deletes.vectors,
    footers.vectors,
    commits.vectors,
    slices.vectors,
    snapshots.vectors,
    hfiles.vectors,
    metadata_records.vectors,
)
