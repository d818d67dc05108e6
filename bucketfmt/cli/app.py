"""The command line: the commands it has, how they are found, and how a run ends."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from enum import IntEnum
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import bucketfmt
from bucketfmt.cli.interrupts import INTERRUPTED, ending_at_interrupt, exit_code
from bucketfmt.cli.wording import in_shell_words
from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.names.layout import METADATA_FOLDER

__all__ = ["COMMANDS", "ExitCode", "app", "run"]

# typer carries click within itself and exports this subclass only.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_ROOM = "bucketfmt.cli.commands"
COMMANDS = {
    "demo": (
        f"{_ROOM}.demo",
        "Read and check a table that Hudi wrote; then create, write and resize new tables.",
    ),
    "describe": (
        f"{_ROOM}.tables",
        "Print the type, version, keys, index, size and schema of a table.",
    ),
    "history": (f"{_ROOM}.tables", "List the commits and table services of a table, newest first."),
    "files": (f"{_ROOM}.tables", "List the files a reader of the table opens."),
    "buckets": (
        f"{_ROOM}.tables",
        "Draw the size of each bucket, and print how even the sizes are.",
    ),
    "read": (f"{_ROOM}.rows", "Read rows as Hudi reads them."),
    "changes": (
        f"{_ROOM}.rows",
        "Read the rows that were written after a moment, up to another.",
    ),
    "locate": (
        f"{_ROOM}.rows",
        "Print the bucket and the files of keys, without opening a data file.",
    ),
    "lookup": (
        f"{_ROOM}.rows",
        "Read the rows of given keys, opening only the buckets of the keys.",
    ),
    "check": (
        f"{_ROOM}.check",
        "Check a table and print what is wrong, why, and what to do. Writes nothing.",
    ),
    "report": (
        f"{_ROOM}.report",
        "Write a page about a table: its health, its buckets, its files and its timeline.",
    ),
    "hash": (
        f"{_ROOM}.hashing",
        "Print the hash values, the bucket and the ring position of record keys.",
    ),
    "dump": (
        f"{_ROOM}.dump",
        "Show a file field by field: offsets, values, and the rules of the format.",
    ),
    "create": (
        f"{_ROOM}.creating",
        "Create a table with the columns of a file; the rows of the file are not written.",
    ),
    "upsert": (f"{_ROOM}.writing", "Write the rows of files to a table, as one commit."),
    "delete": (f"{_ROOM}.writing", "Delete rows by key or by filter, or drop partitions."),
    "maintain": (
        f"{_ROOM}.services",
        "Compact, clean and archive as far as that is due, as writes do after a commit.",
    ),
    "compact": (
        f"{_ROOM}.services",
        "Merge the log files of a merge-on-read table into new base files.",
    ),
    "clean": (f"{_ROOM}.services", "Delete files that only reads of past commits need."),
    "archive": (f"{_ROOM}.services", "Move old instants from the active timeline to the archive."),
    "rehash": (f"{_ROOM}.resizing", "Give every partition another number of buckets."),
    "rescale": (
        f"{_ROOM}.resizing",
        "Give partitions numbers of buckets by rules; the table keeps rules from then on.",
    ),
    "resize": (
        f"{_ROOM}.resizing",
        "Split large buckets of consistent or extendible hashing, and merge small neighbours.",
    ),
    "repair": (
        f"{_ROOM}.repairing",
        "Move rows to the buckets of their keys; make lost or damaged hashing metadata again.",
    ),
    "migrate": (
        f"{_ROOM}.resizing",
        "Give a table with another index, or without one, a bucket index.",
    ),
    "rollback": (f"{_ROOM}.services", "Take back the newest write, or a failed write."),
    "savepoint": (f"{_ROOM}.services", "Keep the table as it is now, for a later restore."),
    "restore": (
        f"{_ROOM}.services",
        "Take back every write after a savepoint.",
    ),
    "index": (
        f"{_ROOM}.index",
        "Record a table's index, and make the indexes of its metadata table.",
    ),
}
"""Each command: the module whose `app` has it, and the first sentence of its help. The module is
imported when the command is called, and `bucketfmt --help` imports none of them."""


class ExitCode(IntEnum):
    """How a run ended."""

    OK = 0
    FINDINGS = 1
    FAILED = 2
    UNSUPPORTED = 3
    USAGE = 64


class _ImportedOnCall(TyperGroup):
    """A group of commands whose modules are imported when they are called.

    `commands` holds outlines of the commands: a name and the first sentence of the help.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, for a call of the command or for its help; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        with ending_at_interrupt():
            module = import_module(COMMANDS[cmd_name][0])
        command = typer.main.get_group(module.app).commands[cmd_name]
        command.short_help = COMMANDS[cmd_name][1]  # whole; typer cuts what it finds itself
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the group, which lists the outlines."""
        self._outlined().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands and options that begin so, by the outlines."""
        ctx.command = self._outlined()
        return ctx.command.shell_complete(ctx, incomplete)

    def _outlined(self) -> TyperGroup:
        return TyperGroup(
            name=self.name, commands=dict(self.commands), params=self.params, help=self.help
        )


app = typer.Typer(
    name="bucketfmt",
    cls=_ImportedOnCall,
    help="Read, write and check Apache Hudi bucket-index tables without a JVM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"bucketfmt {bucketfmt.__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that go before a command."""


def _outline() -> None:
    """Stand for a command whose module is not imported."""


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(_outline)


def run() -> None:
    """Run the command line and exit with an `ExitCode`. Errors are one line on stderr."""
    warnings.showwarning = _show_warning
    logging.lastResort = _LogLine(logging.WARNING)
    try:
        if sys.stdout is None:
            raise OSError("standard output is closed")
        _escape_what_cannot_be_shown()
        _check_encoding(sys.argv[1:])
        result = app(prog_name="bucketfmt", standalone_mode=False)
        code = result if isinstance(result, int) else ExitCode.OK
        if code == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
    except typer.Exit as error:
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        print("bucketfmt: stopped", file=sys.stderr)
        code = exit_code()
    except UnsupportedError as error:
        print(f"bucketfmt: not supported: {in_shell_words(str(error))}", file=sys.stderr)
        code = ExitCode.UNSUPPORTED
    except BucketfmtError as error:
        print(f"bucketfmt: {in_shell_words(str(error))}{_next_step(error)}", file=sys.stderr)
        code = ExitCode.FAILED
    except (BrokenPipeError, SystemExit):  # typer exits where a pipe is closed, and only there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        code = ExitCode.OK
    except OSError as error:  # of the output; the table's are BucketfmtErrors
        place = error.filename or "the output"
        named = f"{place}: {error.strerror}" if error.strerror else str(error)
        print(f"bucketfmt: {named}", file=sys.stderr)
        code = ExitCode.FAILED
    except MemoryError as error:
        print(f"bucketfmt: {LimitError.of_memory('reading or writing', error)}", file=sys.stderr)
        code = ExitCode.FAILED
    except ImportError as error:  # of an extra that is not installed
        print(f"bucketfmt: {error}", file=sys.stderr)
        code = ExitCode.FAILED
    except (UsageError, ValueError, TypeError) as error:
        message = _usage_message(error)
        if message:  # none where the help was printed, for want of arguments
            print(f"bucketfmt: {in_shell_words(message)}", file=sys.stderr)
        code = ExitCode.USAGE
    sys.exit(code)


def _check_encoding(words: list[str]) -> None:
    """Refuse words that the encoding of the process has no characters for: no table has them."""
    encoding = sys.getfilesystemencoding()
    for word in words if encoding != "utf-8" else ():
        if any("\udc80" <= char <= "\udcff" for char in word):  # PEP 383
            raise UsageError(
                f"{os.fsencode(word).decode(errors='replace')} is read as {encoding}, which has no "
                "such characters; set PYTHONUTF8=1, or a locale of UTF-8"
            )


def _escape_what_cannot_be_shown() -> None:
    """Have text of a damaged file, and what the terminal has no character for, printed as codes."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _LogLine(logging.Handler):
    """Prints what is logged as a line, where nobody has set up logging.

    Python would print the traceback too, which gcsfs logs of each request that fails. The command
    ends with the error.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print the first line of a record."""
        print(f"bucketfmt: {record.getMessage().partition(chr(10))[0]}", file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: object,
    filename: object,
    lineno: object,
    file: object = None,
    line: object = None,
) -> None:
    """Print a warning of the library as errors are printed, without the line of the code."""
    print(f"bucketfmt: warning: {in_shell_words(str(message))}", file=sys.stderr)


def _next_step(error: BucketfmtError) -> str:
    """Return what to do about a damaged file of the timeline, where the error does not say it."""
    is_of_timeline = (error.path or "").startswith(f"{METADATA_FOLDER}/")
    if isinstance(error, CorruptError) and is_of_timeline and "; " not in error.message:
        return "; see `bucketfmt check`"
    return ""


def _usage_message(error: Exception) -> str:
    """Return what is wrong with the arguments, without the words that typer puts before it."""
    close = getattr(error, "possibilities", None)
    if close:
        named = getattr(error, "option_name", "")
        return f"no such option {named}; did you mean {' or '.join(sorted(close))}?"
    if isinstance(error, typer.BadParameter) and error.param is None:
        return error.message
    return str(getattr(error, "format_message", error.__str__)())
