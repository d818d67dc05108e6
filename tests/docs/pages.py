"""Plays the commands and the Python of a page, in the order of the page."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

from bucketfmt.cli.__main__ import main

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^ *\$ (.*)\n((?:(?! *\$ ).*\n)*)", re.MULTILINE)
_NEW_INSTANT = re.compile(r"\b20(?!261121)\d{15}\b")
_SOME_KEY = re.compile("look like `[^`]*`")  # of the file group that is read first
_NOT_PLAYED = ("pip", "spark-submit")


def play(page: Path, names: dict[str, Any] | None = None) -> int:
    """Play a page in the current folder, and return how many commands and statements ran.

    Raises:
        AssertionError: Something else is printed than the page says.
    """
    names = {} if names is None else names
    played = 0
    for _, language, body in FENCE.findall(page.read_text()):
        if language == "console":
            for words, wanted in commands(body):
                if words[0] not in _NOT_PLAYED:
                    printed = run(words)
                    assert same(printed) == same(wanted), f"$ {shlex.join(words)}\n{printed}"
                    played += 1
        elif body.startswith(">>> "):
            played += run_python(body, names)
    return played


def commands(body: str) -> list[tuple[list[str], str]]:
    """Return the commands of a block, as words, and what they print."""
    found = _COMMAND.findall(body.replace("\\\n", " "))
    return [(shlex.split(command, comments=True), printed) for command, printed in found]


def run(words: list[str]) -> str:
    """Run a command, `bucketfmt` in this process, and return all that it prints."""
    if words[0] != "bucketfmt":
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with (
        mock.patch("sys.argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        contextlib.suppress(SystemExit),
    ):
        main()
    out.seek(0)
    return out.read()


def run_python(text: str, names: dict[str, Any]) -> int:
    """Run the statements of a block, which see and change `names`."""
    test = doctest.DocTest([], names, "a page", None, 0, None)
    test.globs = names  # DocTest copies what it is given
    test.examples = doctest.DocTestParser().get_examples(text)
    report = io.StringIO()
    runner = doctest.DocTestRunner(_Same(), optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.write, clear_globs=False)
    assert runner.failures == 0, report.getvalue()
    return len(test.examples)


def same(printed: str) -> str:
    """Return a text without what is different in each play."""
    printed = _SOME_KEY.sub("look like (a key)", printed)
    lines = printed.replace(str(Path.cwd()), "/home/ada").splitlines()
    return "\n".join(_NEW_INSTANT.sub("(instant)", line.rstrip()) for line in lines).strip()


class _Same(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(same(want) + "\n", same(got) + "\n", optionflags)
