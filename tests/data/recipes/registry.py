"""Names of tables and the functions that write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recipes.lab import Lab

__all__ = ["RECIPES", "Recipe", "recipe"]


@dataclass(frozen=True)
class Recipe:
    """How one table is written, and the Hudi versions that can."""

    write: Callable[[Lab, str], None]
    since: str
    until: str | None

    def runs_on(self, version: str) -> bool:
        if self.until is not None and _numbers(version) > _numbers(self.until):
            return False
        return _numbers(version) >= _numbers(self.since)


RECIPES: dict[str, Recipe] = {}


def recipe(
    name: str | None = None,
    *,
    since: str = "0.15.0",
    until: str | None = None,
    **arguments: object,
) -> Callable:
    """Register the decorated function as the way to write table `name` (its own name by default).

    `arguments` are passed on, so one function can write a table in several variants.
    """

    def register(function: Callable) -> Callable:
        RECIPES[name or function.__name__] = Recipe(
            lambda lab, table: function(lab, table, **arguments), since, until
        )
        return function

    return register


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
