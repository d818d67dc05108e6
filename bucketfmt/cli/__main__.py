"""`python -m bucketfmt.cli` and the `bucketfmt` script."""

from __future__ import annotations

import sys

from bucketfmt.cli.interrupts import ending_at_interrupt

__all__ = ["main"]

_OF_EXTRA = ("typer", "rich")


def main() -> None:
    """Run the command line and exit with an `ExitCode`."""
    with ending_at_interrupt():
        try:
            from bucketfmt.cli.app import run  # noqa: PLC0415  (imports typer)
        except ModuleNotFoundError as error:
            if error.name not in _OF_EXTRA:
                raise
            sys.exit(_tell_missing(error.name))
    run()


def _tell_missing(module: str) -> int:
    told = f"the command line needs {module}: pip install 'bucketfmt[cli]'"
    print(f"bucketfmt: {told}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
