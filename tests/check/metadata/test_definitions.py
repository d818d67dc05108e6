"""M002 of the definitions of indexes, and what is made anew without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.check.metadata.metadata_planting import metadata_files, only_finding, unpack
from tests.check.planting import check_soon

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]


@pytest.mark.parametrize("way", ["rebuild", "drop"])
@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_m002_definitions_of_indexes_that_are_cut(
    golden_copy: Copy, version: str, way: str
) -> None:
    """Nothing was found, and neither a write nor a rebuild nor a drop came to its end."""
    root = golden_copy(version, "rli")
    path = root / ".hoodie/.index_defs/index.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.severity) == ("M002", "error")
    assert finding.paths == (".hoodie/.index_defs/index.json",)
    assert "metadata_table.rebuild()" in finding.fix
    table = bf.open(root, index=bf.RecordIndex())
    row = table.to_arrow().slice(0, 1)
    for change in (
        lambda: table.upsert(row),
        lambda: table.metadata_table.rebuild("bloom_filters"),
    ):
        with pytest.raises(bf.CorruptError, match=r"index\.json.*metadata_table\.rebuild\(\)"):
            change()
    if way == "rebuild":
        listed = table.config.metadata_partitions
        table.metadata_table.rebuild()
        assert {*bf.open(root).config.metadata_partitions} == {*listed}
    else:
        table.metadata_table.drop()
        assert check_soon(root, "full").status == "clean"
        table.metadata_table.init("record_index", "column_stats")
    table.upsert(row)
    assert check_soon(root, "full").status == "clean"


def test_m002_definitions_that_are_cut_beside_an_index_on_a_column(tmp_path: Path) -> None:
    """Only the definition tells of which column the index is: it is not rebuilt as another one."""
    unpack(tmp_path, "1.2.0/mdt_secondary")
    path = tmp_path / ".hoodie/.index_defs/index.json"
    path.write_bytes(path.read_bytes()[:-9])
    before = path.read_bytes()
    with pytest.raises(bf.CorruptError, match=r"metadata_table\.drop\(\)"):
        bf.open(tmp_path).metadata_table.rebuild()
    assert path.read_bytes() == before


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_m002_statistics_without_a_definition(
    golden_copy: Copy, version: str, is_empty: bool
) -> None:
    """Hudi 1.0.2 and 1.2.0 end filtered reads in a NullPointerException; the table was clean."""
    root = golden_copy(version, "rli")
    path = root / ".hoodie/.index_defs/index.json"
    path.write_bytes(b"") if is_empty else path.unlink()
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.severity, finding.data_loss) == ("M002", "error", False)
    assert finding.paths == (".hoodie/.index_defs/index.json",)
    bf.open(root).metadata_table.rebuild("column_stats")
    assert '"column_stats"' in path.read_text()
    assert check_soon(root, "full").status == "clean"


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "unnamed"])
def test_a_partitioned_record_index_stays_so_without_its_definition(
    tmp_path: Path, damage: str
) -> None:
    """A write to a new partition failed, and a rebuild made a global index."""
    unpack(tmp_path, "1.2.0/mdt_keys_by_partition")
    path, properties = tmp_path / ".hoodie/.index_defs/index.json", tmp_path / ".hoodie"
    if damage == "gone":
        path.unlink()
    elif damage == "unnamed":
        file = properties / "hoodie.properties"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if "index.defs.path" not in line))
    else:
        path.write_bytes(path.read_bytes()[:50] if damage == "cut" else b"")
    table = bf.open(tmp_path, index=bf.RecordIndex())
    row = table.scan(limit=1).to_arrow()
    moved = row.set_column(row.column_names.index("region"), "region", pa.array(["new"]))
    if damage == "cut":
        table.metadata_table.rebuild()
    table.upsert(moved)
    assert not check_soon(tmp_path, "full").findings
    table.metadata_table.rebuild()
    names = {path.name.rpartition("-0_")[0] for path in metadata_files(tmp_path, "record_index")}
    assert "record-index-region%3Dnew-0000" in names
    assert '"isPartitioned": "true"' in path.read_text()
    assert not check_soon(tmp_path, "full").findings
    (found,) = metadata_files(tmp_path, "record_index")[:1]
    found.rename(found.with_name(found.name.replace("record-index", "some-index")))
    path.unlink()
    lines = (properties / "hoodie.properties").read_text().splitlines(keepends=True)
    kept = (line for line in lines if "index.defs.path" not in line and "checksum" not in line)
    (properties / "hoodie.properties").write_text("".join(kept))
    bf.open(tmp_path).metadata_table.rebuild()
    table = bf.open(tmp_path)
    assert not check_soon(tmp_path, "full").findings
    table.metadata_table.drop("record_index")
    assert not check_soon(tmp_path, "full").findings
