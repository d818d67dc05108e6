"""A report on a table as one page of HTML, to be saved or shown in a notebook.

The page needs no network and holds all that it shows. What comes from the table is text to it:
templates escape every value, JSON for the script has no character that ends a script element, and
the page's policy (CSP) allows the one style sheet and the one script that are part of it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bucketfmt.arguments import check_kind, check_text
from bucketfmt.extras import of_extra
from bucketfmt.process import cached_property
from bucketfmt.report.contents import ReportContents
from bucketfmt.texts import count_text, counted_text, size_text, visible_text

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["TableReport"]

_PATHS_MAX = 50  # of a finding
_FRAME_HEIGHT = 900
_FOLDER = Path(__file__).parent / "page"


@dataclass(frozen=True)
class TableReport:
    """A report on a table. A notebook shows it as a frame.

    Attributes:
        contents: The values of the report.
        shell_words: Returns a message of the library in the words of the command line, for a page
            that the command line writes. Without it the page names calls in Python.
    """

    contents: ReportContents
    shell_words: Callable[[str], str] | None = None

    def __repr__(self) -> str:
        check = self.contents.check
        return f"<bucketfmt.TableReport of {self.contents.name}: {check.status}>"

    def _repr_html_(self) -> str:
        """Return a frame for a notebook; the page in it cannot reach the notebook."""
        page = escape(self.html, quote=True)
        title = escape(f"Report on {visible_text(self.contents.name)}", quote=True)
        return (
            f'<iframe sandbox="allow-scripts" title="{title}" width="100%" '
            f'height="{_FRAME_HEIGHT}" frameborder="0" srcdoc="{page}"></iframe>'
        )

    @cached_property
    def html(self) -> str:
        """The page. Needs the `report` extra."""
        return _render(self.contents, self.shell_words)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a local file.

        Raises:
            OSError: the file cannot be written.
            TypeError: `path` is neither text nor a path.
            ValueError: `path` is text that names no file.
        """
        check_kind("path", path, (str, os.PathLike), "the path of a local file")
        if "\0" in check_text("path", os.fspath(path)):
            raise ValueError(f"path has no null characters, unlike {path!r}")
        Path(path).write_text(self.html, encoding="utf-8")


def _render(contents: ReportContents, shell_words: Callable[[str], str] | None) -> str:
    from bucketfmt.report.page_model import make_page  # noqa: PLC0415  (for pages only)

    page = make_page(contents)
    style, script = ((_FOLDER / name).read_text("utf-8") for name in ("style.css", "script.js"))
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            style=_trusted(style),
            script=_trusted(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
            data=_trusted(_script_json(page.to_plain())),
            paths_max=_PATHS_MAX,
            words=shell_words or str,
            is_for_shell=shell_words is not None,
        )
    )


@cache
def _environment() -> Environment:
    with of_extra("report"):
        from jinja2 import (  # noqa: PLC0415  (an optional dependency)
            Environment,
            FileSystemLoader,
            StrictUndefined,
        )

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_text(value) if type(value) is str else value,
        auto_reload=False,
    )
    environment.filters["count"] = count_text
    environment.filters["counted"] = counted_text
    environment.filters["size"] = size_text
    return environment


def _trusted(text: str) -> Any:
    """Return text of this package, or text that `_script_json` escaped, as markup."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(text)  # noqa: S704


def _script_json(value: Any) -> str:
    """Return JSON that is safe within a script element: a value cannot end the element."""
    text = msgspec.json.encode(value).decode()
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _hash(text: str) -> str:
    """Return the name by which a policy allows an inline script or style sheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
