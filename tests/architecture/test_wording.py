"""Messages name the next step in the caller's language: Python's in the library, and options and
commands on the command line.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

import bucketfmt as bf
from bucketfmt.cli.app import COMMANDS
from bucketfmt.cli.wording import in_shell_words
from tests.architecture.test_layers import MODULES, layer_of, named, nodes_of, tree_of

COMMAND_LINE = re.compile(
    rf"(?<![\w-])--[a-z]|bucketfmt ({'|'.join(COMMANDS)})\b(?! (gives|knows|on|reads|writes))"
)
FOR_A_SHELL = {
    "resize/advice.py",  # `command` of an advice
    "storage/stores/fsspec_store.py",  # of Hadoop
}
NOT_FOR_THE_COMMAND_LINE = {
    "api/opening.py",  # types of arguments
    "api/resizes.py",
    "check/report_text.py",
    "index/common_buckets.py",  # joins on Spark
    "table/bucket_groups.py",
    "timeline/locking/in_process_lock.py",  # a table that was sent to another process
    "resize/advice.py",  # has a command and a call for each recommendation
}
METHODS = [name for name in dir(bf.Table) if callable(getattr(bf.Table, name)) and name[0] != "_"]
ARGUMENTS = sorted(
    {name for method in METHODS for name in inspect.signature(getattr(bf.Table, method)).parameters}
    | bf.WriteArguments.__annotations__.keys()
    | bf.ResizeArguments.__annotations__.keys()
    | {"limits", "writer", "storage_options", "concurrency", "lock", "metadata_table"}
)
PYTHON = re.compile(
    rf"(?<![\w.])(inspect|metadata_table)?\.?({'|'.join(METHODS)}|list|drop|init)\("
    rf"|(?<![\w.-])({'|'.join(ARGUMENTS)})=|(Index|Config|Limits)\("
)


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that hold a space, but for docstrings, with their lines.

    Values in a text are left out, so that a text that is put together is one text.
    """
    ignored = {
        id(part)
        for node in nodes_of(tree)
        if isinstance(node, ast.Expr | ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node and isinstance(part, ast.Constant) and is_inner(node, part)
    }
    for node in nodes_of(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in ignored:
            text = str(node.value)
        else:
            continue
        if " " in text:
            yield node.lineno, text


def is_inner(node: ast.AST, part: ast.Constant) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and node.value is part)


LIBRARY = [path for path in MODULES if layer_of(path) not in ("cli", "testing", "__init__")]


def test_the_library_does_not_advise_the_command_line() -> None:
    assert [
        f"{named(path)}:{line}: {text}"
        for path in LIBRARY
        if named(path) not in FOR_A_SHELL
        for line, text in sentences(tree_of(path))
        if COMMAND_LINE.search(text)
    ] == []


def test_the_command_line_does_not_advise_python() -> None:
    translated, left = 0, []
    for path in LIBRARY:
        if named(path) in NOT_FOR_THE_COMMAND_LINE:
            continue
        for line, text in sentences(tree_of(path)):
            translated += in_shell_words(text) != text
            if PYTHON.search(in_shell_words(text)):
                left.append(f"{named(path)}:{line}: {text}")
    assert left == []
    assert translated > 30


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        (
            "pass index=, such as index=SimpleBucketIndex(16)",
            "pass --index, such as --index simple:16",
        ),
        ("pass the index= it was written with", "pass the --index it was written with"),
        ("pass evolve=True to add them", "pass --evolve to add them"),
        ('; pass missing="null"', "; pass --missing null"),
        ("inspect.commits() lists the writes", "`bucketfmt history` lists the writes"),
        ('`metadata_table.rebuild("files")`.', "`bucketfmt index rebuild TABLE files`."),
        ('check(depth="full") lists them', "`bucketfmt check --depth full` lists them"),
        (
            "index=ConsistentHashingIndex(num_buckets=4, hash_fields=None) contradicts",
            "--index consistent:4 contradicts",
        ),
        ("set hoodie.metadata.index=true", "set hoodie.metadata.index=true"),
        ("check the URL, storage_options and", "check the URL, --storage-option and"),
        ("recheck() and x.check()", "recheck() and x.check()"),
    ],
)
def test_words_of_the_command_line(python: str, shell: str) -> None:
    assert in_shell_words(python) == shell
