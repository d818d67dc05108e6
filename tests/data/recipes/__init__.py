"""One function per table: `RECIPES` maps a table's name to how it is written."""

from __future__ import annotations

from recipes import basics, history, merging, metadata, schemas, services, tiny  # noqa: F401
from recipes.registry import RECIPES

__all__ = ["RECIPES"]
