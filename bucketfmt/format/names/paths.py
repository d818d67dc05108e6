"""Checked relative paths, and partition paths <-> partition values.

Pure. A path found in a table is untrusted: `check_relative_path` checks every such path before it
is joined to the table root. Source of the escaping and of partition
paths: Hudi's `PartitionPathEncodeUtils` and `KeyGenUtils.getRecordPartitionPath`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence

from bucketfmt.errors import CorruptError, KeyEncodingError, SchemaError, UnsafePathError
from bucketfmt.format.names.layout import METADATA_FOLDER, is_partition_metafile_name
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "DEFAULT_PARTITION",
    "FORMER_DEFAULT_PARTITION",
    "ambiguous_partition_error",
    "check_partition_path",
    "check_relative_path",
    "escape_file_name",
    "escape_partition_value",
    "find_nested",
    "format_partition_path",
    "format_temporary_name",
    "is_temporary_name",
    "join_path",
    "nested_partition_error",
    "parent_paths",
    "parse_partition_path",
    "unescape_partition_value",
]

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The component for a null or empty partition value."""

FORMER_DEFAULT_PARTITION = "default"
"""The component for a null or empty partition value up to Hudi 0.11 (table version 4)."""

# Nearly all paths: each component of letters, digits and "_=-.", and no dot after a first dot.
_is_plain = re.compile(
    r"\.?[a-zA-Z0-9_=-][a-zA-Z0-9_=.-]*(?:/\.?[a-zA-Z0-9_=-][a-zA-Z0-9_=.-]*)*"
).fullmatch
_ESCAPE = ", or have values escaped (hoodie.datasource.write.partitionpath.urlencode)"
_ESCAPED_LIMITS = Limits(path_bytes_max=3 * DEFAULT_LIMITS.path_bytes_max)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR = re.compile(r"[/\\]")
_ESCAPED = re.compile("%([0-9a-fA-F]{2})")
_TO_ESCAPE = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_TO_ESCAPE_IN_NAMES = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^_-]""")


def check_relative_path(text: str, limits: Limits = DEFAULT_LIMITS) -> str:
    r"""Return `text` if joining it to the table root stays below the root.

    There is one spelling per file: the path is returned unchanged, or refused. "" is the
    root itself. Refused are absolute paths, empty components, components of dots and spaces
    only (`.`, `..`, `.. `), backslashes, control characters, a colon in the first component
    (a drive or a URL scheme; Hudi cannot write one either) and text that is not Unicode.
    Components that would be `.` or `..` after one URL decoding or Unicode compatibility folding
    (`%2e%2e`, `a%2F..`, fullwidth dots) are refused too, because some stores decode or fold. Other
    escapes are ordinary partition values: `region=us%2Fca` passes.

    Raises:
        UnsafePathError: the path is one of these.
        LimitError: the path is longer than `limits.path_bytes_max` bytes of UTF-8.
    """
    if _is_plain(text) and len(text) <= limits.path_bytes_max:
        return text
    reason = _find_danger(text, limits)
    if reason is not None:
        raise UnsafePathError(
            f"path {_shown(text)} is refused: {reason}; treat the table as hostile or damaged"
        )
    return text


def check_partition_path(text: str) -> str:
    """Check and return a partition path that a writer made of values.

    Refused are the paths that `check_relative_path` refuses, and names of Hudi's own: the folder of
    its files, which readers skip, and the file that makes the folder it is in a partition.

    Raises:
        UnsafePathError: the path is one of these.
        LimitError: the path is too long.
    """
    reason = _find_danger(text, DEFAULT_LIMITS)
    # Hudi escapes neither dots nor all control characters.
    helps = reason and _find_danger(escape_partition_value(text), _ESCAPED_LIMITS) is None
    way_out = _ESCAPE if helps else ""
    components = text.split("/")
    if METADATA_FOLDER in components:
        reason, way_out = "that is where Hudi keeps files of its own", ""
    elif any(map(is_partition_metafile_name, components)):
        reason, way_out = "Hudi has a file of its own by that name in each partition", ""
    if reason is not None:
        raise UnsafePathError(
            f"the partition path {_shown(text)} is refused: {reason}; change the value{way_out}"
        )
    return text


def _find_danger(text: str, limits: Limits) -> str | None:
    """Return the reason why a path is refused; None if the path is safe."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it holds an unpaired surrogate"
    limits.check("path_bytes_max", size)
    if not text:
        return None
    if _CONTROL.search(text):
        return "it holds a control character"
    if "\\" in text:
        return "it holds a backslash"
    if text.startswith("/"):
        return "it is absolute"
    components = text.split("/")
    if ":" in components[0]:
        return "it begins with a drive or a URL scheme"
    for component in components:
        if not component:
            return "it has an empty component"
        if _leads_up(component):
            return f"{component!r} points to another folder"
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 120 else f"{text[:120]}...")


def _leads_up(component: str) -> bool:
    """Whether a component is, or decodes to, one of dots and spaces only."""
    if component.isascii() and "%" not in component:
        return "." in component and not component.strip(". ")
    decoded = unescape_partition_value(unicodedata.normalize("NFKC", component))
    return any("." in part and not part.strip(". ") for part in _SEPARATOR.split(decoded))


def join_path(*parts: str) -> str:
    """Return the parts joined by "/", leaving out empty ones (the root partition is "")."""
    return "/".join(part for part in parts if part)


def format_temporary_name(unique: str) -> str:
    """Return the name under which a file is written before it gets its own, on a local disk.

    No instant, data file or partition metafile has such a name.
    """
    return f".bucketfmt-{unique}.tmp"


def is_temporary_name(name: str) -> bool:
    """Return whether `format_temporary_name` gives such names."""
    return name.startswith(".bucketfmt-") and name.endswith(".tmp")


def escape_partition_value(text: str | None) -> str:
    """Return `text` with Hive's special characters as `%XX`; null and "" as `DEFAULT_PARTITION`.

    Source: `PartitionPathEncodeUtils.escapePathName`.
    """
    if not text:
        return DEFAULT_PARTITION
    return _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def escape_file_name(text: str) -> str:
    """Return `text` as a part of a file id: as in a path, and "-" and "_" as `%XX` too.

    Source: `PartitionPathEncodeUtils.escapeFileName`.
    """
    return _TO_ESCAPE_IN_NAMES.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape_partition_value(text: str) -> str:
    """Return `text` with each `%XX` replaced by that character; a stray `%` stays.

    Source: `PartitionPathEncodeUtils.unescapePathName`.
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def parent_paths(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in, the outermost first, without the root."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)


def find_nested(partition_paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each partition that lies within the folder of another one, and that one.

    Hudi does not look for partitions below one (`FSUtils.getAllPartitionPaths`): its reads that
    list folders lose the rows of the inner one.
    """
    for path in partition_paths:
        for outer in parent_paths(path):
            if outer in partition_paths:
                yield path, outer


def nested_partition_error(inner: str, outer: str) -> SchemaError:
    """Return the error for rows of two partitions of which one lies within the other."""
    return SchemaError(
        f"the partition {_shown(inner)} would lie within the partition {_shown(outer)}, where Hudi "
        "does not look for it. Change the value, or create the table with "
        "hoodie.datasource.write.partitionpath.urlencode=true"
    )


def ambiguous_partition_error(field: str, value: str, where: str = "") -> KeyEncodingError:
    """Return the error for a value that shares its partition path with other values.

    Such values are "" and `DEFAULT_PARTITION`, whose path is that of null, and values with a "/"
    among several fields that are not URL-encoded. A row with such a value would replace the row
    of its key in another partition (PATH-13).

    Args:
        field: The partition field.
        value: Its value.
        where: Which row, as the beginning of a sentence.
    """
    if value in {"", DEFAULT_PARTITION}:
        reason = "which has the partition path of null. Change the value, or make it null"
    else:
        reason = (
            "whose '/' Hudi does not escape: other values of the partition fields would have the "
            "same partition path. Change the value, or create the table with "
            "hoodie.datasource.write.partitionpath.urlencode=true"
        )
    return KeyEncodingError(
        f"{where}the partition field {field} has the value {_shown(value)}, {reason}"
    )


def parse_partition_path(
    path: str, fields: Sequence[str], hive_style: bool, url_encoded: bool
) -> tuple[str | None, ...]:
    """Return one partition value per field, as text; None for a null or empty value.

    A single field may span several components (an unescaped "/" in its value): then the
    whole path is its value, as Hudi takes it. Call this only if the path holds the columns' values:
    `TableConfig.partition_path_holds_values`.

    Raises:
        CorruptError: the path does not fit the fields.
    """
    if not fields:
        if path:
            raise CorruptError(f"partition path {path!r} in a table without partition fields")
        return ()
    components = path.split("/") if len(fields) > 1 else [path]
    if not path or len(components) != len(fields):
        raise CorruptError(
            f"partition path {path!r} does not hold one value for each of {', '.join(fields)}"
        )
    return tuple(
        _parse_component(component, field, hive_style, url_encoded)
        for component, field in zip(components, fields, strict=True)
    )


def _parse_component(text: str, field: str, hive_style: bool, url_encoded: bool) -> str | None:
    if hive_style:
        if not text.startswith(f"{field}="):
            raise CorruptError(f"partition path component {text!r} does not begin with {field}=")
        text = text[len(field) + 1 :]
    if text == DEFAULT_PARTITION:
        return None
    return unescape_partition_value(text) if url_encoded else text


def format_partition_path(
    values: Sequence[str | None], fields: Sequence[str], hive_style: bool, url_encoded: bool
) -> str:
    """Return the partition path of `values`, one per field; "" for a table without fields.

    Source: `KeyGenUtils.getRecordPartitionPath`.

    Raises:
        KeyEncodingError: other values have the same path (`ambiguous_partition_error`).
        UnsafePathError: a value that is not URL-encoded would lead out of the table root or make an
            empty component.
    """
    components = []
    for value, field in zip(values, fields, strict=True):
        if value in {"", DEFAULT_PARTITION}:
            raise ambiguous_partition_error(field, value)
        if value and "/" in value and len(fields) > 1 and not url_encoded:
            raise ambiguous_partition_error(field, value)
        text = escape_partition_value(value) if url_encoded else value or DEFAULT_PARTITION
        components.append(f"{field}={text}" if hive_style else text)
    return check_relative_path("/".join(components))
