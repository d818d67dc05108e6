"""`python -m bucketfmt.cli` and the `bucketfmt` script."""

from bucketfmt.cli import check, demo, dump, hashing, rows, tables  # noqa: F401  (they register commands)
from bucketfmt.cli.app import app, main

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
