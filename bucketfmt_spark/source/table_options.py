"""The common options of reading and writing with `format("bucketfmt")`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import bucketfmt as bf
from bucketfmt_spark.source.hudi_options import STATED, check_stated, translate

__all__ = ["TableOptions"]

_STORAGE = "storage."
_CATALOG = (
    "Spark's catalog does not give a table's location to a data source in Python; use CREATE "
    "TEMPORARY VIEW name USING bucketfmt OPTIONS (path '...'), and save(\"...\") in place of "
    "saveAsTable"
)


class TableOptions:
    """The options `path`, `index`, and `storage.*`, which fsspec gets without the prefix. Pickles.

    Options of Hudi's data source are translated by `hudi_options`.
    """

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        """Check names.

        Args:
            options: The options from Spark; names in any case.
            known: The further names, in lower case.

        Raises:
            ValueError: the path is missing, or an option is unknown.
        """
        names = ["path", "index", *known]
        given = translate({str(name).lower(): value for name, value in options.items()})
        if "location" in given:
            raise ValueError(f"CREATE TABLE is not supported: {_CATALOG}")
        self.stated = {name: given.pop(name) for name in STATED if name in given}
        self.given = given
        unknown = sorted(n for n in self.given if n not in names and not n.startswith(_STORAGE))
        if unknown:
            raise ValueError(
                f"bucketfmt has no option {unknown[0]}; its options are {', '.join(names)}"
            )
        if "path" not in self.given:
            raise ValueError(
                'no path is given; use load("..."), save("...") or the option path. If this is a '
                f"table of the catalog: {_CATALOG}"
            )

    @property
    def path(self) -> str:
        """The URI of the table."""
        return self.given["path"]

    @property
    def storage(self) -> dict[str, Any]:
        """The options for fsspec; a text that is JSON is decoded, as of the jobs."""
        given = self.given.items()
        texts = {name[len(_STORAGE) :]: text for name, text in given if name.startswith(_STORAGE)}
        return bf.parse_storage_options(texts)

    def open(self, writer: bf.WriterConfig | None = None) -> bf.Table:
        """Open the table.

        Raises:
            ValueError: the table was created otherwise than options of Hudi's say.
        """
        text = self.given.get("index")
        index = None if text is None else bf.parse_index(text)
        table = bf.open(self.path, self.storage, index, writer=writer)
        check_stated(self.stated, table)
        return table

    def is_true(self, name: str, *, default: bool = False) -> bool:
        """Return the value of an option that is true or false; `default` if it is not given.

        Raises:
            ValueError: the text is neither true nor false.
        """
        text = self.given.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text!r}")
        return text == "true"
