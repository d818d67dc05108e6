"""`java.util.Properties` text, the table checksum, and partition metafiles.

Pure. Source: `java.util.Properties` load and store, `HoodieTableConfig.generateChecksum`,
`HoodiePartitionMetadata`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bucketfmt.errors import ChecksumError, CorruptError
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "PartitionMetadata",
    "check_table_checksum",
    "decode_partition_metadata",
    "decode_properties",
    "encode_partition_metadata",
    "encode_properties",
    "salvage_properties",
    "table_checksum",
]

_CHECKSUM_KEY = "hoodie.table.checksum"
_WHITESPACE = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_SWALLOWED = re.compile(r"[^\s#!]hoodie\.[a-z_.]+=")  # behind a damaged end of a comment
_GLUED_LINE = re.compile(r"(?m)^([#!].*?[^\s#!])(hoodie\.[a-z_.]+=)")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*(?:[=:][ \t\f]*)?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SPECIAL = re.compile(r"[^ -~]|[\\=:#!]")
_NOT_LATIN_1 = re.compile(r"[^\x00-\xff]")
_CONTROL_OF_LETTER = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTER_OF_CONTROL = {control: letter for letter, control in _CONTROL_OF_LETTER.items()}


def decode_properties(data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    r"""Return the keys and values of a properties file, the last of equal keys.

    The whole of `java.util.Properties.load` is understood: ISO 8859-1, comments, the
    separators `=`, `:` and white space, lines continued by a backslash, and escapes.

    Raises:
        CorruptError: a `\u` escape is malformed or half of a surrogate pair stands alone.
        LimitError: there are more than `limits.properties_bytes_max` bytes.
    """
    limits.check("properties_bytes_max", len(data))
    return dict(map(_decode_line, _logical_lines(str(data, "iso-8859-1"))))


def salvage_properties(data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    """Return the readable keys and values of a damaged properties file.

    Lines that do not decode are left out, and a property that is glued to a comment is read.

    Raises:
        LimitError: there are more than `limits.properties_bytes_max` bytes.
    """
    limits.check("properties_bytes_max", len(data))
    text = _GLUED_LINE.sub(r"\1\n\2", str(data, "iso-8859-1"))
    properties = {}
    for line in _logical_lines(text):
        with suppress(CorruptError):
            key, value = _decode_line(line)
            properties[key] = value
    return properties


def _decode_line(line: str) -> tuple[str, str]:
    key_end = _end(_KEY, line, 0)
    value_start = _end(_SEPARATOR, line, key_end)
    return _unescape(line[:key_end]), _unescape(line[value_start:])


def _end(pattern: re.Pattern[str], line: str, start: int) -> int:
    found = pattern.match(line, start)
    return found.end() if found else start


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with their continuations joined, without comments and blank lines."""
    pieces: list[str] = []  # of the line being continued, none of them empty
    for natural_line in _LINE_END.split(text):
        line = natural_line.lstrip(_WHITESPACE)
        if not pieces and line[:1] in ("", "#", "!"):
            if _SWALLOWED.search(line):
                raise CorruptError(f"a property is glued to a comment: {line[:120]!r}")
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        line = line[:-1] if is_continued else line
        if line:
            pieces.append(line)
        if pieces and not is_continued:
            yield "".join(pieces)
            pieces = []
    if pieces:
        yield "".join(pieces)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape_one, text)
    try:
        return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise CorruptError(f"unpaired surrogate in property text {text[:80]!r}") from None


def _unescape_one(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    if found[2] == "u":
        raise CorruptError(rf"malformed \uXXXX escape in property text {found.string[:80]!r}")
    return _CONTROL_OF_LETTER.get(found[2], found[2])


def encode_properties(properties: Mapping[str, str], comments: Sequence[str] = ()) -> bytes:
    """Return a properties file as Java stores it: comment lines, then one line per key.

    Args:
        properties: Written in the given order.
        comments: One line each. Hudi writes two: its action with the time, and Java's date.

    Raises:
        ValueError: a comment holds a line break.
    """
    if any(_LINE_END.search(comment) for comment in comments):
        raise ValueError("a comment of a properties file must be one line")
    lines = ["#" + _NOT_LATIN_1.sub(_escape_one, comment) for comment in comments]
    for key, value in properties.items():
        # A space ends a key wherever it stands, but is lost only at the beginning of a value.
        key_text = _SPECIAL.sub(_escape_one, key).replace(" ", "\\ ")
        value_text = _SPECIAL.sub(_escape_one, value)
        protected = "\\" if value.startswith(" ") else ""
        lines.append(f"{key_text}={protected}{value_text}")
    return "".join(f"{line}\n" for line in lines).encode("iso-8859-1")


def _escape_one(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\\=:#!":
        return f"\\{character}"
    if character in _LETTER_OF_CONTROL:
        return f"\\{_LETTER_OF_CONTROL[character]}"
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def table_checksum(name: str, database: str = "") -> int:
    """Return the checksum of `<database>.<name>`, the only properties it covers (CRC-32)."""
    return zlib.crc32(f"{database}.{name}".encode())


def check_table_checksum(properties: Mapping[str, str]) -> None:
    """Check `hoodie.table.checksum`; a table without checksum is valid if it has a name.

    Source: `ConfigUtils.isPropertiesInvalid`.

    Raises:
        ChecksumError: the checksum disagrees with the names of table and database.
        CorruptError: there is no table name, or the checksum is not a number.
    """
    name = properties.get("hoodie.table.name")
    if name is None:
        raise CorruptError(
            "hoodie.table.name is missing; restore hoodie.properties from a copy that is whole: "
            "hoodie.properties.backup, or one of the table"
        )
    stored = properties.get(_CHECKSUM_KEY)
    if stored is None:
        return
    if re.fullmatch("[0-9]{1,19}", stored) is None:
        raise CorruptError(f"{_CHECKSUM_KEY} is {stored[:40]!r}, not a number")
    expected = table_checksum(name, properties.get("hoodie.database.name", ""))
    if int(stored) != expected:
        raise ChecksumError(
            f"{_CHECKSUM_KEY} is {stored}, table and database name give {expected}; "
            "restore hoodie.properties from a copy that is whole: hoodie.properties.backup, or one "
            "of the table"
        )


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The content of `.hoodie_partition_metadata`: a partition's first commit, and its depth.

    `partition_depth` counts path components, 0 for an unpartitioned table.
    """

    commit_time: str
    partition_depth: int


def decode_partition_metadata(data: bytes, limits: Limits = DEFAULT_LIMITS) -> PartitionMetadata:
    """Decode a partition metafile in text form.

    Raises:
        CorruptError: the text is not a properties file, or lacks one of the two properties.
        LimitError: the file is longer than `limits.properties_bytes_max`.
    """
    properties = decode_properties(data, limits)
    commit_time = properties.get("commitTime", "")
    depth = properties.get("partitionDepth", "")
    if not commit_time or re.fullmatch("[0-9]{1,4}", depth) is None:
        raise CorruptError("partition metadata lacks commitTime or partitionDepth")
    return PartitionMetadata(commit_time, int(depth))


def encode_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Return the text form of a partition metafile."""
    return encode_properties(
        {
            "commitTime": metadata.commit_time,
            "partitionDepth": str(metadata.partition_depth),
        },
        ("partition metadata",),
    )
