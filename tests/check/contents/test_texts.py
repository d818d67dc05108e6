"""T011: text that is not UTF-8, which readers refuse by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from tests.check.planting import Patient, check_soon

pytestmark = pytest.mark.rotated

KEY = "_hoodie_record_key"


def without_text(texts: pa.ChunkedArray, broken: int) -> pa.Array:
    """Return the texts, one of them with the bytes FF FE."""
    values = texts.cast(pa.binary()).to_pylist()
    values[broken] = b"\xff\xfe"
    stored = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_t011_text_that_is_not_utf8(version: str, golden_copy: Callable[[str, str], Path]) -> None:
    patient = Patient(golden_copy(version, "mor_compacted"))
    patient.state_buckets(4)
    table = bf.open(patient.root)
    before = table.scan(meta_columns=True).to_arrow()
    text = next(f.name for f in table.schema if f.type == pa.string() and f.name != "id")
    path = patient.base_file("us", 1)
    unchanged = before.filter(pc.equal(before.column("_hoodie_file_name"), path.name))
    key = unchanged.column(KEY)[0].as_py()  # the log has no row of it

    def break_text(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(text)
        broken = rows.column(KEY).to_pylist().index(key)
        return rows.set_column(
            place, rows.schema.field(place), without_text(rows.column(text), broken)
        )

    patient.rewrite(path, break_text)

    (finding,) = check_soon(patient.root).findings
    assert (finding.id, finding.severity, finding.partition) == ("T011", "error", "us")
    assert finding.evidence == f"column {text}: 1 rows; keys such as {key!r}"
    assert finding.paths == (f"us/{path.name}",)

    table = bf.open(patient.root)
    with pytest.raises(bf.CorruptError, match=f"column {text}: the text of 1 rows is not UTF-8"):
        table.scan().to_arrow()
    with pytest.raises(bf.CorruptError, match="is not UTF-8"):
        table.lookup([key])
    others = [name for name in table.schema.names if name != text]
    assert table.scan(columns=others).to_arrow().num_rows == before.num_rows

    table.delete([key])
    rows = table.scan(meta_columns=True).to_arrow()
    assert sorted(rows.column(KEY).to_pylist()) == sorted(
        each for each in before.column(KEY).to_pylist() if each != key
    )
    table.compact()
    assert check_soon(patient.root).findings == ()
