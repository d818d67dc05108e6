"""The formats of spec/vectors: what decodes an input into the JSON value a vector expects.

Each function takes the input of a vector (bytes for "hex", text for "text", a JSON value otherwise)
and returns a JSON value, or raises what the package raises. They are thin: a program in another
language needs the same functions to run the vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.spec.formats import buckets, metadata_records, names, rows, tables, timeline
from tests.spec.formats.values import Json

__all__ = ["FORMATS"]

FORMATS: dict[str, Callable[[Any], Json]] = {
    **metadata_records.FORMATS,
    **names.FORMATS,
    **timeline.FORMATS,
    **buckets.FORMATS,
    **rows.FORMATS,
    **tables.FORMATS,
}
