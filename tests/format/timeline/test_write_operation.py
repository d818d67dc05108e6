"""What each operation does, and that Hudi's names of them are found again."""

from __future__ import annotations

import pytest

from bucketfmt.format.timeline.write_operation import SERVICE_OPERATIONS, WriteOperation

REPLACING = {"INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE", "DELETE_PARTITION"}


@pytest.mark.parametrize("operation", WriteOperation)
def test_hudis_name_tells_the_operation(operation: WriteOperation) -> None:
    assert operation.operation_type == operation.value.upper()
    assert WriteOperation.find(operation.operation_type) is operation


@pytest.mark.parametrize("unknown", [None, "", "UNKNOWN", "upsert", "UPSERT_PREPPED"])
def test_other_names_tell_none(unknown: str | None) -> None:
    assert WriteOperation.find(unknown) is None


@pytest.mark.parametrize("operation", WriteOperation)
def test_what_hides_file_groups_is_a_replacecommit(operation: WriteOperation) -> None:
    is_replacing = operation.operation_type in REPLACING
    assert operation.replaces == is_replacing
    for table_type, action in (("COPY_ON_WRITE", "commit"), ("MERGE_ON_READ", "deltacommit")):
        assert operation.action(table_type) == ("replacecommit" if is_replacing else action)


def test_what_operations_do() -> None:
    def those(name: str) -> set[str]:
        return {each.value for each in WriteOperation if getattr(each, name)}

    assert those("overwrites") == {"insert_overwrite", "insert_overwrite_table"}
    assert those("merges") == {"upsert", "insert"}
    assert those("appends") == {"upsert", "insert", "delete"}
    assert those("takes_keys") == {"delete"}
    assert those("fills_empty_buckets") == {"bulk_insert"}
    assert those("compacts") == {"compact", "log_compact"}
    assert not WriteOperation.BULK_INSERT.combines
    assert {"CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX"} == SERVICE_OPERATIONS
