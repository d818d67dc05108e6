"""C001 to C004 of extendible hashing: directories lost, damaged, left over, or left by data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.check.report import Finding
from tests.check.planting import check_soon
from tests.write.models import create_table, rows

FOLDER = ".hoodie/.bucket_index/extendible_hashing_metadata/us"
INITIAL = f"{FOLDER}/00000000000000.hashing_meta"
Damage = Callable[[Path], Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("extendible") / "trips"
    table = create_table(str(root), bf.ExtendibleHashingIndex(4))
    table.upsert(rows(range(60), ts=1))
    return root


def edited(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(root: Path) -> None:
        metadata = json.loads((root / INITIAL).read_text())
        change(metadata)
        (root / INITIAL).write_text(json.dumps(metadata))

    return damage


def swap(metadata: dict[str, Any]) -> None:
    first, second = metadata["buckets"][:2]
    first["fileIdPrefix"], second["fileIdPrefix"] = second["fileIdPrefix"], first["fileIdPrefix"]


def other_group(metadata: dict[str, Any]) -> None:
    metadata["buckets"][0]["fileIdPrefix"] = "e0000000-0000-4000-8000-000000000000"


def left_over(root: Path) -> None:
    name = "29990101000000000"
    metadata = json.loads((root / INITIAL).read_text())
    metadata |= {"instant": name, "seqNo": 1}
    (root / FOLDER / f"{name}.hashing_meta").write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    ("damage", "finding_id", "evidence"),
    [
        (lambda root: (root / INITIAL).unlink(), "C001", "no metadata, but 4 live file groups"),
        (lambda root: (root / INITIAL).write_bytes(b""), "C001", "hashing metadata"),
        (lambda root: (root / FOLDER / "x.hashing_meta").write_bytes(b"{}"), "C001", "instant"),
        (edited(lambda m: m.update(globalDepth=3)), "C001", "global depth is 3"),
        (edited(lambda m: m.update(partitionPath="eu")), "C003", "partition 'eu'"),
        (edited(lambda m: m.update(instant="20260101000000")), "C003", "instant 20260101000000"),
        (edited(lambda m: m.update(seqNo=1)), "C003", "sequence number 1"),
        (edited(other_group), "C004", "does not lead to file group"),
        (edited(swap), "B006", "bucket"),
        (left_over, "C002", "on no timeline"),
    ],
)
def test_planted_damage_is_found(
    sound: Path, tmp_path: Path, damage: Damage, finding_id: str, evidence: str
) -> None:
    root = tmp_path / "trips"
    shutil.copytree(sound, root)
    assert check_soon(root).status == "clean"
    damage(root)
    report = check_soon(root)
    found: list[Finding] = [f for f in report.findings if f.severity != "info"]
    assert {f.id for f in found} == {finding_id}, found
    assert any(evidence in f.evidence for f in found), found
    assert {f.partition for f in found} == {"us"}
