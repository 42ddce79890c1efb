"""Transactions of official clients, decided by any publisher to the topic, or checked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from pocketmq.model.step import Now
from pocketmq.model.topic import GIVEN_UP_TOPIC, OP_HALF_TOPIC
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2 import client_stream
from pocketmq.store.job import Job
from tests.kit.official import MESSAGE_ID, OfficialDesk, name, sent
from tests.kit.store_broker import store_broker
from tests.kit.store_language import turns
from tests.sim.clock import at


@pytest.fixture
async def transaction_id(desk: OfficialDesk) -> str:
    """Of a half message, its topic t."""
    return await begun(desk)


async def begun(desk: OfficialDesk, **system: Any) -> str:
    topics = desk.broker.store.tables.topics
    await topics.create("t", queue_count=1, attributes={"message.type": "TRANSACTION"})
    request = sent("t", b"half", message_type=pb.TRANSACTION, **system)
    request.messages[0].user_properties["color"] = "blue"
    (entry,) = (await desk.ask("SendMessage", request)).entries
    await desk.broker.talking.settled()
    return str(entry.transaction_id)


def ended(transaction_id: str, resolution: pb.TransactionResolution) -> pb.EndTransactionRequest:
    return pb.EndTransactionRequest(
        topic=name("t"), message_id=MESSAGE_ID, transaction_id=transaction_id, resolution=resolution
    )


async def bodies(desk: OfficialDesk) -> list[bytes]:
    await desk.broker.store.flush()
    await desk.broker.talking.settled()
    return [message.body for message in await desk.received("g", "t")]


async def test_a_half_message_is_seen_once_it_is_committed(
    desk: OfficialDesk, transaction_id: str
) -> None:
    assert not await bodies(desk)
    for _ in range(2):
        assert await desk.code("EndTransaction", ended(transaction_id, pb.COMMIT)) == "OK"
    await desk.broker.store.flush()
    await desk.broker.talking.settled()
    (message,) = await desk.received("g", "t")
    assert (message.body, message.topic.name) == (b"half", "t")
    assert dict(message.user_properties) == {"color": "blue"}
    assert message.system_properties.message_id == MESSAGE_ID
    assert message.system_properties.message_type == pb.TRANSACTION


async def test_the_first_decision_holds(desk: OfficialDesk, transaction_id: str) -> None:
    assert await desk.code("EndTransaction", ended(transaction_id, pb.ROLLBACK)) == "OK"
    answer = await desk.ask("EndTransaction", ended(transaction_id, pb.COMMIT))
    assert pb.Code.Name(answer.status.code) == "INVALID_TRANSACTION_ID"
    assert "rolled back" in answer.status.message
    assert not await bodies(desk)


async def test_who_does_not_know_leaves_it_open(desk: OfficialDesk, transaction_id: str) -> None:
    unsaid = ended(transaction_id, pb.TRANSACTION_RESOLUTION_UNSPECIFIED)
    assert await desk.code("EndTransaction", unsaid) == "OK"
    assert not await bodies(desk)
    assert await desk.code("EndTransaction", ended(transaction_id, pb.COMMIT)) == "OK"
    assert await bodies(desk) == [b"half"]


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK])
async def test_a_decision_is_answered_once_it_is_durable(
    tmp_path: Path, resolution: pb.TransactionResolution
) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        for topic in (OP_HALF_TOPIC, GIVEN_UP_TOPIC):
            await broker.store.tables.topics.ensure(topic, 1)
        desk = OfficialDesk(broker)
        request = ended(await begun(desk), resolution)
        with broker.talking.quick_disk.held():
            answer = asyncio.ensure_future(desk.code("EndTransaction", request))
            await turns()
            broker.clock.advance(broker.store.settings.sync_flush_timeout_ms + 1)
            broker.store.writing.durability.step(at(broker.clock.monotonic))
            await turns()
            assert not answer.done()
        assert await answer == "OK"


@pytest.mark.parametrize("wrong", ["", "nonsense", "0.0.KEY"])
async def test_what_is_no_transaction_is_told_so(
    desk: OfficialDesk, transaction_id: str, wrong: str
) -> None:
    code = await desk.code("EndTransaction", ended(wrong, pb.COMMIT))
    assert code == "INVALID_TRANSACTION_ID"


class Producer:
    """A producer of topic t that holds a stream."""

    def __init__(self, desk: OfficialDesk) -> None:
        self.said: asyncio.Queue[pb.TelemetryCommand | None] = asyncio.Queue()
        self.stream = desk.methods["Telemetry"].handler(self._commands(), desk.call())

    async def _commands(self) -> AsyncIterator[pb.TelemetryCommand]:
        while (command := await self.said.get()) is not None:
            yield command

    async def settings(self, *topics: str) -> str:
        publishing = pb.Publishing(topics=map(name, topics))
        settings = pb.Settings(client_type=pb.PRODUCER, publishing=publishing)
        self.said.put_nowait(pb.TelemetryCommand(settings=settings))
        return pb.Code.Name((await anext(self.stream)).status.code)

    async def publishes(self, *topics: str) -> None:
        assert await self.settings(*topics) == "OK"

    async def ends(self) -> None:
        self.said.put_nowait(None)
        with pytest.raises(StopAsyncIteration):
            await anext(self.stream)


async def looked_at(desk: OfficialDesk, by_ms: int) -> None:
    """Advances the clock and runs the transaction checks."""
    transactions, clock = desk.broker.transactions, desk.broker.clock
    for passed in (0, by_ms):
        clock.advance(passed)
        for _ in range(20):
            following = transactions.step(Now(clock.monotonic_ms(), clock.wall_ms()))
            if isinstance(following.mark, Job):
                await following.mark.reached()
            await desk.broker.store.flush()
            await desk.broker.talking.settled()


async def test_a_producer_of_the_topic_is_asked(desk: OfficialDesk, transaction_id: str) -> None:
    producer = Producer(desk)
    await producer.publishes("orders")
    await producer.publishes("orders", "t")
    await looked_at(desk, 6_001)
    question = (await anext(producer.stream)).recover_orphaned_transaction_command
    message = question.message
    assert (message.topic.name, message.body) == ("t", b"half")
    assert dict(message.user_properties) == {"color": "blue"}
    assert message.system_properties.message_id == MESSAGE_ID
    assert message.system_properties.body_digest.checksum
    decision = ended(question.transaction_id, pb.COMMIT)
    assert await desk.code("EndTransaction", decision) == "OK"
    assert await bodies(desk) == [b"half"]
    await producer.ends()


async def test_who_is_gone_or_publishes_elsewhere_is_not_asked(
    desk: OfficialDesk, transaction_id: str
) -> None:
    first, second = Producer(desk), Producer(desk)
    await first.publishes("t")
    await first.publishes("orders")
    await second.publishes("t")
    await second.ends()
    producers = desk.broker.transactions.stats[-1]
    assert producers.read() == 1  # type: ignore[union-attr]
    await first.ends()
    assert producers.read() == 0  # type: ignore[union-attr]


async def test_a_producer_may_want_more_time(desk: OfficialDesk) -> None:
    await begun(desk, orphaned_transaction_recovery_duration=Duration(seconds=60))
    (half,) = [m for m in await desk.broker.messages() if m.topic.startswith("RMQ_SYS")]
    assert half.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "60"


async def test_a_blank_id_is_none_whatever_is_said(desk: OfficialDesk) -> None:
    for text in ("", " "):
        for resolution in (0, pb.COMMIT, pb.ROLLBACK):
            code = await desk.code("EndTransaction", ended(text, resolution))  # type: ignore[arg-type]
            assert code == "INVALID_TRANSACTION_ID"


async def test_topics_of_a_producer_and_of_all_are_bounded(
    desk: OfficialDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_stream, "TOPICS_MAX", 3)
    monkeypatch.setattr(client_stream, "ALL_TOPICS_MAX", 5)
    first, second = Producer(desk), Producer(desk)
    assert await first.settings("a", "b", "c", "d") == "BAD_REQUEST"
    assert await first.settings("a", "b", "c", "a") == "OK"
    assert await second.settings("a", "b", "c") == "TOO_MANY_REQUESTS"
    assert await second.settings("a", "b") == "OK"
    producers = desk.broker.transactions.stats[-1]
    assert producers.read() == 5  # type: ignore[union-attr]
    assert await first.settings("d") == "OK"
    assert await second.settings("a", "b", "c") == "OK"
    for producer in (first, second):
        await producer.ends()
    assert producers.read() == 0  # type: ignore[union-attr]
    third = Producer(desk)
    assert await third.settings("a", "b", "c") == "OK"
    await third.ends()


async def test_unread_questions_of_all_clients_are_bounded(
    desk: OfficialDesk, transaction_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_stream, "UNREAD_BYTES_MAX", 1)
    producers = [Producer(desk), Producer(desk)]
    for producer in producers:
        await producer.publishes("t")
    await looked_at(desk, 6_001)
    await desk.ask("SendMessage", sent("t", b"second", message_type=pb.TRANSACTION))
    await looked_at(desk, 6_001)
    asked = desk.broker.transactions.stats[4]
    assert asked.values == {("asked",): 1}  # type: ignore[union-attr]
    for producer in producers:
        await producer.stream.aclose()
    again = Producer(desk)
    await again.publishes("t")
    await looked_at(desk, 1_001)
    question = (await anext(again.stream)).recover_orphaned_transaction_command
    assert question.message.body == b"second"
    assert asked.values == {("asked",): 2}  # type: ignore[union-attr]
    await again.ends()


async def test_a_refused_half_message_leaves_no_topic_behind(desk: OfficialDesk) -> None:
    answer = await desk.ask("SendMessage", sent("fresh", b"half", message_type=pb.TRANSACTION))
    assert answer.status.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    topics = desk.broker.store.tables.topics
    assert topics.find("fresh") is None
    await topics.create("fresh", queue_count=1, attributes={"message.type": "TRANSACTION"})
    answer = await desk.ask("SendMessage", sent("fresh", b"half", message_type=pb.TRANSACTION))
    assert answer.status.code == pb.OK
