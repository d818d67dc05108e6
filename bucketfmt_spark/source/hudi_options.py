"""The options of Hudi's own data source, as options of this data source. Pure.

An option that means the same here is translated. One that states how the table was created is
compared with the table. All others are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping

import bucketfmt as bf

__all__ = ["STATED", "check_stated", "translate"]

_QUERY_TYPE = "hoodie.datasource.query.type"
_OPERATION = "hoodie.datasource.write.operation"
_SAME = {
    "as.of.instant": "as_of",
    "hoodie.datasource.read.begin.instanttime": "since",
    "hoodie.datasource.read.end.instanttime": "until",
}
_OPERATIONS = (
    "upsert",
    "insert",
    "bulk_insert",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete",
)
_LOCKS = {
    "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider": "storage",
    "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider": "filesystem",
}
_CONCURRENCIES = {
    "optimistic_concurrency_control": "optimistic",
    "non_blocking_concurrency_control": "non_blocking",
}
STATED = {
    "hoodie.table.name": "hoodie.table.name",
    "hoodie.datasource.write.table.name": "hoodie.table.name",
    "hoodie.datasource.write.table.type": "hoodie.table.type",
    "hoodie.datasource.write.recordkey.field": "hoodie.table.recordkey.fields",
    "hoodie.datasource.write.partitionpath.field": "hoodie.table.partition.fields",
    "hoodie.datasource.write.precombine.field": "hoodie.table.precombine.field",
    "hoodie.datasource.write.hive_style_partitioning": (
        "hoodie.datasource.write.hive_style_partitioning"
    ),
    "hoodie.index.type": "hoodie.index.type",
    "hoodie.index.bucket.engine": "hoodie.index.bucket.engine",
    "hoodie.bucket.index.num.buckets": "hoodie.bucket.index.num.buckets",
    "hoodie.bucket.index.hash.field": "hoodie.bucket.index.hash.field",
}
"""Options of Hudi's writers, and the property of the table that states the same."""
_OTHER_NAMES = {"hoodie.table.precombine.field": "hoodie.table.ordering.fields"}  # from Hudi 1.1


def translate(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with names of this data source; those in `STATED` stay.

    Args:
        given: The options, with names in lower case.

    Raises:
        ValueError: an option of Hudi's has no meaning here, or contradicts another option.
    """
    found: dict[str, str] = {}
    for name, text in given.items():
        if not name.startswith(("hoodie.", "as.of.")) or name in STATED:
            translated = {name: text}
        elif name in _SAME:
            translated = {_SAME[name]: text}
        elif name == _QUERY_TYPE:
            translated = _query(text)
        elif name == _OPERATION:
            translated = {"operation": _choice(name, text, {each: each for each in _OPERATIONS})}
        elif name == "hoodie.write.lock.provider":
            translated = {"lock": _choice(name, text, _LOCKS)}
        elif name == "hoodie.write.concurrency.mode":
            translated = {"concurrency": _choice(name, text.lower(), _CONCURRENCIES)}
        else:
            raise ValueError(
                f"the option {name} of Hudi has no meaning for bucketfmt; leave it out"
            )
        for own, value in translated.items():
            if found.get(own, value) != value:
                raise ValueError(f"{name}={text} contradicts {own}={found[own]}; give one of them")
            found[own] = value
    return found


def _query(text: str) -> dict[str, str]:
    queries = {
        "snapshot": {},
        "read_optimized": {"read_optimized": "true"},
        "incremental": {},  # the instants say the rest
    }
    if text.lower() not in queries:
        raise ValueError(f"{_QUERY_TYPE} is one of {', '.join(queries)}, not {text!r}")
    return queries[text.lower()]


def _choice(name: str, text: str, known: Mapping[str, str]) -> str:
    if text not in known:
        raise ValueError(f"{name} is one of {', '.join(known)} for bucketfmt, not {text!r}")
    return known[text]


def check_stated(given: Mapping[str, str], table: bf.Table) -> None:
    """Compare the options that state how a table was created with the table.

    Raises:
        ValueError: the table was created otherwise.
    """
    properties = table.config.properties
    for name, text in given.items():
        if name not in STATED:
            continue
        own = STATED[name]
        stated = properties.get(own) or properties.get(_OTHER_NAMES.get(own, own))
        if stated is None and own == "hoodie.table.type":
            stated = table.config.table_type
        if stated is not None and stated.lower() != text.lower():
            raise ValueError(
                f"the option {name} is {text}, and the table has {own}={stated}; leave the option "
                "out"
            )
        if stated is None and text:
            raise ValueError(
                f"the option {name} is {text}, and the table does not state {own}; leave the "
                "option out"
            )
