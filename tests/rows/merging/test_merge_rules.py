from __future__ import annotations

from dataclasses import replace

import pytest

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.merging.merge_rules import (
    Filling,
    MergeRules,
    find_log_rules,
    find_merge_rules,
)

PAYLOADS = "org.apache.hudi.common.model."
EVENT_TIME = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"


def config_of(version: int, **properties: str) -> TableConfig:
    """A table with these properties, `__` for the dots in their names."""
    given = {key.replace("__", "."): value for key, value in properties.items()}
    return TableConfig.from_properties(
        {"hoodie.table.name": "t", "hoodie.table.version": str(version), **given}
    )


def rules_of(version: int, **properties: str) -> MergeRules:
    """Rules of writers of a table with these properties."""
    return find_merge_rules(config_of(version, **properties))


def log_rules_of(version: int, **properties: str) -> MergeRules:
    """Rules of the logs of a table with these properties."""
    return find_log_rules(config_of(version, **properties))


def legacy(payload: str | None, **more: str) -> MergeRules:
    if payload is not None:
        more["hoodie__compaction__payload__class"] = PAYLOADS + payload
    return rules_of(6, hoodie__table__precombine__field="ts", **more)


def test_versions_8_and_9() -> None:
    event_time = MergeRules(("ts",), log_by_ordering=True, base_by_ordering=True)
    newest = MergeRules((), log_by_ordering=False, base_by_ordering=False)
    for version, field in (
        (8, "hoodie__table__precombine__field"),
        (9, "hoodie__table__ordering__fields"),
    ):
        ordering = {field: "ts"}
        assert (
            rules_of(version, hoodie__record__merge__mode="EVENT_TIME_ORDERING", **ordering)
            == event_time
        )
        assert (
            rules_of(version, hoodie__record__merge__mode="COMMIT_TIME_ORDERING", **ordering)
            == newest
        )
        assert rules_of(version, **ordering) == event_time
        assert rules_of(version) == newest
    two = rules_of(
        9,
        hoodie__table__ordering__fields="ts,tie",
        hoodie__record__merge__mode="EVENT_TIME_ORDERING",
    )
    assert two.ordering_fields == ("ts", "tie")


def test_payload_classes_of_version_6() -> None:
    ordered = MergeRules(("ts",), True, True, legacy=True, delete_operations=("D",))
    overwrite = MergeRules(("ts",), True, False, legacy=True, delete_operations=("D",))
    assert legacy("OverwriteWithLatestAvroPayload") == overwrite
    assert legacy(None) == ordered  # never regress where nothing is stated
    # Hudi 0.15 writes the event time strategy next to any payload
    strategy = {"hoodie__compaction__record__merger__strategy": EVENT_TIME}
    assert legacy("OverwriteWithLatestAvroPayload", **strategy) == overwrite
    assert legacy("DefaultHoodieRecordPayload") == ordered
    assert legacy("EventTimeAvroPayload").marked_deletes_overrule
    dms = legacy("AWSDmsAvroPayload")
    assert (dms.base_by_ordering, dms.delete_field, dms.delete_markers) == (False, "Op", ("D", "d"))
    uber = rules_of(
        6,
        hoodie__compaction__payload__class="com.uber.hoodie.common.model.DefaultHoodieRecordPayload",
    )
    assert uber.base_by_ordering
    assert uber.ordering_fields == ()


def test_delete_markers() -> None:
    prefix = "hoodie__record__merge__property__hoodie__payload__delete__"
    rules = rules_of(9, **{prefix + "field": "Op", prefix + "marker": "D"})
    assert (rules.delete_field, rules.delete_markers) == ("Op", ("D",))
    plain = rules_of(8, hoodie__payload__delete__field="x.y", hoodie__payload__delete__marker="1")
    assert (plain.delete_field, plain.delete_markers) == ("x.y", ("1",))
    # A writer logs those rows as deletes. Those that MERGE INTO of Hudi 1.2 logs as rows are rows.
    in_log = log_rules_of(9, **{prefix + "field": "Op", prefix + "marker": "D"})
    assert in_log == replace(rules, delete_field=None, delete_markers=())
    bare = {"hoodie__payload__delete__field": "x", "hoodie__payload__delete__marker": "1"}
    for version in (8, 9):
        of_both = log_rules_of(version, **bare, **{prefix + "field": "x", prefix + "marker": "2"})
        assert (of_both.delete_field, of_both.delete_markers) == ("x", ("1",))
    dms = {"hoodie__compaction__payload__class": PAYLOADS + "AWSDmsAvroPayload"}
    assert log_rules_of(6, **dms) == rules_of(6, **dms)
    for part in ("field", "marker"):
        with pytest.raises(CorruptError, match="only one of"):
            rules_of(9, **{prefix + part: "Op"})


def test_what_is_filled() -> None:
    mode, prefix = "hoodie__table__partial__update__mode", "hoodie__record__merge__property__"
    unavailable = prefix + "hoodie__write__partial__update__unavailable__value"
    by_default = Filling(ignores_defaults=True)
    assert rules_of(9, **{mode: "IGNORE_DEFAULTS"}).filling == by_default
    assert rules_of(9, **{mode: "FILL_UNAVAILABLE", unavailable: "?"}).filling == Filling("?")
    assert rules_of(9, **{mode: "FILL_UNAVAILABLE"}).filling is None
    for version in (6, 8):
        payload = {"hoodie__compaction__payload__class": PAYLOADS + "PartialUpdateAvroPayload"}
        rules = rules_of(version, **payload)
        assert rules.filling == Filling(meta_of_newer=True)
        assert rules.log_by_ordering
        assert rules.base_by_ordering
        assert rules.legacy == rules.marked_deletes_overrule == (version == 6)
        assert not rules.is_class_compared
        logged = rules_of(version, **payload, hoodie__table__type="MERGE_ON_READ")
        assert logged == replace(rules, is_class_compared=True)
    base = {
        "hoodie__compaction__payload__class": PAYLOADS + "OverwriteNonDefaultsWithLatestAvroPayload"
    }
    rules = rules_of(6, **base)
    assert rules.filling == Filling(ignores_defaults=True, within_log=False)
    assert (rules.log_by_ordering, rules.base_by_ordering) == (True, False)
    assert rules_of(6).filling is rules_of(8).filling is rules_of(9).filling is None


@pytest.mark.parametrize(
    ("version", "properties", "named"),
    [
        (
            9,
            {
                "hoodie__record__merge__mode": "CUSTOM",
                "hoodie__compaction__payload__class": "org.x.Mine",
            },
            "org.x.Mine",
        ),
        (9, {"hoodie__record__merge__mode": "CUSTOM"}, "a merger"),
        (8, {"hoodie__compaction__payload__class": PAYLOADS + "AWSDmsAvroPayload"}, "AWSDms"),
        (
            8,
            {
                "hoodie__compaction__payload__class": PAYLOADS
                + "OverwriteNonDefaultsWithLatestAvroPayload"
            },
            "OverwriteNonDefaults",
        ),
        (
            6,
            {"hoodie__compaction__payload__class": PAYLOADS + "ConsistencyPayload"},
            "ConsistencyPayload",
        ),
        (
            6,
            {"hoodie__compaction__record__merger__strategy": "1897ef5f-18bc-4557-939c"},
            "1897ef5f",
        ),
    ],
)
def test_custom_merging_is_refused_by_name(
    version: int, properties: dict[str, str], named: str
) -> None:
    with pytest.raises(
        UnsupportedError, match=f"{named}.*; write to it with Hudi, and.*read-optimized"
    ):
        rules_of(version, **properties)
