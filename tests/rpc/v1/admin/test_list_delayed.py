"""Pending messages are listed with their topic, delivery time and recall handle."""

from typing import Any

import pytest

from pocketmq.model import errors
from pocketmq.rpc.pb import admin_pb2, broker_pb2
from pocketmq.services.admin import delayed
from tests.kit.store_broker import StoreBroker
from tests.sim.clock import START_MS

HOUR_MS = 3_600_000


async def send(broker: StoreBroker, name: str, topic: str = "orders", **fields: Any) -> str:
    """Sends a message; returns its recall handle."""
    message = broker_pb2.Message(topic=topic, body=b"x", message_id=name, queue_id=1, **fields)
    request = broker_pb2.SendMessageRequest(messages=[message])
    handle = str((await broker.answer("SendMessage", request)).results[0].recall_handle)
    await broker.talking.settled()
    return handle


async def recall(broker: StoreBroker, handle: str) -> None:
    """Recalls a message of `orders`."""
    await broker.answer("Recall", broker_pb2.RecallRequest(topic="orders", recall_handle=handle))
    await broker.talking.settled()


async def page(broker: StoreBroker, **fields: Any) -> admin_pb2.ListDelayedResponse:
    """Asks for a page."""
    request = admin_pb2.ListDelayedRequest(**fields)
    answer: admin_pb2.ListDelayedResponse = await broker.answer("Admin/ListDelayed", request)
    return answer


async def names(broker: StoreBroker, **fields: Any) -> list[str]:
    """Returns the ids of all pages."""
    found, token = [], ""
    while True:
        answer = await page(broker, page_token=token, **fields)
        found += [one.message_id for one in answer.messages]
        token = answer.next_page_token
        if not token:
            return found


async def test_what_waits_says_where_it_goes_and_when(broker: StoreBroker) -> None:
    handle = await send(broker, "ID1", deliver_at_ms=START_MS + 5_500, tag="A", keys=["k"])
    await send(broker, "ID2", delay_level=2)
    await send(broker, "ID3", delay_ms=7_200)
    level, at, length = (await page(broker)).messages
    both: dict[str, Any] = {"topic": "orders", "queue_id": 1, "store_timestamp_ms": START_MS}
    assert at == admin_pb2.DelayedMessage(
        message_id="ID1", deliver_at_ms=START_MS + 5_500, tag="A", keys=["k"],
        recall_handle=handle, physical_offset=at.physical_offset, **both,
    )  # fmt: skip
    assert level == admin_pb2.DelayedMessage(
        message_id="ID2", deliver_at_ms=START_MS + 5_000, delay_level=2,
        physical_offset=level.physical_offset, **both,
    )  # fmt: skip
    assert (length.message_id, length.deliver_at_ms) == ("ID3", START_MS + 7_200)


async def test_only_what_waits_is_listed(broker: StoreBroker) -> None:
    handle = await send(broker, "gone", delay_ms=HOUR_MS)
    await send(broker, "over", delay_ms=1_000)
    await send(broker, "level over", delay_level=1)
    await send(broker, "plain")
    await send(broker, "half", transactional=True)
    await send(broker, "waits", delay_ms=HOUR_MS)
    await broker.store.tables.groups.ensure("g")
    await broker.answer(
        "Receive", broker_pb2.ReceiveRequest(group="g", topic="orders", max_messages=1)
    )
    await recall(broker, handle)
    broker.clock.advance(2_000)
    assert await names(broker) == ["waits"]
    assert await names(broker, message_id="waits") == ["waits"]
    for name in ("gone", "over", "plain", "unknown"):
        with pytest.raises(errors.MessageNotFound):
            await page(broker, message_id=name)


async def test_messages_of_one_topic_are_told_apart(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("others", 2)
    for number in range(6):
        topic = ("orders", "others")[number % 2]
        await send(broker, str(number), topic, delay_ms=HOUR_MS)
    assert await names(broker, topic="orders") == ["0", "2", "4"]
    assert await names(broker, topic="nothing") == []


@pytest.mark.parametrize("page_size", [1, 2, 7])
async def test_pages_hold_together_all_and_none_twice(
    broker: StoreBroker, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed, "LOOKED_AT_MAX", 3)
    wanted = [f"l{number}" for number in range(5)] + [f"t{number}" for number in range(6)]
    for name in wanted:
        fields: dict[str, Any] = {"delay_level": 18} if name[0] == "l" else {"delay_ms": 9_000}
        await send(broker, name, **fields)
    assert await names(broker, page_size=page_size) == wanted
    assert await names(broker, page_size=page_size, topic="none") == []


@pytest.mark.parametrize(
    "token", ["x", "-", "t", "t-", "18-", "19-0", "1-²", "tt-1", "t-" + "9" * 30]
)
async def test_what_is_no_token_is_refused(broker: StoreBroker, token: str) -> None:
    with pytest.raises(errors.IllegalPageToken):
        await page(broker, page_token=token)
