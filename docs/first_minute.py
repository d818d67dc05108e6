"""Records the terminal session of first-minute.md: `python docs/first_minute.py`.

The page holds the commands. They are run in order, in a new folder that holds the table; what they
print is written below them, and docs/figures/first-minute.svg shows the session. `--picture` also
takes a picture of the report that the session writes, by a Chromium (`make browser-setup`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/first-minute.md"
FIGURE = ROOT / "docs/figures/first-minute.svg"
REPORT_FIGURE = FIGURE.with_name("first-minute-report.png")
TABLE = ROOT / "tests/data/flink-0.14.0/cow_bucket.tar.xz"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("$ pip ", "$ curl ")  # the environment, and the table that is in the repository
COLUMNS = 100

# As rich's own, but without its fonts, which a browser would load from elsewhere.
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{
  font: {char_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def record(page: str, folder: Path) -> str:
    """Return the page with what its commands print in `folder`, which gets the table."""
    shutil.copy(TABLE, folder)
    command = folder / "bin/bucketfmt"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bucketfmt.cli "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def run(line: str) -> str:
        if line.startswith(NOT_RUN):
            return f"{line}\n"
        done = subprocess.run(  # noqa: S603 - our own page
            ["/bin/sh", "-c", line.removeprefix("$ ")],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed = done.stdout.rstrip()
        return f"{line}\n{printed}\n" if printed else f"{line}\n"

    def run_block(found: re.Match[str]) -> str:
        lines = [line for line in found[1].splitlines() if line.startswith("$ ")]
        return f"```console\n{''.join(map(run, lines))}```"

    return BLOCK.sub(run_block, page)


def commands(page: str) -> list[str]:
    """Return the lines to type."""
    return re.findall(r"^\$ (.*)$", "".join(BLOCK.findall(page)), re.MULTILINE)


def draw(page: str) -> str:
    """Return the session as a picture."""
    console = Console(record=True, width=COLUMNS + 14, file=StringIO(), force_terminal=True)
    _, *blocks = BLOCK.findall(page)  # the first sets up
    for line in "\n".join(blocks).splitlines():
        console.print(Text(line, style="bold" if line.startswith("$ ") else ""))
    return console.export_svg(title="", code_format=SVG, unique_id="session")


def take_picture(report: Path) -> None:
    """Take a picture of the report."""
    sys.path.insert(0, str(ROOT))
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (pictures only)

    from tests.report.conftest import FLAGS, find_browser  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_context(viewport={"width": 1000, "height": 760}).new_page()
        page.goto(report.as_uri())
        page.screenshot(path=REPORT_FIGURE)
        browser.close()


def main() -> None:
    """Record the session, and draw it."""
    with TemporaryDirectory() as name:
        page = record(PAGE.read_text(), Path(name))
        if "--picture" in sys.argv:
            take_picture(Path(name, "report.html"))
    PAGE.write_text(page)
    FIGURE.write_text(draw(page))


if __name__ == "__main__":
    main()
