"""One function per table: `RECIPES` maps a table's name to how it is written."""

from __future__ import annotations

from recipes import basics, history, merging, schemas, services, tiny  # noqa: F401  (register)
from recipes.registry import RECIPES

__all__ = ["RECIPES"]
