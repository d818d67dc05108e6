"""`python -m bucketfmt.cli` and the `bucketfmt` script."""

from __future__ import annotations

from bucketfmt.cli.interrupts import ending_at_interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with an `ExitCode`."""
    with ending_at_interrupt():
        from bucketfmt.cli.app import run  # noqa: PLC0415  (imports typer)
    run()


if __name__ == "__main__":
    main()
