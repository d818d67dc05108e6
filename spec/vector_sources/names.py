"""Vectors of file names."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector, golden

__all__ = ["vectors"]

_REAL = "names in tables bucket_bulk, mor, nbcc, cdc (Hudi 0.15.0 and 1.2.0)"
_TEXT = "written for this text, after the patterns of FSUtils"

_BASE_FILES = {
    "00000001-f9a8-4fb7-810c-5012d10e8c12-1_1-4997-0_20261121074928349.parquet": (
        "00000001-f9a8-4fb7-810c-5012d10e8c12-1",
        "1-4997-0",
        "20261121074928349",
        "parquet",
    ),
    "00000000-726f-4938-90d9-86c8fb20bbdd_0-1781-3610_20261121074128237.parquet": (
        "00000000-726f-4938-90d9-86c8fb20bbdd",
        "0-1781-3610",
        "20261121074128237",
        "parquet",
    ),
    "a_1-0-1_001.orc": ("a", "1-0-1", "001", "orc"),
    "a_1-0-1_001.Vortex2": ("a", "1-0-1", "001", "Vortex2"),
}

_LOG_FILES = {
    ".00000001-f9a8-4fb7-810c-5012d10e8c12-1_20261121074928349.log.2_1-2303-5048": (
        "00000001-f9a8-4fb7-810c-5012d10e8c12-1",
        "20261121074928349",
        2,
        "1-2303-5048",
        False,
    ),
    ".00000000-0000-0000-0000-000000000000-0_20261121074219846.log.1_4-119-247": (
        "00000000-0000-0000-0000-000000000000-0",
        "20261121074219846",
        1,
        "4-119-247",
        False,
    ),
    ".00000001-ca29-491a-84c5-62d4939cd018-0_20261121074035648.log.1_5-1001-2035.cdc": (
        "00000001-ca29-491a-84c5-62d4939cd018-0",
        "20261121074035648",
        1,
        "5-1001-2035",
        True,
    ),
    ".a-0_001.log.10": ("a-0", "001", 10, None, False),
    ".a-0_001.log.0_00-01-1": ("a-0", "001", 0, "00-01-1", False),
    ".a b-0_001.log.2147483647_0-0-0": ("a b-0", "001", 2147483647, "0-0-0", False),
}

_NO_DATA_FILES = [
    ".hoodie_partition_metadata",
    ".hoodie_partition_metadata.parquet",
    "20261121044420718.commit",
    "00000000000000.commit",
    ".00000001-f9a8-4fb7-810c-5012d10e8c12-1_1-4997-0_20261121074928349.parquet.crc",
    "..a-0_001.log.1_0-0-1.crc",
    "a_1-0-1_001.parquet.d0f5a6f3-7c2a-4d26-9a7c-1c3e2c1d0b4a",
    "a_1-0-1_001.",
    "a_1-0-1_001.c_v",
    "a_b_1-0-1_001.parquet",
    "a_1-0-1_x.parquet",
    "a_1-0-1_001",
    ".a-0_001.log.1_0-0",
    ".a-0_001.log.2147483648_0-0-1",
    ".a-0_001.log.x_0-0-1",
    ".commits_.archive.3_1-0-1",
    ".a-0_001.archive.1_0-0-1",
    ".a-0_001.log.01_0-0-1",
    ".a-0_001.log.1.cdc",
    ".a-0_x.log.1_0-0-1",
    ".a-0_.log.1_0-0-1",
    ".a-0_١.log.1_0-0-1",
    ".a-0_001.log.١",
    ".a.0_001.log.1",
    ".a-0_001_2.log.1",
    "_SUCCESS",
    "",
    "..",
]

_HOSTILE = [".a/b-0_001.log.1_0-0-1", ".a\\b-0_001.log.1_0-0-1", ".a\x00-0_001.log.1_0-0-1"]

# HoodieLogFile.LogFileComparator, run on 0.15.0, 1.0.2, 1.1.1 and 1.2.0
_LOG_ORDER = [
    ".a-0_001.log.1",
    ".a-0_001.log.1_0-0-1",
    ".a-0_001.log.1_1-0-1",
    ".a-0_001.log.1_1-0-1.cdc",
    ".a-0_001.log.1_10-0-1",
    ".a-0_001.log.1_2-0-1",
    ".a-0_001.log.2_0-0-1",
    ".a-0_001.log.10_0-0-1",
    ".a-0_002.log.1_0-0-1",
]


def _base_file(parts: tuple[str, str, str, str]) -> dict[str, object]:
    return dict(zip(("file_id", "write_token", "instant", "extension"), parts, strict=True))


def _log_file(parts: tuple[object, ...]) -> dict[str, object]:
    names = ("file_id", "instant", "version", "write_token", "is_cdc")
    return dict(zip(names, parts, strict=True))


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield Vector(
        "data-file-name.base-files",
        ["NAME-1"],
        _REAL,
        ListOf(list(_BASE_FILES)),
        [_base_file(parts) for parts in _BASE_FILES.values()],
    )
    yield Vector(
        "data-file-name.log-files",
        ["NAME-3", "NAME-6"],
        _REAL,
        ListOf(list(_LOG_FILES)),
        [_log_file(parts) for parts in _LOG_FILES.values()],
    )
    yield Vector(
        "data-file-name.other-files",
        ["NAME-1", "NAME-3", "NAME-7"],
        _TEXT,
        ListOf(_NO_DATA_FILES),
        [None] * len(_NO_DATA_FILES),
    )
    yield Vector(
        "data-file-name.hostile", ["NAME-9"], _TEXT, ListOf(_HOSTILE), [None] * len(_HOSTILE)
    )
    yield Vector(
        "data-file-name.external",
        ["NAME-8"],
        _TEXT,
        ListOf(["part-0001.parquet_001_hudiext", "a_1-0-1_001_hudiext"]),
        error="unsupported",
    )
    stray = [path.rpartition("/")[2] for path in golden("0.15.0", "ch_split").paths(end=".commit")]
    yield Vector(
        "data-file-name.stray-markers",
        ["NAME-7", "DEV-8"],
        "Hudi 0.15.0, table ch_split: files of partition folders that end in .commit",
        ListOf(stray),
        [None] * len(stray),
    )
    yield Vector(
        "log-file-order.comparator",
        ["NAME-5", "NAME-2"],
        "HoodieLogFile.LogFileComparator, run on Hudi 0.15.0, 1.0.2, 1.1.1 and 1.2.0",
        sorted(_LOG_ORDER),
        _LOG_ORDER,
    )
    yield Vector(
        "write-token-order.text",
        ["NAME-2"],
        _TEXT,
        ["2-0-1", "10-0-1", "1-0-10", "1-0-2", "1-0-1", "0-0-0"],
        ["0-0-0", "1-0-1", "1-0-10", "1-0-2", "10-0-1", "2-0-1"],
    )
    yield Vector(
        "write-token-order.malformed",
        ["NAME-2"],
        _TEXT,
        ListOf([["1-0"], ["1-0-01"], ["1-0-x"], ["-1-0-1"], [""], ["1-0-1-1"]]),
        error="corrupt",
    )
    file_ids = {
        "00000002-3283-49e3-9253-c8430b71b5e5-0": 2,
        "00000001-f9a8-4fb7-810c-5012d10e8c12-1": 1,
        "00000000-19ca-4fe1-aec8-72c3c2f1fdd9": 0,
        "00000003-0000-0000-0000-000000000000-0": 3,
        "99999999-0000-0000-0000-000000000000-0": 99999999,
        "c0a80101-0000-4000-8000-000000000001-0": None,
        "0000000": None,
        "٠٠٠٠٠٠٠١-0000": None,
        "+0000001-0000": None,
        "": None,
    }
    yield Vector(
        "bucket-of-file-id.forms",
        ["NAME-10"],
        _REAL + "; the rest " + _TEXT,
        ListOf(list(file_ids)),
        list(file_ids.values()),
    )
    uuid = "9c3e1b2a-3283-49e3-9253-c8430b71b5e5"
    yield Vector(
        "new-file-id.forms",
        ["NAME-12", "NAME-13"],
        "BucketIdentifier.newBucketFileIdPrefix, newBucketFileIdForNBCC, FSUtils.createNewFileId",
        ListOf(
            [
                {"bucket_id": 2, "uuid": uuid},
                {"bucket_id": 99999999, "uuid": uuid},
                {"bucket_id": 3, "nbcc": True},
                {"file_id_prefix": "cd524024-9cdd-3644-b9b2-3dd0a5f000e3"},
            ]
        ),
        [
            "00000002-3283-49e3-9253-c8430b71b5e5-0",
            "99999999-3283-49e3-9253-c8430b71b5e5-0",
            "00000003-0000-0000-0000-000000000000-0",
            "cd524024-9cdd-3644-b9b2-3dd0a5f000e3-0",
        ],
    )
    yield Vector(
        "rfc29-file-name.forms",
        ["NAME-14", "DEV-3"],
        "the example of RFC-29; names in table bucket_bulk (Hudi 1.2.0)",
        ListOf(
            [
                "00000002-0000-4035-a392-22a91eafd130_0-2-0_20210527160855.parquet",
                ".00000000-19ca-4fe1-aec8-72c3c2f1fdd9_20261121074128718.log.1_0-1789-3628",
            ]
        ),
        [
            {
                "bucket_id": 2,
                "file_group_id": "00000002-0000-4035-a392-22a91eafd130",
                "uuid": "00000002-0000-4035-a392-22a91eafd130",
                "timestamp": "20210527160855",
            },
            {
                "bucket_id": 0,
                "file_group_id": "00000000-19ca-4fe1-aec8-72c3c2f1fdd9",
                "uuid": "00000000-19ca-4fe1-aec8-72c3c2f1fdd9",
                "timestamp": "20261121074128718",
            },
        ],
    )
    yield Vector(
        "hashing-file-name.forms",
        ["NAME-15"],
        "names in table ch_split (Hudi 1.2.0) and partrules (Hudi 1.2.0)",
        ListOf(
            [
                "00000000000000.hashing_meta",
                "20261121044145151.hashing_meta",
                "20261121044135679.commit",
                "20261121075218727.hashing_config",
            ]
        ),
        [
            {"kind": "metadata", "instant": "00000000000000"},
            {"kind": "metadata", "instant": "20261121044145151"},
            {"kind": "marker", "instant": "20261121044135679"},
            {"kind": "config", "instant": "20261121075218727"},
        ],
    )
    yield Vector(
        "hashing-file-name.others",
        ["NAME-15"],
        _TEXT,
        ListOf(
            [
                "00000000000000.hashing_meta.5a4b8f6c-8d1a-4f2e-9d55-0d4f8f6b2c11",
                ".00000000000000.hashing_meta.crc",
                "x.hashing_meta",
                ".hashing_meta",
                "1.commit.requested",
                "1.hashing_configs",
            ]
        ),
        error="corrupt",
    )
    marker = golden("0.15.0", "uncommitted_mor").paths(".hoodie/.temp/", end=".marker.APPEND")[0]
    below = marker.removeprefix(".hoodie/.temp/").partition("/")[2]
    partition, _, name = below.rpartition("/")
    yield Vector(
        "marker-path.append",
        ["NAME-16"],
        golden("0.15.0", "uncommitted_mor").recipe(
            marker, "the path below .hoodie/.temp/<instant>"
        ),
        below,
        {
            "partition_path": partition,
            "data_file_name": name.removesuffix(".marker.APPEND"),
            "type": "APPEND",
        },
    )
    yield Vector(
        "marker-path.malformed",
        ["NAME-16"],
        _TEXT,
        ListOf(["us/a_1-0-1_001.parquet", "us/a.marker.DELETE", "us/.marker.CREATE"]),
        error="corrupt",
    )
    yield Vector(
        "marker-path.outside",
        ["NAME-16", "PATH-1"],
        _TEXT,
        ListOf(["../a_1-0-1_001.parquet.marker.CREATE", "/a_1-0-1_001.parquet.marker.CREATE"]),
        error="unsafe-path",
    )
