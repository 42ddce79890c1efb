"""A message that waits for its time is recalled by what its send answered."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.recall_handle import RecallHandle, decode_recall_handle, encode_recall_handle
from pocketmq.model import errors
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import TYPE_ATTRIBUTE
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.services.admin.delayed import Delayed
from pocketmq.services.delay.enqueue import TimerEnqueue
from pocketmq.services.produce.drafts import DeliveryRequest
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from tests.kit.drafts import draft, drafts_of
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import BORN_HOST, STORE_HOST, turns, until
from tests.kit.timing import TimingDesk, timing
from tests.sim.clock import START_MS, at
from tests.sim.disk import SimDisk

HOUR_MS = 3_600_000


async def sent(broker: StoreBroker, **fields: Any) -> pb.SendResult:
    """Sends a message; returns what is answered."""
    message = pb.Message(topic="orders", body=b"x", message_id="ID1", queue_id=1, **fields)
    answer = await broker.answer("SendMessage", pb.SendMessageRequest(messages=[message]))
    result: pb.SendResult = answer.results[0]
    return result


async def recalled(broker: StoreBroker, handle: str, topic: str = "orders") -> str:
    """Recalls a message; returns its id."""
    request = pb.RecallRequest(topic=topic, recall_handle=handle)
    return str((await broker.answer("Recall", request)).message_id)


async def test_only_what_waits_for_a_time_has_a_handle(broker: StoreBroker) -> None:
    handle = (await sent(broker, deliver_at_ms=START_MS + 5_500)).recall_handle
    assert decode_recall_handle(handle) == ("orders", "broker-a", START_MS + 5_001, "ID1")
    handle = (await sent(broker, delay_ms=5_000)).recall_handle
    assert decode_recall_handle(handle) == ("orders", "broker-a", START_MS + 4_001, "ID1")
    for wish in ({"deliver_at_ms": START_MS}, {"delay_level": 1}, {"transactional": True}, {}):
        assert (await sent(broker, **wish)).recall_handle == ""


async def test_a_recall_is_the_marker_of_a_real_broker(broker: StoreBroker) -> None:
    handle = (await sent(broker, deliver_at_ms=START_MS + 5_500)).recall_handle
    assert await recalled(broker, handle) == "ID1"
    waits, marker = await broker.messages()
    assert (marker.topic, marker.queue_id, marker.body) == (TIMER_TOPIC, 0, b"0")
    assert marker.properties == {
        "TIMER_DEL_UNIQKEY": "ID1",
        "UNIQ_KEY": "ID1",
        "TIMER_DELIVER_MS": str(START_MS + 5_001),
        "BORN_TIMESTAMP": str(START_MS),
        "PGROUP": "orders",
        "TAGS": "_RECALL_TAG_",
        "TIMER_OUT_MS": waits.properties["TIMER_OUT_MS"],
        "REAL_TOPIC": "orders",
        "REAL_QID": "0",
    }


async def test_a_message_may_be_recalled_twice(broker: StoreBroker) -> None:
    handle = (await sent(broker, delay_ms=5_000)).recall_handle
    assert [await recalled(broker, handle) for _ in range(2)] == ["ID1", "ID1"]


async def test_what_was_delivered_cannot_be_recalled(broker: StoreBroker) -> None:
    handle = (await sent(broker, delay_ms=5_000)).recall_handle
    broker.clock.advance(4_001)
    with pytest.raises(errors.NotWaiting):
        await recalled(broker, handle)


@pytest.mark.parametrize(
    "handle",
    [
        "", "garbage",
        encode_recall_handle(RecallHandle("other", "broker-a", START_MS + 1_001, "ID1")),
        encode_recall_handle(RecallHandle("orders", "broker-b", START_MS + 1_001, "ID1")),
        encode_recall_handle(RecallHandle("orders", "broker-a", START_MS + 25 * HOUR_MS, "ID1")),
    ],
)  # fmt: skip
async def test_what_this_broker_did_not_answer_is_no_handle(
    broker: StoreBroker, handle: str
) -> None:
    with pytest.raises(errors.IllegalRecallHandle):
        await recalled(broker, handle)
    assert await broker.messages() == []


async def test_a_topic_has_to_be_one_of_later_messages(broker: StoreBroker) -> None:
    handle = (await sent(broker, delay_ms=5_000)).recall_handle
    with pytest.raises(errors.TopicNotFound):
        await recalled(broker, handle, "fresh")
    with pytest.raises(errors.TopicNotFound):
        await recalled(broker, handle, TIMER_TOPIC)
    await broker.store.tables.topics.create(
        "plain", queue_count=1, attributes={TYPE_ATTRIBUTE: "NORMAL"}
    )
    with pytest.raises(errors.KindConflict):
        await recalled(broker, handle, "plain")


async def later(desk: TimingDesk, name: str, delay_ms: int) -> str:
    """Sends a message for later as a client does; returns its recall handle."""
    drafts = drafts_of(
        draft(body=name.encode(), queue_id=0, delivery=DeliveryRequest(delay_ms=delay_ms))
    )
    handle = str((await sending(desk).send(drafts, BORN_HOST)).handles[0])
    await desk.settled()
    return handle


def sending(desk: TimingDesk) -> Send:
    """Returns a send pipeline over the store as it is open now."""
    return Send(
        desk.store,
        SendRules(STORE_HOST, "DefaultCluster"),
        desk.clock,
        key_maker=UniqueKeyMaker(
            address=b"\n\0\0\1", process_id=1, random_bytes=desk.store.appended.to_bytes(4)
        ),
        random=Random(1),
    )


@pytest.mark.parametrize("ends", ["stays", "restarted", "killed"])
async def test_what_is_recalled_is_never_delivered(ends: str) -> None:
    async with timing() as desk:
        handles = [await later(desk, name, 9_000) for name in ("a", "b", "c", "d")]
        await sending(desk).recall.recall("orders", handles[0], BORN_HOST)
        await desk.pass_time(3_000)
        if ends != "stays":
            await (desk.restarted() if ends == "restarted" else desk.killed())
        await sending(desk).recall.recall("orders", handles[2], BORN_HOST)
        await desk.settled()
        await desk.pass_time(START_MS + 8_900 - desk.clock.wall)
        assert desk.bodies() == []
        await desk.pass_time(100)
        assert desk.bodies() == ["b", "d"]
        await desk.pass_time(60_000)
        assert desk.bodies() == ["b", "d"]


@pytest.mark.parametrize("others", [True, False])
async def test_a_recall_counts_that_no_queue_holds_yet_as_the_time_comes(others: bool) -> None:
    """The clock moves in the very turn of the loop in which the recall was stored."""
    async with timing() as desk:
        handles = [await later(desk, name, 9_000) for name in ("a", "b")]
        if others:
            await desk.run()  # Both wait in their slot; without, they are not read either.
        appended = desk.store.appended
        recalling = asyncio.ensure_future(
            sending(desk).recall.recall("orders", handles[0], BORN_HOST)
        )
        await until(lambda: desk.store.appended > appended)
        assert desk.store.dispatched < desk.store.appended
        desk.clock.advance(20_000)
        desk.timer.step(Now(desk.clock.monotonic, desk.clock.wall))
        await recalling
        await desk.run()
        assert desk.bodies() == ["b"]


async def test_a_recall_takes_back_no_message_of_another_topic() -> None:
    """Handles are not signed: who may send to one topic can write one of any message's key."""
    async with timing() as desk:
        await desk.store.tables.topics.create("mine", queue_count=1)
        for name, plus in (("a", ""), ("b", "orders+")):
            handle = decode_recall_handle(await later(desk, name, 9_000))
            forged = handle._replace(topic="mine", unique_key=plus + handle.unique_key)
            await sending(desk).recall.recall("mine", encode_recall_handle(forged), BORN_HOST)
        await desk.settled()
        rows = (await Delayed(desk.store).page("orders")).items
        assert len(rows) == 2
        await desk.pass_time(12_000)
        assert desk.bodies() == ["a", "b"]


async def test_it_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await broker.store.tables.topics.create(
            "orders", queue_count=2, attributes={TYPE_ATTRIBUTE: "MIXED"}
        )
        handle = (await sent(broker, delay_ms=5_000)).recall_handle
        appended = broker.store.appended
        with broker.talking.quick_disk.held():
            recalling = asyncio.ensure_future(recalled(broker, handle))
            await until(lambda: broker.store.appended > appended)
            await turns()
            broker.clock.advance(broker.store.settings.sync_flush_timeout_ms + 1)
            broker.store.writing.durability.step(at(broker.clock.monotonic))
            await turns()
            assert not recalling.done()
        assert await recalling == "ID1"


async def recalled_once_rolled(desk: TimingDesk) -> None:
    """Sends a and b, and recalls a after the wheel rolled both."""
    handle = await later(desk, "a", 1_200_000)
    await later(desk, "b", 1_200_000)
    await desk.run()
    await desk.pass_time(300_000, step_ms=10_000)
    await sending(desk).recall.recall("orders", handle, BORN_HOST)
    await desk.settled()


@pytest.mark.parametrize("stop_s", [600, 2_000, 5_000, 40_000])
async def test_a_long_stop_delivers_no_recalled_message_that_was_rolled(stop_s: int) -> None:
    """The wheel has 4,096 slots: the message is rolled, its recall marker is not."""
    async with timing() as desk:
        await recalled_once_rolled(desk)
        await desk.run()
        await desk.close()
        desk.clock.advance(stop_s * 1_000)
        await desk.open()
        await desk.pass_time(1_000_000, step_ms=20_000)
        assert desk.bodies() == ["b"]
        assert desk.timer.waiting_count == 0


async def test_a_kill_after_a_long_stop_delivers_no_recalled_message_that_was_rolled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The marker's slot is delivered, and that is saved, before the message is read again."""

    async def refused(*_: object) -> None:
        raise errors.DiskSlow(tries=1)

    async with timing() as desk:
        await recalled_once_rolled(desk)
        await desk.restarted()
        await desk.close()
        desk.clock.advance(40_000_000)
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(TimerEnqueue, "read_some", refused)
                await desk.open(runs=False)
                for _ in range(2_000):
                    if desk.store.timer.progress.read_ms > START_MS + 1_200_000:
                        break
                    await desk.part(1)
                    desk.clock.advance(100)
                assert desk.timer.lag > 0
                assert isinstance(desk.disk, SimDisk)
                image = desk.disk.image.copy()
                await desk.close()
            desk.disk = SimDisk(image)
        await desk.open()
        await desk.pass_time(1_000_000, step_ms=20_000)
        assert desk.bodies() == ["b"]
        assert desk.timer.waiting_count == 0
