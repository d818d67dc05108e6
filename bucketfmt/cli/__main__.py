"""`python -m bucketfmt.cli` and the `bucketfmt` script."""

from bucketfmt.cli.app import app, main
from bucketfmt.cli.commands import (  # noqa: F401  (they register commands)
    check,
    creating,
    demo,
    dump,
    hashing,
    index,
    rows,
    services,
    tables,
    writing,
)

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
