"""Types are prepared on import: msgspec crashes when two threads are the first to decode one."""

from __future__ import annotations

import subprocess
import sys

import pytest

DECODE_FROM_MANY_THREADS = """
import sys, threading
from bucketfmt.format.timeline.commit_metadata import decode_commit_metadata
from bucketfmt.format.buckets.hashing_metadata import decode_hashing_metadata
from bucketfmt.format.buckets.hashing_metadata import encode_hashing_metadata
from bucketfmt.format.buckets.hashing_metadata import initial_hashing_metadata
from bucketfmt.format.table.internal_schema import parse_internal_schema

ring = encode_hashing_metadata(initial_hashing_metadata("us", 4))
sys.setswitchinterval(1e-6)
ready = threading.Barrier(8)


def decode():
    ready.wait()
    decode_commit_metadata(b'{"partitionToWriteStats":{"us":[{"fileId":"a"}]}}')
    decode_hashing_metadata(ring)
    parse_internal_schema('{"type":"record","fields":[]}')


threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("attempt", range(5))  # unprepared, every second one crashes
def test_the_first_decode_may_be_in_any_thread(attempt: int) -> None:
    subprocess.run([sys.executable, "-c", DECODE_FROM_MANY_THREADS], check=True, timeout=60)
