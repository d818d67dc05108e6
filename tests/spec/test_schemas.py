"""The Avro schemas in spec/schemas: those of Hudi's files, and those of the package."""

from __future__ import annotations

import json
import re
from io import BytesIO
from typing import Any

import fastavro
import pytest

from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.format.timeline.hudi_schemas import HUDI_NAMESPACE, hudi_schema
from spec.vector_sources.vector import golden
from tests.spec.vectors import SPEC

SCHEMAS = {path.stem: json.loads(path.read_bytes()) for path in SPEC.glob("schemas/*.avsc")}
ONLY_IN_TEXT = {"HoodieDeleteRecordList", "HoodieMergeArchiveFilePlan"}
"""Records that the package reads without a schema of its own."""

NEVER_WRITTEN = "hoodieCompactionMetadata"
"""A field of HoodieArchivedMetaEntry from before compactions completed as commits."""


def plain(schema: Any) -> Any:
    """Return a schema without what means nothing to Avro, its namespace left out."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if set(schema) == {"type", "avro.java.string"}:
        return schema["type"]
    ignored = {"doc", "avro.java.string", "namespace", "__fastavro_parsed__", "__named_schemas"}
    if schema.get("type") in ("map", "array"):
        ignored.add("default")  # of no meaning there; Hudi's texts have some
    return {key: plain(item) for key, item in schema.items() if key not in ignored}


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - ONLY_IN_TEXT))
def test_the_package_has_the_same_schema(name: str) -> None:
    text, package = plain(SCHEMAS[name]), plain(hudi_schema(name))
    text["fields"] = [field for field in text["fields"] if field["name"] != NEVER_WRITTEN]
    assert text == package


@pytest.mark.rule("MDT-8")
@pytest.mark.parametrize("version", [6, 8, 9])
def test_metadata_tables_are_written_by_the_schema_of_their_version(version: int) -> None:
    text = json.loads((SPEC / f"schemas/metadata/{version}.avsc").read_bytes())
    assert plain(text) == plain(json.loads(metadata_schema(version).text))
    assert text["namespace"] == HUDI_NAMESPACE
    assert fastavro.parse_schema(text)


def test_every_text_parses_and_has_its_name() -> None:
    for name, schema in SCHEMAS.items():
        assert (schema["name"], schema["namespace"]) == (name, HUDI_NAMESPACE)
        assert fastavro.parse_schema(schema)


@pytest.mark.parametrize(
    ("table", "end", "name"),
    [
        ("overwritten", ".replacecommit", "HoodieReplaceCommitMetadata"),
        ("overwritten", ".replacecommit.requested", "HoodieRequestedReplaceMetadata"),
        ("mor_compacted", ".deltacommit", "HoodieCommitMetadata"),
        ("mor_compacted", ".compaction.requested", "HoodieCompactionPlan"),
        ("cleaned", ".clean.requested", "HoodieCleanerPlan"),
        ("cleaned", ".clean", "HoodieCleanMetadata"),
        ("rolledback_mor", ".rollback.requested", "HoodieRollbackPlan"),
        ("rolledback_mor", ".rollback", "HoodieRollbackMetadata"),
        ("restored_mor", ".restore.requested", "HoodieRestorePlan"),
        ("restored_mor", ".restore", "HoodieRestoreMetadata"),
        ("savepointed_mor", ".savepoint", "HoodieSavepointMetadata"),
    ],
)
def test_hudi_writes_this_schema(table: str, end: str, name: str) -> None:
    found = golden("1.2.0", table)
    path = next(p for p in found.paths(".hoodie/timeline/", end=end) if found.files[p])
    schema = fastavro.reader(BytesIO(found.files[path])).metadata["avro.schema"]
    assert plain(json.loads(schema)) == plain(SCHEMAS[name])


def test_the_text_lists_every_schema() -> None:
    text = (SPEC / "16-schemas.md").read_text()
    assert re.findall(r"\(schemas/(\w+)\.avsc\)", text) == re.findall(r"^\| \[(\w+)\]", text, re.M)
    assert set(re.findall(r"^\| \[(\w+)\]", text, re.M)) == set(SCHEMAS)


def test_the_text_lists_every_field_of_a_write_stat() -> None:
    text = (SPEC / "12-commit-metadata-and-plans.md").read_text().partition("## 12.6 ")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \| (\w+) \|", text, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(WriteStat.__struct_encode_fields__)
    defaults = {"0": 0, "null": None, "absent": None}
    stat = {name: defaults[null] for name, _, null in rows}
    assert [stat[name] for name in WriteStat.__struct_encode_fields__] == list(
        WriteStat.__struct_defaults__
    )
    (stats,) = [
        items["items"]["fields"]
        for field in SCHEMAS["HoodieCommitMetadata"]["fields"]
        if field["name"] == "partitionToWriteStats"
        for items in [field["type"][1]["values"]]
    ]
    assert {field["name"] for field in stats} == set(stat)
