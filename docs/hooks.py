"""Fills the reference pages from the code, so that they cannot drift from it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bucketfmt.check.catalogue import CATALOGUE


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace `{{ cli }}` and `{{ findings }}` where a page asks for them."""
    if "{{ cli }}" in markdown:
        markdown = markdown.replace("{{ cli }}", command_line())
    if "{{ findings }}" in markdown:
        markdown = markdown.replace("{{ findings }}", findings())
    return markdown


def command_line() -> str:
    """The help of every command, as typer writes it out."""
    words = ["-m", "typer", "--app", "app", "bucketfmt.cli.__main__"]
    words += ["utils", "docs", "--name", "bucketfmt"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    return done.stdout.replace("# `bucketfmt`\n", "", 1)


def findings() -> str:
    """Every finding `check` knows."""
    parts = []
    for kind in CATALOGUE.values():
        parts.append(
            f"## {kind.id}: {kind.title}\n\n"
            f"Severity: {kind.severity}.\n\n"
            f"**Cause.** {kind.cause}\n\n"
            f"**Fix.** {kind.fix}\n\n"
            f"**Reported by users in** {kind.issues}.\n"
        )
    return "\n".join(parts)
