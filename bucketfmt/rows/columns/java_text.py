"""Column values as Java prints them, which is how Hudi turns a value into text.

Record keys, partition paths and promotions of a column to string all use `toString` of the value's
Java class. Vectorised. Pure.
Source: HoodieAvroUtils.getNestedFieldValAsString, rewritePrimaryType.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.rows.columns.exact_cast import plain_values

__all__ = ["double_through_text", "java_strings"]

_NUMBER = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<fraction>\d+))?(?:e(?P<exponent>[-+]?\d+))?$"
_LAST_DAY_OF_YEAR_9999 = 2932896


def java_strings(column: pa.Array) -> pa.Array:
    """Return each value as Hudi's key generators print it; nulls stay null.

    Integers and booleans are plain; float and double as `Float.toString` and
    `Double.toString`; decimal as `BigDecimal.toString`; date as ISO `yyyy-MM-dd`;
    timestamps as their raw integer in the column's own unit; text unchanged.

    Java before 19 prints more digits than needed for some doubles from 1E16 and some floats from
    1E7 upwards (JDK-4511638). This function returns the shortest text, as Java 19 and later do.

    Raises:
        UnsupportedError: the type has no text form in Java (binary, nested).
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return java_strings(plain_values(column))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _java_floats(column)
    if pa.types.is_date32(kind):
        text = column.cast(pa.string())
        beyond = pc.greater(column.cast(pa.int32()), _LAST_DAY_OF_YEAR_9999)
        signed = pc.binary_join_element_wise("+", text, "")
        return pc.if_else(beyond, signed, text) if pc.any(beyond).as_py() else text
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if kind == pa.string_view():
        return column.cast(pa.string())
    raise UnsupportedError(
        f"a column of type {kind} has no text form in Hudi; use a column of a scalar type"
    )


def double_through_text(column: pa.Array) -> pa.Array:
    """Return a float column as double, widened through its text as Hudi does.

    1.1f becomes 1.1, not 1.10000002384185791015625 (HoodieAvroUtils.rewritePrimaryType and
    the readers of base files alike).
    """
    return column.cast(pa.string()).cast(pa.float64())


def _java_floats(column: pa.Array) -> pa.Array:
    """Return `Float.toString` or `Double.toString` of each value."""
    text = column.cast(pa.string())  # the shortest digits, but not in Java's notation
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    size = np.abs(values)
    low, high = values.dtype.type(1e-3), values.dtype.type(1e7)
    plain = (size == 0) | ((size >= low) & (size < high))
    whole = pc.invert(pc.match_substring(text, "."))
    result = pc.if_else(
        pc.and_(pa.array(plain), whole), pc.binary_join_element_wise(text, ".0", ""), text
    )
    scientific = ~plain & np.isfinite(values)
    if scientific.any():
        mask = pa.array(scientific)
        exponents = _scientific(text.filter(mask), values[scientific])
        result = pc.replace_with_mask(result, mask, exponents)
    for odd, name in ((np.isnan(values), "NaN"), (values == np.inf, "Infinity")):
        if odd.any():
            result = pc.if_else(pa.array(odd), name, result)
    return pc.if_else(pa.array(values == -np.inf), "-Infinity", result)


def _scientific(text: pa.Array, values: np.ndarray) -> pa.Array:
    """Rewrite shortest decimals as one digit, a point, at least one digit, `E`, exponent."""
    # Java prints at least two digits and picks the closest two-digit decimal; that differs
    # from the shortest one only where a double has few bits: 4.9E-324, not 5.0E-324.
    subnormal = np.abs(values) < np.finfo(values.dtype).tiny
    if subnormal.any():
        single = pc.and_(pa.array(subnormal), pc.match_substring_regex(text, r"^-?\de"))
        closest = pa.array(np.char.mod("%.1e", values.astype(np.float64)).astype(object))
        text = pc.if_else(single, closest, text)
    parts = pc.extract_regex(text, _NUMBER)
    sign, whole = parts.field("sign"), parts.field("whole")
    digits = pc.binary_join_element_wise(whole, parts.field("fraction").fill_null(""), "")
    significant = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    shift = pc.subtract(pc.subtract(pc.utf8_length(whole), zeros), 1)
    written = parts.field("exponent").fill_null("")
    written = pc.if_else(pc.equal(written, ""), "0", pc.utf8_ltrim(written, "+"))
    exponent = pc.add(written.cast(pa.int32()), shift).cast(pa.string())
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(significant, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    mantissa = pc.binary_join_element_wise(pc.binary_join_element_wise(sign, first, ""), rest, ".")
    return pc.binary_join_element_wise(mantissa, exponent, "E")
