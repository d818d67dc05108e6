"""Where Hudi itself is known to read other than what is in the table.

Each function is one difference that is decided or explained somewhere; whatever is not here
is a disagreement.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from tests.interop.replays.plans import Plan

__all__ = ["as_hudi_reads", "is_misread_by_hudi", "is_refused_by_us"]


def as_hudi_reads(ours: pa.Table, plan: Plan) -> pa.Table:
    """Hudi on Spark takes partition columns from the path: "" is null (docs/decisions/0005)."""
    for name, kind in zip(plan.partition_fields, plan.partition_types, strict=True):
        if kind == "string":
            index, column = ours.schema.get_field_index(name), ours.column(name)
            null = pa.scalar(None, pa.string())
            ours = ours.set_column(index, name, pc.if_else(pc.equal(column, ""), null, column))
    return ours


def is_misread_by_hudi(plan: Plan, view: str, report: dict[str, Any]) -> bool:
    """Whether what Hudi reads is known to be wrong."""
    return False


def is_refused_by_us(plan: Plan, error: bf.UnsupportedError) -> bool:
    """Whether bucketfmt is meant to refuse the table."""
    return False
