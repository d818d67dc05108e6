from __future__ import annotations

import uuid
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.errors import LimitError, StorageError
from bucketfmt.limits import Limits
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores import s3_store
from bucketfmt.testing import StoreContract
from tests.storage.faulty_server import ServerFault, faulty_proxy
from tests.write.models import create_table, rows

s3fs = pytest.importorskip("s3fs")
ClientError = pytest.importorskip("botocore.exceptions").ClientError


class TestS3Store(StoreContract):
    @pytest.fixture
    def uri(self) -> str:
        return f"s3://tables/{uuid.uuid4().hex}/table"

    @pytest.fixture
    def store(self, uri: str, s3_options: dict[str, Any]) -> Store:
        return open_store(uri, s3_options)

    @pytest.fixture
    def other(self, uri: str, s3_options: dict[str, Any]) -> Store:
        # Another process would share no cache of listings; here another instance shares none.
        return open_store(
            uri.replace("s3://", "s3a://"), {**s3_options, "skip_instance_cache": True}
        )


def test_a_folder_marker_is_not_an_entry(s3_options: dict[str, Any]) -> None:
    s3 = s3fs.S3FileSystem(**s3_options)
    s3.pipe_file("tables/marked/p=1/", b"")
    s3.pipe_file("tables/marked/p=1/f", b"1")
    store = open_store("s3://tables/marked", s3_options)
    assert [i.path for i in store.list("p=1")] == ["p=1/f"]
    assert [(i.path, i.is_dir) for i in store.list("")] == [("p=1", True)]


def test_a_whole_bucket_can_be_a_table(s3_options: dict[str, Any]) -> None:
    s3fs.S3FileSystem(**s3_options).mkdir("whole")
    store = open_store("s3://whole", s3_options)
    store.put_if_absent(".hoodie/hoodie.properties", b"x=1")
    assert [i.path for i in store.list("")] == [".hoodie"]
    assert store.read(".hoodie/hoodie.properties", 9) == b"x=1"


@pytest.mark.parametrize("between", ["//", "/./", "/x/../"])
def test_a_table_is_found_as_on_a_disk(s3_options: dict[str, Any], between: str) -> None:
    """Of a server over a folder, its properties were read and nothing was listed: no rows."""
    folder = f"s3://tables/{uuid.uuid4().hex}"
    table = create_table(f"{folder}/t", bf.SimpleBucketIndex(1), storage_options=s3_options)
    table.upsert(rows([1, 2], ts=1))
    assert bf.open(f"{folder}{between}t", s3_options).scan().count() == 2


def test_an_unreachable_store_is_a_storage_error() -> None:
    store = open_store(
        "s3://tables/t",
        {
            "endpoint_url": "http://127.0.0.1:9",
            "key": "k",
            "secret": "secret-value",
            "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
            "skip_instance_cache": True,
        },
    )
    store._fs.retries = 1
    with pytest.raises(StorageError, match="retry") as caught:
        store.read(".hoodie/hoodie.properties", 10)
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"profile": "nobody"}, "ProfileNotFound.*; check the URL"),
        ({"endpoint_url": "127.0.0.1:9"}, "Invalid endpoint.*; check the URL"),
        ({"client_kwargs": {"region": "a"}}, "unexpected keyword argument 'region'; check the URL"),
    ],
)
def test_wrong_options_are_told_from_a_store_that_is_away(
    s3_options: dict[str, Any], options: dict[str, Any], match: str
) -> None:
    store = open_store("s3://tables/t", {**s3_options, "skip_instance_cache": True, **options})
    with pytest.raises(StorageError, match=match):
        store.read(".hoodie/hoodie.properties", 10)


def test_options_of_the_client_may_be_none(s3_options: dict[str, Any]) -> None:
    store = open_store("s3://tables/t", {**s3_options, "config_kwargs": None})
    assert store.list("nothing") == []


@pytest.mark.parametrize("fault", [ServerFault.STALL_BEFORE, ServerFault.TRUNCATED])
def test_a_request_is_repeated_as_often_as_s3fs_says(
    s3_options: dict[str, Any], fault: ServerFault
) -> None:
    """Not as often as that for each of its own repetitions."""
    with faulty_proxy(s3_options["endpoint_url"]) as proxy:
        options = {
            **s3_options,
            "endpoint_url": proxy.url,
            "config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 0.1},
            "skip_instance_cache": True,
        }
        url = f"s3://tables/{uuid.uuid4().hex}"
        open_store(url, s3_options).put_if_absent("f", b"0123456789")
        store = open_store(url, options)
        store._fs.retries = 3  # type: ignore[attr-defined]
        proxy.strike(1, fault, lasts=True)
        with pytest.raises(StorageError, match="retry"):
            store.read("f", 10)
        assert len(proxy.struck) == 3


@pytest.mark.parametrize("conflicts", [0, 1, 5, 99])
def test_a_condition_that_meets_another_request_is_asked_again(
    s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, conflicts: int
) -> None:
    """S3 answers 409 where requests on one object meet, and has done nothing then."""
    store = open_store(f"s3://tables/{uuid.uuid4().hex}", s3_options)
    put, left = store._fs.pipe_file, [conflicts]  # type: ignore[attr-defined]

    def meet(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            code = {"Error": {"Code": "ConditionalRequestConflict"}}
            raise OSError(5, "conflict") from ClientError(code, "PutObject")
        return put(*args, **kwargs)

    monkeypatch.setattr(store._fs, "pipe_file", meet)  # type: ignore[attr-defined]
    monkeypatch.setattr(s3_store, "_PAUSE_S", 0.001)
    if conflicts > 10:
        with pytest.raises(StorageError, match="conflict"):
            store.put_if_absent("f", b"1")
        return
    assert store.put_if_absent("f", b"1")
    left[0] = conflicts
    assert not store.put_if_absent("f", b"2")
    _, version = store.read_versioned("f", 9)
    left[0] = conflicts
    assert store.replace_if("f", b"3", version)
    left[0] = conflicts
    assert store.replace_if("f", b"4", version) is None
    assert store.read("f", 9) == b"3"


def test_a_request_that_failed_may_still_arrive(s3_options: dict[str, Any]) -> None:
    assert open_store("s3://tables/t", s3_options).failures_are_final is False


def test_a_missing_bucket_is_no_table(s3_options: dict[str, Any]) -> None:
    store = open_store("s3://no-such-bucket/t", s3_options)
    assert store.list("") == []
    assert store.info(".hoodie/hoodie.properties") is None


@pytest.mark.parametrize("verb", ["put_if_absent", "replace"])
def test_a_missing_bucket_is_not_written_to(s3_options: dict[str, Any], verb: str) -> None:
    store = open_store("s3://no-such-bucket/t", s3_options)
    with pytest.raises(StorageError, match="there is no bucket 'no-such-bucket'"):
        getattr(store, verb)(".hoodie/hoodie.properties", b"x=1")


def test_a_folder_is_listed_no_further_than_the_limit(
    s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a million files is refused before all of its pages are in memory."""
    uri = f"s3://tables/{uuid.uuid4().hex}"
    store = open_store(uri, s3_options)
    names = [f"d/{number:02}" for number in range(9)]
    for name in names:
        store.put_if_absent(name, b"")
    s3fs.S3FileSystem(**s3_options).pipe_file(f"{uri}/d/", b"")  # marks the folder
    pages, call = [], s3fs.S3FileSystem._call_s3

    async def call_with_small_pages(self: Any, method: str, **given: Any) -> Any:
        if method == "list_objects_v2":
            pages.append(given)
            given["MaxKeys"] = 2
        return await call(self, method, **given)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", call_with_small_pages)
    for most, pages_read in ((9, 5), (8, 5), (3, 3), (2, 2)):
        limited = open_store(uri, s3_options, Limits(folder_entries_max=most))
        pages.clear()
        if most == len(names):
            assert [entry.path for entry in limited.list("d")] == names
        else:
            with pytest.raises(LimitError, match=f"{most + 1} exceeds .* folder_entries_max"):
                limited.list("d")
        assert len(pages) == pages_read
