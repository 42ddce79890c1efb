"""Protobuf bodies are shown by the names of their fields, once a visitor gave their types."""

from base64 import b64encode
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from pocketmq.client import Message
from pocketmq.console.message_types import SIZE_MAX, MessageTypes, types_from_text
from tests.kit.browser import console_of
from tests.running_broker import broker_with

BODY = b"\x0a\x02k1\x10\x07"
FIELD = descriptor_pb2.FieldDescriptorProto


def a_set(*, imports: str = "") -> bytes:
    """Returns the types shop.Order and shop.Order.Line of one file."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    if imports:
        file.dependency.append(imports)
    order = file.message_type.add(name="Order")
    order.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    order.field.add(name="total", number=2, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    order.nested_type.add(name="Line")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def test_a_body_is_shown_by_the_names_of_its_fields() -> None:
    types = MessageTypes(a_set())
    assert types.names == ["shop.Order", "shop.Order.Line"]
    assert types.text("shop.Order", BODY) == '{\n  "key": "k1",\n  "total": 7\n}'
    for name, body, why in (
        ("shop.Order", b"\xff\xff", "is no shop.Order"),
        ("shop.Other", BODY, "no message type"),
        ("shop.Order", b"x" * 2_000_000, "is larger"),
    ):
        with pytest.raises(ValueError, match=why):
            types.text(name, body)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xff", "no complete message types"), (b"", "has 0 message types"),
        (a_set(imports="other.proto"), "no complete message types"),
        (bytes(SIZE_MAX + 1), "are larger"),
    ],
)  # fmt: skip
def test_what_is_no_set_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        types_from_text(b64encode(content).decode())


async def test_a_visitor_gives_types_for_the_session(tmp_path: Path) -> None:
    settings = ("broker.auto_create_topics=true", "rpc.tls=false")
    async with (
        broker_with(tmp_path / "store", *settings) as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        sent = await broker.send(Message("orders", BODY))
        place = {"topic": "orders", "queue": str(sent.queue_id), "at": str(sent.queue_offset)}
        await visitor.get("/topics")
        for given in ("%%", b64encode(b"\xff\xff").decode()):
            wrong = await visitor.post("/message/types", types=given, **place)
            assert "no " in (await visitor.get(wrong.place)).html.partition('role="status"')[2]
        done = await visitor.post("/message/types", types=b64encode(a_set()).decode(), **place)
        page = await visitor.get(done.place)
        assert "2 message types are known" in page.text
        assert '"total": 7' in page.text
        other = await visitor.get(done.place.replace("shop.Order", "shop.None"))
        assert "there is no message type" in other.text
