"""One condition of a filter: a column, an operator and a value. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

__all__ = ["COMPARISONS", "Predicate"]

COMPARISONS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
"""What each operator of a single value does with two values, of Python or of Arrow."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """One comparison. `value` is a tuple for `in` and `not in`; `operator` is never `=`."""

    column: str
    operator: str
    value: Any
