"""Fills the reference pages from the code, so that they cannot drift from it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from bucketfmt.check.catalogue import CATALOGUE
from bucketfmt.cli.wording import in_shell_words

_PACKED = Path(__file__).parents[1] / "bucketfmt/cli/commands/demo_table.tar.xz"
_LOSS = "Until then rows may be lost or wrong."
_NO_LOSS = "No rows are lost or wrong by it."
_DUMP = re.compile(r"^```hexdump (\S+)$", re.MULTILINE)
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)?#([0-9]+)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace `{{ cli }}` and `{{ findings }}`, and give dumps the name of their vector as a title.

    `contributing.md` is CONTRIBUTING.md of the folder above, whose links begin with `docs/`.
    """
    if page.file.src_uri == "contributing.md":
        return markdown.replace("](docs/", "](")
    if "{{ cli }}" in markdown:
        markdown = markdown.replace("{{ cli }}", command_line())
    if "{{ findings }}" in markdown:
        markdown = markdown.replace("{{ findings }}", findings())
    return _DUMP.sub(r'```text title="\1"', markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the table that Getting started has readers download."""
    files.append(File.generated(config, "downloads/trips.tar.xz", content=packed_table()))
    return files


def packed_table() -> bytes:
    """Return the table of `bucketfmt demo`, packed as a folder `trips`."""
    packed = io.BytesIO()
    with tarfile.open(_PACKED) as table, tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for entry in table:
            folder, _, inner = entry.name.partition("/")
            if folder != "_expected":  # the rows that Hudi read, for the tests
                content = table.extractfile(entry)
                entry.name = f"trips/{inner}".rstrip("/")
                archive.addfile(entry, content)
    return packed.getvalue()


def command_line() -> str:
    """The help of every command, as typer writes it out."""
    words = ["-m", "typer", "--app", "app", "bucketfmt.cli.app"]
    words += ["utils", "docs", "--name", "bucketfmt"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    return done.stdout.replace("# `bucketfmt`\n", "", 1)


def findings() -> str:
    """Every finding `check` knows."""
    parts = ["| id | finding | severity |\n|---|---|---|"]
    for kind in CATALOGUE.values():
        parts[0] += f"\n| [{kind.id}](#{kind.id.lower()}) | {kind.title} | {kind.severity} |"
    parts[0] += "\n"
    for kind in CATALOGUE.values():
        parts.append(
            f"## {kind.id}: {kind.title} {{ #{kind.id.lower()} }}\n\n"
            f"Severity: {kind.severity}.\n\n"
            f"**Cause.** {kind.cause}\n\n"
            f"**Evidence.** {kind.evidence}\n\n"
            f"**Fix.** {in_shell_words(kind.fix)} {_LOSS if kind.data_loss else _NO_LOSS}\n\n"
            f"**Reported by users in** {_with_links(kind.issues)}.\n"
        )
    return "\n".join(parts)


def _with_links(issues: str) -> str:
    """Link `owner/name#1, #2` to the issues; a number alone is of the repository before it."""
    repository = ""

    def link(found: re.Match[str]) -> str:
        nonlocal repository
        repository = found[1] or repository
        return f"[{found[0]}](https://github.com/{repository}/issues/{found[2]})"

    return _ISSUE.sub(link, issues)
