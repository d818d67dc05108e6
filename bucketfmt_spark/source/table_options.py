"""The options that reading and writing by `format("bucketfmt")` have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import bucketfmt as bf

__all__ = ["TableOptions"]

_STORAGE = "storage."


class TableOptions:
    """Options as text: `path`, and `storage.*`, handed to fsspec without the prefix. Pickles."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        """Check names.

        Args:
            options: As Spark has them; names in any case.
            known: What names there are besides, in small letters.

        Raises:
            ValueError: no path, or an unknown option.
        """
        names = ["path", *known]
        self.given = {str(name).lower(): value for name, value in options.items()}
        unknown = sorted(n for n in self.given if n not in names and not n.startswith(_STORAGE))
        if unknown:
            raise ValueError(f"bucketfmt knows no option {unknown[0]}: it has {', '.join(names)}")
        if "path" not in self.given:
            raise ValueError('no path: give it as load("...") or save("..."), or as an option')

    @property
    def path(self) -> str:
        """Where the table is."""
        return self.given["path"]

    @property
    def storage(self) -> dict[str, str]:
        """What fsspec is told."""
        given = self.given.items()
        return {name[len(_STORAGE) :]: text for name, text in given if name.startswith(_STORAGE)}

    def open(self) -> bf.Table:
        """Open the table."""
        return bf.open(self.path, self.storage)

    def is_true(self, name: str) -> bool:
        """Return what an option that is true or false says; false if it is not given.

        Raises:
            ValueError: another text.
        """
        text = self.given.get(name, "false").lower()
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text!r}")
        return text == "true"
