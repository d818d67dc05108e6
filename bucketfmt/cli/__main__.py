"""`python -m bucketfmt.cli` and the `bucketfmt` script."""

from bucketfmt.cli import demo, dump, hashing, rows, tables  # noqa: F401  (they register commands)
from bucketfmt.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
