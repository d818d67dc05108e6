"""Pages as they are built: a browser shows what the sources mean, and search finds it."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from typer.main import get_command

from bucketfmt.check.catalogue import CATALOGUE
from bucketfmt.cli.app import app
from tests.docs.conftest import ROOT
from tests.docs.pages import FENCE

DOCS = ROOT / "docs"
BLOCK = re.compile(r"<pre[^>]*>(.*?)</pre>", re.DOTALL)


def sources() -> list[str]:
    """Return the pages, relative to docs/, without the extension."""
    found = (
        Path(folder, name) for folder, _, names in os.walk(DOCS, followlinks=True) for name in names
    )
    inner = (path.relative_to(DOCS) for path in found if path.suffix == ".md")
    return sorted(path.as_posix()[:-3] for path in inner if "vector_sources" not in path.parts)


def folder_of(page: str) -> str:
    """Return the folder of a page in the site, "" for the first page."""
    return re.sub(r"(^|/)(README|index)$", "", page)


def built(site: Path, page: str) -> str:
    """Return the HTML of a page."""
    return (site / folder_of(page) / "index.html").read_text()


def text_of(markup: str) -> str:
    """Return what a reader sees of some HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def test_every_page_is_in_the_navigation(site: Path) -> None:
    linked = set(re.findall(r'<a href="([^"]*)" class="md-nav__link', built(site, "index")))
    pages = {f"{folder_of(page)}/" for page in sources()} - {"/"}
    assert len(pages) > 70
    assert pages - linked == set()


def test_every_block_of_code_keeps_its_lines(site: Path) -> None:
    """A fence that is not understood becomes a paragraph, in one line."""
    blocks = 0
    for page in sources():
        shown = [text_of(block).strip() for block in BLOCK.findall(built(site, page))]
        for indent, _, body in FENCE.findall((DOCS / f"{page}.md").read_text()):
            lines = [line.removeprefix(indent) for line in body.splitlines()]
            assert "\n".join(lines).strip() in shown, f"{page}: {lines[0]}"
            blocks += 1
    assert blocks > 100


def test_dumps_have_the_name_of_their_vector(site: Path) -> None:
    for page in sources():
        for name in re.findall(
            r"^```hexdump (\S+)$", (DOCS / f"{page}.md").read_text(), re.MULTILINE
        ):
            assert f'<span class="filename">{name}</span>' in built(site, page)


def test_commands_have_their_whole_summaries(site: Path) -> None:
    page = " ".join(text_of(built(site, "reference/cli")).split())
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) > 20
    for name, command in commands.items():
        summary = command.help.partition("\n\n")[0].replace("`", "")
        assert f"{name}: {' '.join(summary.split())}" in page


def test_pictures_and_downloads_are_there(site: Path) -> None:
    address = re.search(r"^site_url: (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert address is not None
    top = urlsplit(address[1]).path  # links of the page for 404 begin with it
    found = 0
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:src|href)="([^"#?]+\.(?:png|svg|xz|html))"', page.read_text()):
            if ":" not in link:
                assert (page.parent / link).exists() or (site / link.removeprefix(top)).exists(), (
                    page,
                    link,
                )
                found += link.endswith((".png", ".xz"))
    assert found > 5


def test_search_finds_messages_and_findings(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text())["docs"]
    titles = {text_of(entry["title"]) for entry in index}
    assert {f"{kind.id}: {kind.title}" for kind in CATALOGUE.values()} <= titles
    messages = re.findall(r"^### (.*)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(messages) > 25
    assert {message.replace("`", "") for message in messages} <= titles
    texts = [text_of(entry["text"]) for entry in index if "troubleshooting" in entry["location"]]
    assert any(
        "found during the BucketStreamWriteFunction index bootstrap" in text for text in texts
    )
