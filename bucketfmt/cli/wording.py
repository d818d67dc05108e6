"""The words of the command line for the calls and arguments that messages of the library name.

Pure. Messages of the library are written for callers in Python: `lookup()`, `evolve=True`. The
command line prints them in its own language: `bucketfmt lookup`, `--evolve`.
"""

from __future__ import annotations

import re

__all__ = ["in_shell_words"]

_COMMANDS = {
    "changes": "changes",
    "check": "check",
    "clean": "clean",
    "compact": "compact",
    "count": "read",
    "inspect.commits": "history",
    "inspect.partitions": "files",
    "lookup": "lookup",
    "metadata_table.drop": "index drop TABLE",
    "metadata_table.init": "index init TABLE",
    "metadata_table.rebuild": "index rebuild TABLE",
    "migrate": "migrate",
    "pin_index": "index pin",
    "rehash": "rehash",
    "rescale": "rescale",
    "repair_buckets": "repair",
    "repair_partitions": "repair",
    "repair_rings": "repair",
    "resize": "resize",
    "rollback": "rollback TABLE",
    "scan": "read",
}
"""The command that does what a method of a table does."""

_OPTIONS = {
    "as_of": "--as-of",
    "columns": "--columns",
    "concurrency": "--concurrency",
    "depth": "--depth",
    "duplicates": "--duplicates",
    "evolve": "--evolve",
    "filter": "--filter",
    "idempotency_key": "--idempotency-key",
    "index": "--index",
    "keys": "--keys",
    "limit": "--limit",
    "lock": "--lock",
    "max_findings": "--max-findings",
    "max_buckets": "--max-buckets",
    "min_buckets": "--min-buckets",
    "missing": "--missing",
    "name": "--name",
    "partitions": "--partition",
    "processes": "--processes",
    "rules": "--rule",
    "since": "--since",
    "until": "--until",
}
"""The option that takes what an argument takes."""

_PHRASES = {
    r"; if the table is trusted, open it with [^;,]*": "; the command line has no larger limits",
    r'table_type="MERGE_ON_READ"': "--merge-on-read",
    r'metadata_table="drop"': "--drop-metadata-table",
    r'metadata_table="sync"': "the default",
    r"to_dict\(\)": "--output json",
    r"\bstorage_options\b": "--storage-option",
    r"RecordIndex\([^()]*\)": "a record index",
    r"WriterConfig\(([^()]*)\)": r"\1",
}
_INDEX = re.compile(
    r"(Simple|Consistent|Extendible|MultiGroup)(?:Bucket|Hashing)Index\((?:num_buckets=)?(\d+)"
    r"(?:, (?:group_bytes=)?(\d+))?(?:, hash_fields=(?:None|\(([^()]*)\)))?\)"
)
_QUOTED = r"(?<![\w])'[^']*'(?!\w)"  # what the caller wrote, as it was
_CALL = re.compile(
    rf"`?(?<![\w.])({'|'.join(map(re.escape, sorted(_COMMANDS, reverse=True)))})\(([^()]*)\)`?"
)
_ARGUMENT = re.compile(
    rf'{_QUOTED}|(?<![\w.-])({"|".join(sorted(_OPTIONS, reverse=True))})=(True|"[^"]*"|)'
)


def in_shell_words(message: str) -> str:
    """Return a message of the library with commands and options for its calls and arguments."""
    message = _INDEX.sub(_index, message)
    for pattern, words in _PHRASES.items():
        message = re.sub(pattern, words, message)
    message = _ARGUMENT.sub(_option, message)
    return _CALL.sub(_command, message)


def _index(found: re.Match[str]) -> str:
    engine, number, size, fields = found.groups()
    named = ",".join(re.findall(r"[^\s,'\"]+", fields)) if engine == "Simple" and fields else ""
    return ":".join([engine.lower(), number, *filter(None, (size, named))])


def _option(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    value = found[2].strip('"')
    is_flag = value in ("", "True")
    is_value_next = re.match(r"[^\s,;.)]", found.string[found.end() :]) is not None
    return _OPTIONS[found[1]] + (" " * is_value_next if is_flag else f" {value}")


def _command(found: re.Match[str]) -> str:
    arguments = found[2].replace('"', "").replace("'", "")
    return f"`bucketfmt {_COMMANDS[found[1]]}{' ' * bool(arguments)}{arguments}`"
