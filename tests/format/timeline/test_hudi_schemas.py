from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from bucketfmt.format.encoding.avro_container import check_writer_schema
from bucketfmt.format.timeline.hudi_schemas import HUDI_NAMESPACE, hudi_schema
from tests.format.timeline.timeline_files import Golden, timeline_files


def defaults(schema: Any) -> Iterator[tuple[str, Any]]:
    match schema:
        case list():
            for branch in schema:
                yield from defaults(branch)
        case {"type": "record", "name": record, "fields": fields}:
            for field in fields:
                if "default" in field:
                    yield f"{record.rpartition('.')[2]}.{field['name']}", field["default"]
                yield from defaults(field["type"])
        case {"items": inner} | {"values": inner}:
            yield from defaults(inner)


def test_schemas_are_those_hudi_writes(golden: Golden) -> None:
    seen: dict[str, Any] = {}
    for file in timeline_files(golden):
        if not file.version.startswith("0.") and file.data:
            schema = fastavro.reader(io.BytesIO(file.data)).writer_schema
            seen[schema["name"]] = schema
    for full_name, schema in seen.items():
        ours = hudi_schema(full_name.removeprefix(f"{HUDI_NAMESPACE}."))
        assert check_writer_schema(ours) == check_writer_schema(schema), full_name
        assert dict(defaults(ours)) == dict(defaults(schema)), full_name
    assert {name.rpartition(".")[2] for name in seen} >= {
        "HoodieCommitMetadata",
        "HoodieReplaceCommitMetadata",
        "HoodieRequestedReplaceMetadata",
        "HoodieCompactionPlan",
        "HoodieCleanerPlan",
        "HoodieCleanMetadata",
    }


def test_short_form() -> None:
    assert hudi_schema("HoodieRestorePlan") == {
        "type": "record",
        "name": "HoodieRestorePlan",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {
                "name": "instantsToRollback",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieInstantInfo",
                        "fields": [
                            {"name": "commitTime", "type": "string"},
                            {"name": "action", "type": "string"},
                        ],
                    },
                },
                "default": [],
            },
            {"name": "version", "type": ["int", "null"], "default": 2},
            {"name": "savepointToRestoreTimestamp", "type": ["null", "string"], "default": None},
        ],
    }


def test_a_type_is_spelled_out_once_and_may_lack_a_default() -> None:
    clean = {field["name"]: field for field in hudi_schema("HoodieCleanMetadata")["fields"]}
    assert clean["partitionMetadata"]["type"]["values"]["name"] == "HoodieCleanPartitionMetadata"
    assert clean["bootstrapPartitionMetadata"]["type"] == [
        "null",
        {"type": "map", "values": "HoodieCleanPartitionMetadata"},
    ]
    operation = hudi_schema("HoodieCompactionOperation")["fields"]
    assert operation[0] == {"name": "baseInstantTime", "type": ["null", "string"]}


def test_unknown_record() -> None:
    with pytest.raises(KeyError):
        hudi_schema("HoodieNoSuchThing")
