"""Facts as HTML, for notebooks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["facts_html"]


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """Return a table of two columns. Text of the title and the facts is no markup."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"
