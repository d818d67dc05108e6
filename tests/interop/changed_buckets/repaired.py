"""Writers of Hudi leave rows in wrong file groups, bucketfmt moves them, and both write on."""

from __future__ import annotations

from pathlib import Path

import bucketfmt as bf
from bucketfmt.format.names.layout import METADATA_FOLDER, PARTITION_METAFILE
from tests.check.planting import Patient
from tests.interop.engines.answering import HudiRefusesError
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.sides import read_by_hudi
from tests.interop.turns.upserted import Upserted, simple_index

__all__ = ["play_repaired", "play_repaired_ring"]

_NUMBERS = ((4, 7), (6, 3), (2, 8))
_RING = {**simple_index(4), "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
_UUID = "5a3c2b1d-1111-4222-8333-44445555666"  # and a digit


def play_repaired(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi upserts by one number of buckets and then by another, so that keys have two rows.

    bucketfmt moves the rows to the buckets of the second number. Then a bucket gets a second file
    group, by which Hudi's writers fail, and bucketfmt joins the two; and a partition loses its
    metadata file, without which Hudi overlooks it. In between both upsert, and Hudi compacts a
    merge-on-read table.
    """
    before, after = _NUMBERS[seed % len(_NUMBERS)]
    options = simple_index(after)
    table = Upserted(session, folder, "repaired", kind, seed)
    table.hudi_upserts(1, simple_index(before))
    table.compare()
    table.hudi_upserts(2, options)
    assert bf.open(table.uri).scan().count() > len(table.rows)
    _repair(bf.open(table.uri, index=bf.SimpleBucketIndex(after, ("id",))))
    table.compare()
    table.hudi_upserts(3, options)
    table.compare()
    table.upsert(4)
    table.hudi_compacts(options)
    table.compare()
    _add_second_group(table)
    refused = ""
    try:
        session.write(table.uri, table.rows, {**table.options, **options})
    except HudiRefusesError as error:
        refused = str(error)
    assert "Find multiple files" in refused
    _repair(table.open())
    table.compare()
    for ts in (5, 7):
        table.hudi_upserts(ts, options)
        table.compare()
        table.upsert(ts + 1)
        table.compare()
    table.hudi_compacts(options)
    _lose_a_partition(table)
    if not session.has_metadata_table:
        assert read_by_hudi(session, table.uri).num_rows < table.rows.num_rows
    assert table.open().repair_partitions() == [table.regions[0]]
    table.compare()
    table.check()
    return Tally(rounds=3, ours=5, hudis=5)


def play_repaired_ring(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """A partition of a ring gets a file group that no node leads to, twice; both write on.

    In the end Hudi overwrites the table, by file groups that no ring leads to: its next upsert
    would be lost.
    """
    table = Upserted(session, folder, "repaired", kind, seed)
    table.hudi_upserts(1, _RING)
    table.upsert(2)
    assert table.open().resize(max_file_size=1, max_buckets=7) is not None
    for turn in (1, 2):
        table.hudi_upserts(3 * turn, _RING)
        table.open().compact()
        table.compare(has_buckets=False)
        _add_second_group(table, turn)
        _repair(table.open())
        table.compare(has_buckets=False)
        table.hudi_upserts(3 * turn + 1, _RING)
        table.compare(has_buckets=False)
        table.upsert(3 * turn + 2)
        table.hudi_compacts(_RING, has_buckets=False)
    operation = "hoodie.datasource.write.operation"
    table.hudi_upserts_rows(table.rows, {**_RING, operation: "insert_overwrite_table"})
    table.compare(has_buckets=False)
    table.open().repair_rings()
    table.hudi_upserts(9, _RING)
    table.compare(has_buckets=False)
    table.upsert(10)
    table.check()
    return Tally(rounds=3, ours=10, hudis=7)


def _repair(table: bf.Table) -> None:
    assert table.repair_buckets(duplicates="latest") is not None
    assert table.repair_buckets() is None


def _lose_a_partition(table: Upserted) -> None:
    (Path(table.uri) / table.regions[0] / PARTITION_METAFILE).unlink()


def _add_second_group(table: Upserted, turn: int = 0) -> None:
    """Copy the base file of a bucket, as a task that ran twice leaves it."""
    patient = Patient(Path(table.uri))
    groups = table.open().inspect.file_groups().to_pylist()
    (group, *_) = (own for own in groups if own["base_file"])
    path = patient.root / group["base_file"]
    patient.record(
        patient.copy_file(path, file_id=f"{path.name[:8]}{_UUID[8:]}{turn}-0"), like=path
    )
    for checksum in (patient.root / METADATA_FOLDER).rglob(".*commit.crc"):
        checksum.unlink()  # of Hadoop: the commit was edited
    if table.open().metadata_table.list():
        table.open().metadata_table.rebuild()
