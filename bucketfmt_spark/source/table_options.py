"""The common options of reading and writing with `format("bucketfmt")`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import bucketfmt as bf

__all__ = ["TableOptions"]

_STORAGE = "storage."


class TableOptions:
    """The options `path`, and `storage.*`, which fsspec gets without the prefix. Pickles."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        """Check names.

        Args:
            options: The options from Spark; names in any case.
            known: The further names, in lower case.

        Raises:
            ValueError: the path is missing, or an option is unknown.
        """
        names = ["path", *known]
        self.given = {str(name).lower(): value for name, value in options.items()}
        unknown = sorted(n for n in self.given if n not in names and not n.startswith(_STORAGE))
        if unknown:
            raise ValueError(
                f"bucketfmt has no option {unknown[0]}; its options are {', '.join(names)}"
            )
        if "path" not in self.given:
            raise ValueError('no path is given; use load("..."), save("...") or the option path')

    @property
    def path(self) -> str:
        """The URI of the table."""
        return self.given["path"]

    @property
    def storage(self) -> dict[str, str]:
        """The options for fsspec."""
        given = self.given.items()
        return {name[len(_STORAGE) :]: text for name, text in given if name.startswith(_STORAGE)}

    def open(self) -> bf.Table:
        """Open the table."""
        return bf.open(self.path, self.storage)

    def is_true(self, name: str, *, default: bool = False) -> bool:
        """Return the value of an option that is true or false; `default` if it is not given.

        Raises:
            ValueError: the text is neither true nor false.
        """
        text = self.given.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text!r}")
        return text == "true"
