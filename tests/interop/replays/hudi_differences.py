"""Where Hudi itself is known to read other than what is in the table.

Each function is one difference that is decided or explained somewhere; whatever is not here
is a disagreement.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from tests.interop.replays.plans import Plan

__all__ = ["as_hudi_reads", "is_made_wrong_by_hudi", "is_misread_by_hudi", "is_refused_by_us"]


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


_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""  # as repr has it
_NARROW = re.compile(
    rf"\w+ from (?P<low>{_TEXT}) to (?P<high>{_TEXT}), and its files from (?P<least>{_TEXT}) to "
    rf"(?P<most>{_TEXT})(?:; of |$)"
)


def is_made_wrong_by_hudi(finding: bf.Finding) -> bool:
    """Whether a finding is of damage that Hudi does to its tables (docs/reliability.md).

    Statistics of partitions have the bounds of texts in the order of UTF-16, in which characters
    above U+FFFF are below others; Spark compares bytes of UTF-8, and leaves the rows out.
    """
    told = finding.evidence.removeprefix("statistics of ")
    columns = [*_NARROW.finditer(told)]
    if finding.id != "M006" or "".join(each[0] for each in columns) != told:
        return False
    bounds = (each.group("low", "least", "most", "high") for each in columns)
    in_utf16 = ([ast.literal_eval(text).encode("utf-16-be") for text in each] for each in bounds)
    return all(each == sorted(each) for each in in_utf16)


def is_refused_by_us(plan: Plan, error: bf.UnsupportedError) -> bool:
    """Whether bucketfmt is meant to refuse the table."""
    return False
