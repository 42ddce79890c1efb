"""Lite topics are not served: what only they need is refused inside the answer, no call fails."""

from typing import Any, Final

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from pocketmq.rpc.pb import messaging_pb2 as pb
from tests.kit.official import OfficialDesk, name, sent
from tests.kit.official_stream import OfficialStream, subscribing

GROUP, TOPIC = name("g"), name("orders")
REFUSED: Final[list[tuple[str, Message]]] = [
    ("SendMessage", sent("orders", b"x", lite_topic="l")),
    ("SendMessage", sent("lite", b"x", lite_topic="l")),
    *(
        (
            "SyncLiteSubscription",
            pb.SyncLiteSubscriptionRequest(
                action=action, topic=TOPIC, group=GROUP, lite_topic_set=["l"]
            ),
        )
        for action in (pb.PARTIAL_ADD, pb.PARTIAL_REMOVE, pb.COMPLETE_ADD, pb.COMPLETE_REMOVE)
    ),
]
OTHERS: Final[list[tuple[str, Message, str]]] = [
    ("Heartbeat", pb.HeartbeatRequest(group=GROUP, client_type=pb.LITE_PUSH_CONSUMER), "OK"),
    ("NotifyClientTermination", pb.NotifyClientTerminationRequest(group=GROUP), "OK"),
    ("QueryAssignment", pb.QueryAssignmentRequest(topic=name("lite"), group=GROUP), "OK"),
    ("SendMessage", sent("lite", b"x"), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
]
"""What clients of lite topics call beside that."""


@pytest.fixture(autouse=True)
async def lite(desk: OfficialDesk) -> None:
    """A topic of type LITE, as a real broker leaves behind."""
    topics = desk.broker.store.tables.topics
    await topics.create("lite", queue_count=1, attributes={"message.type": "LITE"})


@pytest.mark.parametrize(("method", "request_"), REFUSED)
async def test_what_only_lite_topics_need_is_unsupported(
    desk: OfficialDesk, method: str, request_: Message
) -> None:
    assert await desk.code(method, request_) == "UNSUPPORTED"


@pytest.mark.parametrize("client_type", [pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER])
async def test_consumers_of_lite_topics_are_told_as_they_start(
    desk: OfficialDesk, client_type: pb.ClientType
) -> None:
    async with OfficialStream(desk) as stream:
        refused = await stream.asked(subscribing("g", "lite", client_type=client_type))
        assert pb.Code.Name(refused.status.code) == "UNSUPPORTED"
        assert not refused.HasField("settings")
        assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK


@pytest.mark.parametrize(("method", "request_", "code"), OTHERS)
async def test_the_rest_of_what_they_call_is_answered(
    desk: OfficialDesk, method: str, request_: Message, code: str
) -> None:
    assert await desk.code(method, request_) == code


@pytest.mark.parametrize("method", ["ack", "change", "forward"])
async def test_a_message_is_of_no_lite_topic_whatever_its_consumer_says(
    desk: OfficialDesk, method: str
) -> None:
    await desk.broker.add("orders", b"a", UNIQ_KEY="1")
    (got,) = await desk.received("g", "orders")
    handle = got.system_properties.receipt_handle
    entry = pb.AckMessageEntry(message_id="1", receipt_handle=handle, lite_topic="l")
    settled: dict[str, Any] = {"group": GROUP, "topic": TOPIC}
    settled |= {"receipt_handle": handle, "message_id": "1"}
    requests: dict[str, tuple[str, Message]] = {
        "ack": ("AckMessage", pb.AckMessageRequest(group=GROUP, topic=TOPIC, entries=[entry])),
        "change": (
            "ChangeInvisibleDuration",
            pb.ChangeInvisibleDurationRequest(
                **settled, lite_topic="l", suspend=True, invisible_duration=Duration(seconds=60)
            ),
        ),
        "forward": (
            "ForwardMessageToDeadLetterQueue",
            pb.ForwardMessageToDeadLetterQueueRequest(**settled, lite_topic="l"),
        ),
    }
    assert await desk.code(*requests[method]) == "OK"
    await desk.broker.pass_time(11_000)
    assert not await desk.received("g", "orders")
