"""The sources of the vectors: one module per topic, each a generator of `Vector`s."""

from __future__ import annotations

from spec.vector_sources import names, paths, places, properties
from spec.vector_sources.buckets import directories, file_groups, hashing, keys, rings, rules
from spec.vector_sources.files import deletes, footers, hfiles, logs, metadata_records, virtual_logs
from spec.vector_sources.timelines import (
    commits,
    filled_values,
    partial_updates,
    slices,
    snapshots,
    timeline,
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
    partial_updates.vectors,
    filled_values.vectors,
    snapshots.vectors,
    hfiles.vectors,
    metadata_records.vectors,
)
