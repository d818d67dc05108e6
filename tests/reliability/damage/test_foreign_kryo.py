"""Kryo payloads name Java classes; those that Hudi does not write are refused, never made.

Known chains of gadgets, and whatever else a stream may name: the classes are refused by their
names, before anything of them is read.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, UnsupportedError
from bucketfmt.format.encoding.kryo import KryoWriter
from bucketfmt.format.log.delete_records import decode_delete_block

GADGETS = [
    "javax.script.ScriptEngineManager",
    "java.net.URL",
    "java.net.URLClassLoader",
    "java.util.PriorityQueue",
    "java.util.HashMap",
    "java.util.TreeMap",
    "java.lang.ProcessBuilder",
    "java.lang.Runtime",
    "java.io.File",
    "com.sun.rowset.JdbcRowSetImpl",
    "com.sun.org.apache.xalan.internal.xsltc.trax.TemplatesImpl",
    "org.apache.commons.collections.functors.InvokerTransformer",
    "org.springframework.beans.factory.config.MethodInvokingFactoryBean",
    "org.apache.hudi.common.model.HoodieRecord",
    "[Ljava.lang.Object;",
    "builtins.eval",
    "",
]


def _payload(name: str, rest: bytes = b"\1\2\1\1") -> bytes:
    writer = KryoWriter()
    writer.named_class(name)
    return bytes(writer.out) + rest


def _block(payload: bytes, version: int) -> bytes:
    return version.to_bytes(4, "big") + len(payload).to_bytes(4, "big") + payload


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", GADGETS)
def test_the_payload_itself(name: str, version: int) -> None:
    with pytest.raises(UnsupportedError, match="Java class"):
        decode_delete_block(_block(_payload(name), version))


@pytest.mark.parametrize("name", GADGETS)
def test_an_ordering_value(name: str) -> None:
    writer = KryoWriter()
    writer.named_class("[Lorg.apache.hudi.common.model.DeleteRecord;")
    writer.new_reference()
    writer.varint(2)
    writer.named_class("org.apache.hudi.common.model.DeleteRecord")
    writer.new_reference()
    writer.named_class("org.apache.hudi.common.model.HoodieKey")
    writer.new_reference()
    for text in ("us", "key"):
        writer.new_reference()
        writer.text(text)
    before = bytes(writer.out)
    assert len(decode_delete_block(_block(before + b"\0", 2))) == 1  # null
    writer.named_class(name)
    with pytest.raises(UnsupportedError, match="Java class"):
        decode_delete_block(_block(bytes(writer.out) + b"\1\2", 2))


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.binary(max_size=30))
def test_any_class_name(name: str, rest: bytes) -> None:
    with pytest.raises(BucketfmtError):
        decode_delete_block(_block(_payload(name, rest), 2))
