"""What the command line imports before a command runs, and Ctrl-C meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer

from bucketfmt.cli import commands
from bucketfmt.cli.app import COMMANDS
from bucketfmt.cli.app import app as bucketfmt_app
from tests.architecture.test_startup import imported_by
from tests.cli.conftest import COMMAND

Golden = Callable[[str, str], Path]

MODULES = sorted({module for module, _ in COMMANDS.values()})
FOLDER = Path(str(commands.__file__)).parent

INTERRUPTING = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


def run_command(*arguments: str) -> str:
    return (
        f"import sys\nsys.argv = ['bucketfmt', *{arguments}]\n"
        "from bucketfmt.cli.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert ended.code == 0, ended"
    )


def test_help_imports_no_command() -> None:
    assert imported_by(run_command("--help")) == {"rich", "typer"}
    code = run_command("--help") + "\nassert 'pyarrow' not in sys.modules"
    assert imported_by(code) == {"rich", "typer"}


def test_a_command_imports_what_it_uses() -> None:
    code = run_command("hash", "a", "--output", "json") + "\nassert 'rich.text' not in sys.modules"
    assert "pyarrow.parquet" not in imported_by(code)


@cache
def imported_by_an_array() -> set[str]:
    return imported_by("import pyarrow\npyarrow.array([1])")


@pytest.mark.parametrize("arguments", [("read", "--output", "json"), ("files",), ("history",)])
def test_no_command_imports_pandas(golden: Golden, arguments: tuple[str, ...]) -> None:
    """Which pyarrow does for the first list that it makes an array of."""
    name, *options = arguments
    code = run_command(name, str(golden("1.2.0", "tiny_mor")), *options)
    assert "pandas" in imported_by_an_array()
    assert "pandas" not in imported_by(code)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_their_help_says(name: str) -> None:
    module, sentence = COMMANDS[name]
    command = typer.main.get_group(import_module(module).app).commands[name]
    assert command.help is not None
    assert command.help.split("\n\n")[0].replace("\n", " ") == sentence


def test_no_summary_is_cut() -> None:
    group = typer.main.get_command(bucketfmt_app)
    context = typer.Context(group)
    for name, (_, sentence) in COMMANDS.items():
        command = group.get_command(context, name)  # type: ignore[attr-defined]
        assert command.get_short_help_str() == sentence


def test_the_list_of_commands_is_complete() -> None:
    found = {
        name: module for module in MODULES for name in typer.main.get_group(app_of(module)).commands
    }
    assert found == {name: module for name, (module, _) in COMMANDS.items()}
    assert [path.stem for path in sorted(FOLDER.glob("[!_]*.py"))] == [
        module.rpartition(".")[2] for module in MODULES
    ]


def app_of(module: str) -> typer.Typer:
    app = import_module(module).app
    assert isinstance(app, typer.Typer)
    return app


@pytest.mark.parametrize(
    "module",
    ["bucketfmt.cli.app", "typer", "typer.core", "bucketfmt.cli.commands.tables", "pyarrow.lib"],
)
def test_ctrl_c_while_modules_are_imported(tmp_path: Path, golden: Golden, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    run = subprocess.run(
        [*COMMAND, "files", str(golden("1.2.0", "tiny_mor"))],
        capture_output=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "INTERRUPT_AT": module,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]),
        },
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, b"", b"bucketfmt: stopped\n")


def test_ctrl_c_that_is_ignored_stays_so() -> None:
    """As of a command that a shell runs in the background."""
    code = (
        "import os, signal\nfrom bucketfmt.cli.interrupts import ending_at_interrupt\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with ending_at_interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout == b"True\n"
