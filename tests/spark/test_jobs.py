"""Jobs as they are submitted: what they answer and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt_spark.jobs import main
from tests.spark.test_writing import make
from tests.write.models import Model, assert_reads_as, rows


@pytest.mark.usefixtures("spark")
def test_the_jobs_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = make(tmp_path, "mor"), Model()
    for number in (1, 2):
        model.upsert(given := rows(range(40), ts=number, price=float(number)))
        source = str(tmp_path / f"{number}.parquet")
        pq.write_table(given, source)
        assert main(["upsert", table.uri, source, "--idempotency-key", str(number)]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["operation"], told["files"], told["repeated"]) == ("UPSERT", 12, False)
    assert main(["upsert", table.uri, source, "--idempotency-key", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["repeated"]
    assert main(["compact", table.uri]) == 0
    assert json.loads(capsys.readouterr().out)["operation"] == "COMPACT"
    assert main(["compact", table.uri]) == 0
    assert capsys.readouterr().out == "null\n"
    assert main(["rehash", table.uri, "8"]) == 0
    assert json.loads(capsys.readouterr().out)["file_groups_replaced"] == 12
    assert bf.open(table.uri).index == bf.SimpleBucketIndex(8, ("id",))
    assert_reads_as(table.uri, model)

    keys, into = str(tmp_path / "keys.parquet"), tmp_path / "found"
    pq.write_table(rows([3, 9, 1000], ts=0).select(["id", "region"]), keys)
    assert main(["lookup", table.uri, keys, str(into)]) == 0
    assert sorted(pq.read_table(into)["id"].to_pylist()) == ["key-000003", "key-000009"]

    assert main(["check", table.uri, "--depth", "full"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "clean"
    for path in Path(table.uri).glob("us/*.parquet"):
        path.write_bytes(b"PAR1")
    assert main(["lookup", table.uri, keys, str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("TruncatedError: us/")
    assert main(["check", table.uri]) == 1
    assert json.loads(capsys.readouterr().out)["findings"]


@pytest.mark.usefixtures("spark")
def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("TableNotFoundError: no Hudi table at")
    assert main(["compact", str(tmp_path), "--storage", "x"]) == 2
    assert "NAME=VALUE, not 'x'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["merge", str(tmp_path)])
    assert ended.value.code == 64
