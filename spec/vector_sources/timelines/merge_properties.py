"""Properties of tables whose records merge in one way or another."""

from __future__ import annotations

__all__ = ["COMMIT_TIME", "EVENT_TIME", "MODEL", "of_payload"]

MODEL = "org.apache.hudi.common.model."
EVENT_TIME = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "9",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.ordering.fields": "ts",
}
COMMIT_TIME = {**EVENT_TIME, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


def of_payload(payload: str, version: int = 6) -> dict[str, str]:
    """Return those of a table that merges by a payload class."""
    return {
        "hoodie.table.name": "t",
        "hoodie.table.version": str(version),
        "hoodie.table.precombine.field": "ts",
        "hoodie.compaction.payload.class": MODEL + payload,
    }
