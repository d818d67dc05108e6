"""`python -m bucketfmt.cli` and the `bucketfmt` script."""

from __future__ import annotations

import sys

from bucketfmt.cli.interrupts import ending_at_interrupt, interrupted_by_signals

__all__ = ["main"]

_OF_EXTRA = ("typer", "rich")


def main() -> None:
    """Run the command line and exit with an `ExitCode`."""
    sys.meta_path.insert(0, _NoPandas())
    with ending_at_interrupt():
        try:
            from bucketfmt.cli.app import run  # noqa: PLC0415  (imports typer)
        except ModuleNotFoundError as error:
            if error.name not in _OF_EXTRA:
                raise
            sys.exit(_tell_missing(error.name))
    with interrupted_by_signals():
        run()


class _NoPandas:
    """Says that pandas is not installed.

    pyarrow imports pandas for the first list that it is given, 0.3 s of a short command. No
    command uses pandas.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("commands do not use pandas", name=name)


def _tell_missing(module: str) -> int:
    told = f"the command line needs {module}: pip install 'bucketfmt[cli]'"
    print(f"bucketfmt: {told}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
