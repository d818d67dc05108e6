"""A real browser, and pages in it that are watched.

The browser is Chromium: Debian's, or another that is on the path, or Playwright's own. `make
browser-setup` installs one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Error, Page, Request, sync_playwright

COMMANDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]

OPTIONS: dict[str, Any] = {
    "viewport": {"width": 1180, "height": 900},
    "reduced_motion": "reduce",  # so that a click finds what was there a moment ago
}

OpenPage = Callable[..., Page]


def find_browser() -> str | None:
    """Return a browser on the path; None if there is none, and Playwright's own is to be used."""
    return next(filter(None, map(shutil.which, COMMANDS)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a browser for all tests of a run; skip those that need it where none can be had."""
    with sync_playwright() as playwright:
        command = find_browser() or playwright.chromium.executable_path
        if not Path(command).exists():
            pytest.skip("there is no Chromium here, and `make browser-setup` could not install one")
        try:
            started = playwright.chromium.launch(executable_path=command, args=FLAGS)
        except Error as error:
            pytest.skip(f"{command} does not start here: {error}")
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Return a function that opens HTML from a file.

    A test fails if a page asks for anything else, logs anything, or has an error; unless the test
    gives a list to take that.
    """
    unexpected: list[str] = []
    contexts = []

    def open_(html: str, told: list[str] | None = None, **options: Any) -> Page:
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(html)
        context = browser.new_context(**{**OPTIONS, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        _watch(page, path.as_uri(), unexpected if told is None else told)
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert unexpected == []


def _watch(page: Page, own: str, told: list[str]) -> None:
    def note_request(request: Request) -> None:
        if request.url not in (own, "data:,"):
            told.append(f"request: {request.url[:200]}")

    def note_dialog(dialog: Dialog) -> None:
        told.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", lambda message: told.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: told.append(f"error: {error}"))
    page.on("request", note_request)
    page.on("dialog", note_dialog)
