"""Receiving under leases and settling, over a real store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.filter.tag import parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.properties import PROPERTIES_SIZE_MAX, encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Destination, Run
from pocketmq.model.consuming import SettleStatus
from pocketmq.model.errors import (
    BrokerReadOnly,
    GroupDisabled,
    GroupNotFound,
    PropertiesTooLarge,
    TopicNotFound,
)
from pocketmq.model.message import REAL_TOPIC
from pocketmq.model.stats import Gauge
from pocketmq.model.step import Now
from pocketmq.model.system_topics import lease_retry_topic
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.services.delay.levels import Schedule
from tests.kit.consuming import (
    GROUP,
    INVISIBLE_MS,
    TOPIC,
    ConsumeDesk,
    bodies,
    consuming,
    messages,
    statuses,
)
from tests.kit.rows import Row, batch
from tests.kit.store_broker import store_broker
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST, turns, until

OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE
RETRY = f"%RETRY%{GROUP}_{TOPIC}"


async def test_what_is_leased_is_not_received_again(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    got = await desk.receive()
    assert bodies(got) == ["a", "b"]
    assert got.attempts == [1, 1]
    assert got.invisible_until_ms == got.popped_at_ms + INVISIBLE_MS
    assert (await desk.receive()).records == []
    assert desk.in_flight == 2


async def test_an_acknowledged_message_never_comes_back(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    assert await desk.ack(await desk.receive()) == [OK, OK]
    await desk.step(10 * INVISIBLE_MS)
    assert (await desk.receive()).records == []
    assert desk.in_flight == 0


async def test_a_message_comes_again_when_its_lease_is_over(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    first = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, first.handles[:1])
    await desk.step(INVISIBLE_MS - 1)
    assert (await desk.receive()).records == []
    await desk.step(1)
    again = await desk.receive()
    assert (bodies(again), again.attempts) == (["b"], [2])
    (message,) = messages(again)
    assert message.topic == RETRY
    assert message.properties["1ST_POP_TIME"] == str(first.popped_at_ms)
    assert statuses(await desk.consume.ack(GROUP, TOPIC, first.handles)) == [INVALID, INVALID]
    assert await desk.ack(again) == [OK]
    await desk.step(10 * INVISIBLE_MS)
    assert (await desk.receive()).records == []


async def test_a_late_ack_counts_while_nobody_else_has_the_message(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive()
    desk.clock.advance(INVISIBLE_MS + 5_000)
    assert await desk.ack(got) == [OK]
    await desk.step(INVISIBLE_MS)
    assert (await desk.receive()).records == []


async def test_the_second_ack_of_a_message_is_invalid(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive()
    assert statuses(await desk.consume.ack(GROUP, TOPIC, got.handles * 2)) == [OK, INVALID]


@pytest.mark.parametrize("handle", ["", "x", "0 1 2 3 0 b 0 0", "0 1 2 3 9 b 0 0", "1 " * 600])
async def test_what_is_no_handle_is_invalid(desk: ConsumeDesk, handle: str) -> None:
    await desk.send("a")
    await desk.receive()
    assert statuses(await desk.consume.ack(GROUP, TOPIC, [handle])) == [INVALID]
    assert desk.in_flight == 1


async def test_after_too_many_attempts_a_message_is_a_dead_letter(desk: ConsumeDesk) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=2))
    await desk.send("a")
    for attempt in (1, 2):
        assert (await desk.receive()).attempts == [attempt]
        await desk.step(INVISIBLE_MS)
    assert (await desk.receive()).records == []
    assert await desk.talking.pulled(f"%DLQ%{GROUP}") == ["a"]


@pytest.mark.parametrize("ends", ["its lease", "given up", "in order"])
async def test_a_message_full_of_properties_goes_on_without_those_of_its_way(
    desk: ConsumeDesk, ends: str
) -> None:
    fifo = ends == "in order"
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo, max_attempts=1 + 1))
    block = encode_properties({"p": "x" * (PROPERTIES_SIZE_MAX - 3)})
    row = Row(b"full", block, 0, BORN_MS, BORN_HOST)
    await desk.store.writing.put([(Destination(TOPIC, 0, STORE_HOST), batch(row))])
    await desk.send("other", queue_id=1)
    got = await desk.receive()
    assert sorted(bodies(got)) == ["full", "other"]
    if ends == "given up":
        assert statuses(await desk.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles)) == [
            OK, OK,
        ]  # fmt: skip
    else:
        for _ in range(2):
            await desk.step(INVISIBLE_MS)
            await desk.receive()
    await desk.step(INVISIBLE_MS)
    await desk.receive()
    assert sum(desk.store.reading.queue_range(f"%DLQ%{GROUP}", 0)) == 2
    assert desk.in_flight == 0


async def test_a_message_without_room_for_its_delay_is_not_sent_back(desk: ConsumeDesk) -> None:
    block = encode_properties({"p": "x" * (PROPERTIES_SIZE_MAX - 3)})
    row = Row(b"full", block, 0, BORN_MS, BORN_HOST)
    await desk.store.writing.put([(Destination(TOPIC, 0, STORE_HOST), batch(row))])
    await desk.settled()
    got = await desk.receive()
    with pytest.raises(PropertiesTooLarge):
        await desk.consume.send_back(GROUP, TOPIC, [(got.handles[0], 0)])
    assert await desk.ack(got) == [OK]


async def test_all_queues_are_received_in_turn(desk: ConsumeDesk) -> None:
    await desk.send("a0", "b0", "c0")
    await desk.send("a1", "b1", "c1", queue_id=1)
    got = [bodies(await desk.receive(max_messages=1))[0] for _ in range(6)]
    assert [one[0] for one in got] == ["a", "a", "b", "b", "c", "c"]
    assert sorted(got) == ["a0", "a1", "b0", "b1", "c0", "c1"]


async def test_one_receive_takes_from_several_queues(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    await desk.send("c", queue_id=1)
    got = await desk.receive(max_messages=3)
    assert sorted(bodies(got)) == ["a", "b", "c"]
    assert await desk.ack(got) == [OK] * 3


async def test_retries_come_through_while_queues_never_end(desk: ConsumeDesk) -> None:
    await desk.send("late")
    await desk.receive()
    await desk.send(*["new"] * 20)
    await desk.step(INVISIBLE_MS)
    got = [bodies(await desk.receive(max_messages=1)) for _ in range(5)]
    assert ["late"] in got


async def test_other_tags_are_skipped_for_the_group(desk: ConsumeDesk) -> None:
    await desk.send("a", tag="A")
    await desk.send("b", tag="B")
    assert bodies(await desk.receive(wanted=parse("B", tags_code))) == ["b"]
    assert (await desk.receive()).records == []


async def test_no_more_than_the_cap_is_in_flight(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s", in_flight_max=2) as desk:
        await desk.send("a", "b", "c")
        first = await desk.receive()
        assert bodies(first) == ["a", "b"]
        assert (await desk.receive()).records == []
        waiting = await desk.parked()
        await desk.consume.ack(GROUP, TOPIC, first.handles[:1])
        assert bodies(await waiting) == ["c"]


async def test_who_waits_for_room_under_the_cap_gets_it_from_dead_letters_too(
    tmp_path: Path,
) -> None:
    async with consuming(tmp_path / "s", in_flight_max=2) as desk:
        await desk.send("a", "b", "c", "d")
        first = await desk.receive()
        for settle in (
            desk.consume.forward_to_dead_letters(GROUP, TOPIC, first.handles[:1]),
            desk.consume.send_back(GROUP, TOPIC, [(first.handles[1], 1)]),
        ):
            waiting = await desk.parked()
            await settle
            assert len(bodies(await waiting)) == 1


async def test_a_changed_lease_is_settled_by_old_and_new_handles(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    got = await desk.receive()
    changed = await desk.consume.change_invisible(
        GROUP, TOPIC, [(handle, 60_000) for handle in got.handles]
    )
    assert statuses(changed) == [OK, OK]
    assert changed[0].handle != got.handles[0]
    await desk.step(INVISIBLE_MS)
    assert (await desk.receive()).records == []
    mixed = [got.handles[0], changed[1].handle]
    assert statuses(await desk.consume.ack(GROUP, TOPIC, mixed)) == [OK, OK]
    await desk.step(60_000)
    assert (await desk.receive()).records == []


async def test_a_lease_changed_to_nothing_comes_at_once(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive()
    await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 0)])
    await desk.step(1)
    assert (await desk.receive()).attempts == [2]


async def test_a_time_beyond_twelve_hours_is_refused(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive()
    entries = [(got.handles[0], 12 * 3_600_000 + 1), (got.handles[0], -1)]
    settled = await desk.consume.change_invisible(GROUP, TOPIC, entries)
    assert statuses(settled) == [SettleStatus.ILLEGAL_INVISIBLE_TIME] * 2
    assert await desk.ack(got) == [OK]


async def test_a_message_sent_back_waits_for_its_level(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive()
    assert statuses(await desk.consume.send_back(GROUP, TOPIC, [(got.handles[0], 0)])) == [OK]
    assert desk.in_flight == 0
    await desk.settled()
    result = desk.talking.pull("SCHEDULE_TOPIC_XXXX", 0, queue_id=2)
    assert len(result.records) == 1
    assert f"{REAL_TOPIC}\x01%RETRY%{GROUP}\x02".encode() in result.records[0]
    await desk.step(INVISIBLE_MS)
    assert (await desk.receive()).records == []


async def test_a_message_sent_back_comes_again_after_its_level(desk: ConsumeDesk) -> None:
    schedule = Schedule(desk.store, STORE_HOST)
    await desk.send("a")
    got = await desk.receive()
    await desk.consume.send_back(GROUP, TOPIC, [(got.handles[0], 1)])
    waiting = await desk.parked(wait_ms=INVISIBLE_MS)
    await desk.settled()
    while not waiting.done():
        desk.clock.advance(1_000)
        schedule.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))
        await turns()
        await desk.settled()
    again = await waiting
    assert (bodies(again), again.attempts) == (["a"], [2])
    assert await desk.ack(again) == [OK]
    assert desk.in_flight == 0
    await schedule.close()


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_message_sent_back_is_passed_over_by_no_filter_of_another_topic(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    desk.store.tables.topics.adopt("other", 1)
    await desk.send("a", tag="A")
    got = await desk.receive(wanted=parse("A", tags_code))
    await desk.consume.send_back(GROUP, TOPIC, [(got.handles[0], 1)])
    schedule = Schedule(desk.store, STORE_HOST)
    for _ in range(20):
        desk.clock.advance(1_000)
        schedule.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))
        await desk.settled()
    await schedule.close()
    back = await desk.receive(topic="other", wanted=parse("B", tags_code))
    assert bodies(back) == ["a"]


async def test_a_message_is_given_up_when_asked(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    got = await desk.receive()
    settled = await desk.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles[1:])
    assert statuses(settled) == [OK]
    assert await desk.talking.pulled(f"%DLQ%{GROUP}") == ["b"]
    assert statuses(await desk.consume.ack(GROUP, TOPIC, got.handles)) == [OK, INVALID]


async def test_what_its_receiver_never_had_comes_back_soon(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive()
    desk.consume.release(GROUP, TOPIC, got.handles)
    await desk.step(1_000)
    assert bodies(await desk.receive()) == ["a"]


async def test_a_part_of_a_lease_can_come_back_soon(desk: ConsumeDesk) -> None:
    await desk.send("a", "b", "c")
    got = await desk.receive()
    desk.consume.release(GROUP, TOPIC, got.handles[1:])
    await desk.step()
    await desk.step(1_000)
    again = await desk.receive()
    assert (bodies(again), again.attempts) == (["b", "c"], [2, 2])
    assert statuses(await desk.consume.ack(GROUP, TOPIC, got.handles)) == [OK, INVALID, INVALID]


async def test_an_offset_set_back_delivers_again(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    first = await desk.receive()
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0})
    second = await desk.receive()
    assert bodies(second) == ["a", "b"]
    desk.clock.advance(1)
    assert await desk.ack(second) == [OK, OK]
    assert await desk.ack(first) == [INVALID, INVALID]


async def test_a_new_group_begins_where_its_settings_say(desk: ConsumeDesk) -> None:
    await desk.store.tables.groups.create("late", GroupSettings(begins_at_min=False))
    await desk.send("old")
    assert (await desk.receive(group="late")).records == []
    await desk.send("new")
    assert bodies(await desk.receive(group="late")) == ["new"]


async def test_groups_and_topics_must_be_there(desk: ConsumeDesk) -> None:
    with pytest.raises(GroupNotFound):
        await desk.receive(group="nobody")
    with pytest.raises(TopicNotFound):
        await desk.receive(topic="nowhere")
    await desk.store.tables.groups.update(GROUP, GroupSettings(enabled=False))
    with pytest.raises(GroupDisabled):
        await desk.receive()


# -- waiting ---------------------------------------------------------------------------------------


async def test_a_waiting_receive_gets_what_arrives(desk: ConsumeDesk) -> None:
    waiting = await desk.parked()
    await desk.send("a")
    assert bodies(await waiting) == ["a"]
    assert desk.consume.waiter_count == 0


async def test_one_message_wakes_one_receive_the_oldest(desk: ConsumeDesk) -> None:
    first, second = await desk.parked(), await desk.parked()
    await desk.send("a")
    assert bodies(await first) == ["a"]
    assert not second.done()
    await desk.send("b", queue_id=1)
    assert bodies(await second) == ["b"]


async def test_a_receive_that_waited_long_enough_is_answered_empty(desk: ConsumeDesk) -> None:
    waiting = await desk.parked(wait_ms=5_000)
    await desk.step(4_999)
    assert not waiting.done()
    await desk.step(1)
    assert (await waiting).records == []


async def test_nothing_is_leased_for_a_caller_that_is_gone(desk: ConsumeDesk) -> None:
    gone = await desk.parked()
    gone.cancel()
    await turns()
    await desk.send("a")
    assert desk.in_flight == 0
    assert bodies(await desk.receive()) == ["a"]


async def test_a_message_that_comes_back_wakes_who_waits(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive()
    waiting = await desk.parked(wait_ms=10 * INVISIBLE_MS)
    await desk.step(INVISIBLE_MS)
    again = await waiting
    assert (bodies(again), again.attempts) == (["a"], [2])


async def test_a_drain_answers_everyone(desk: ConsumeDesk) -> None:
    waiting = await desk.parked()
    desk.consume.drain()
    assert (await waiting).records == []
    assert (await desk.receive(wait_ms=1_000)).records == []


async def test_a_drain_takes_from_nobody_what_was_leased_already(desk: ConsumeDesk) -> None:
    first, second = await desk.parked(), await desk.parked()
    sending = asyncio.create_task(desk.send("a"))
    await until(lambda: desk.in_flight > 0)
    assert not first.done()
    desk.consume.drain()
    await sending
    assert bodies(await first) == ["a"]
    assert (await second).records == []


# -- made again ------------------------------------------------------------------------------------


async def test_a_receive_made_again_gets_the_same_messages(desk: ConsumeDesk) -> None:
    await desk.send("a", "b", "c")
    asked = {"client_id": "c1", "attempt_id": "x", "max_messages": 2}
    first = await desk.receive(**asked)
    second = await desk.receive(**asked)
    assert second == first
    assert bodies(await desk.receive(**asked | {"client_id": "c2"})) == ["c"]
    await desk.consume.ack(GROUP, TOPIC, first.handles[:1])
    assert bodies(await desk.receive(**asked)) == ["b"]
    await desk.consume.ack(GROUP, TOPIC, first.handles[1:])
    assert (await desk.receive(**asked)).records == []


async def test_a_receive_made_again_gets_nothing_that_is_settled_meanwhile(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.send("a")
    await desk.send("b", queue_id=1)
    got = await desk.receive(client_id="c1", attempt_id="x")

    async def acked_first(*asked: Any) -> dict[int, bytes]:
        await desk.ack(got)
        return await reread(*asked)

    monkeypatch.setattr("pocketmq.services.consume.lease.receive.reread", acked_first)
    again = await desk.receive(client_id="c1", attempt_id="x")
    assert len(again.records) == len(again.handles) == len(again.attempts) == 1


async def test_a_wait_made_again_takes_the_place_of_the_first(desk: ConsumeDesk) -> None:
    first = await desk.parked(client_id="c1", attempt_id="x")
    second = await desk.parked(client_id="c1", attempt_id="x")
    await desk.send("a")
    assert (await first).records == []
    assert bodies(await second) == ["a"]
    again = await desk.receive(client_id="c1", attempt_id="x")
    assert bodies(again) == ["a"]


# -- renewed ---------------------------------------------------------------------------------------


async def test_a_lease_lasts_as_long_as_its_client(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive(client_id="c1", auto_renew=True, invisible_ms=60_000)
    await desk.step(60_000)
    await desk.receive(client_id="c1", topic=TOPIC, max_messages=1)
    await desk.step(60_000)
    assert desk.in_flight == 1
    assert (await desk.receive()).records == []
    await desk.step(60_000)
    await desk.step(60_000)
    assert bodies(await desk.receive()) == ["a"]
    assert await desk.ack(got) == [INVALID]


async def test_nobody_renews_what_its_client_never_had(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive(client_id="c1", auto_renew=True)
    desk.consume.release(GROUP, TOPIC, got.handles)
    await desk.step(1_000)
    assert bodies(await desk.receive(client_id="c1", auto_renew=True)) == ["a"]


async def test_what_was_asked_for_again_is_renewed(desk: ConsumeDesk) -> None:
    await desk.send("a")
    words = {"client_id": "c1", "attempt_id": "x", "auto_renew": True}
    got = await desk.receive(**words)
    desk.consume.release(GROUP, TOPIC, got.handles)
    assert bodies(await desk.receive(**words)) == ["a"]
    await desk.step(INVISIBLE_MS)
    await desk.step(1_000)
    assert desk.in_flight == 1
    assert await desk.ack(got) == [OK]


async def test_a_renewed_lease_is_settled_by_its_handle(desk: ConsumeDesk, tmp_path: Path) -> None:
    await desk.send("a", "b")
    got = await desk.receive(client_id="c1", auto_renew=True, invisible_ms=60_000)
    await desk.step(60_000)
    image = desk.talking.killed(tmp_path / "image")
    assert await desk.ack(got) == [OK, OK]
    async with consuming(image, clock=desk.clock) as later:
        assert later.in_flight == 2
        assert await later.ack(got) == [OK, OK]


async def test_a_time_that_was_asked_for_is_not_renewed(desk: ConsumeDesk) -> None:
    await desk.send("a")
    got = await desk.receive(client_id="c1", auto_renew=True, invisible_ms=60_000)
    await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 5_000)])
    await desk.step(5_001)
    assert (await desk.receive(client_id="c1")).attempts == [2]


async def test_nobody_renews_for_ever(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive(client_id="c1", auto_renew=True, invisible_ms=60_000)
    for _ in range(3 * 60 + 2):
        await desk.step(60_000)
        again = await desk.receive(client_id="c1")
        if again.records:
            break
    assert (bodies(again), again.attempts) == (["a"], [2])


# -- counted ---------------------------------------------------------------------------------------


async def test_what_is_in_flight_is_shown_by_group_and_topic(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    await desk.receive()
    await desk.step(INVISIBLE_MS)
    await desk.receive(max_messages=1)
    await desk.send("c")
    await desk.receive(max_messages=1)
    assert desk.consume.in_flight() == {
        (GROUP, lease_retry_topic(GROUP, TOPIC)): 1,
        (GROUP, TOPIC): 1,
    }


async def test_leases_that_are_over_and_not_revived_are_shown_by_revive_queue(
    desk: ConsumeDesk,
) -> None:
    def shown(name: str) -> float:
        gauge = next(one for one in desk.consume.stats if one.name == name)
        assert isinstance(gauge, Gauge)
        read = gauge.read()
        assert isinstance(read, dict)
        assert {*read} == {(str(number),) for number in range(8)}
        return sum(read.values())

    lag, late_ms = (
        "rocketmq_pop_revive_lag_milliseconds",
        "rocketmq_pop_revive_latency_milliseconds",
    )
    await desk.send("a", "b")
    await desk.receive(max_messages=1)
    await desk.receive(max_messages=1)
    assert (shown(lag), shown(late_ms)) == (0, 0)
    desk.clock.advance(INVISIBLE_MS + 250)
    assert shown(lag) == 2
    assert shown(late_ms) in {250, 500}
    await desk.step(0)
    assert (shown(lag), shown(late_ms)) == (0, 0)


# -- broadcast -------------------------------------------------------------------------------------


async def test_every_client_of_a_broadcast_gets_every_message(desk: ConsumeDesk) -> None:
    await desk.send("a", tag="A")
    await desk.send("b", queue_id=1, tag="B")
    for client in ("c1", "c2"):
        asked = {"broadcast": True, "client_id": client}
        assert sorted(bodies(await desk.receive(**asked))) == ["a", "b"]
        assert (await desk.receive(**asked)).records == []
    assert desk.in_flight == 0
    waiting = await desk.parked(broadcast=True, client_id="c1", wanted=parse("B", tags_code))
    await desk.send("c", tag="A")
    await desk.send("d", tag="B")
    assert bodies(await waiting) == ["d"]
    assert bodies(await desk.receive(broadcast=True, client_id="c2")) == ["c", "d"]


async def test_a_broadcast_begins_where_its_group_stands(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 1})
    assert bodies(await desk.receive(broadcast=True, client_id="c")) == ["b"]
    desk.consume.drain()
    asked = {"broadcast": True, "client_id": "c", "wait_ms": 60_000}
    assert (await desk.receive(**asked)).records == []


# -- what goes wrong -------------------------------------------------------------------------------


async def test_a_refused_put_leaves_leases_as_they_were(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    got = await desk.receive(max_messages=1)
    desk.store.writing.refuse(BrokerReadOnly(why="a test"))
    for call in (
        desk.receive(),
        desk.consume.ack(GROUP, TOPIC, got.handles),
        desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 1)]),
        desk.consume.send_back(GROUP, TOPIC, [(got.handles[0], 1)]),
        desk.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles),
    ):
        with pytest.raises(BrokerReadOnly):
            await call
    await desk.step(INVISIBLE_MS)
    assert desk.in_flight == 1
    desk.store.writing.refuse(None)
    assert await desk.ack(got) == [OK]
    assert bodies(await desk.receive()) == ["b"]


async def test_a_lease_that_cannot_be_ended_is_ended_later(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive()
    desk.store.writing.refuse(BrokerReadOnly(why="a test"))
    await desk.step(INVISIBLE_MS)
    desk.store.writing.refuse(None)
    await desk.step(1_000)
    assert (await desk.receive()).attempts == [2]


async def test_leases_that_no_put_holds_together_end_one_by_one(desk: ConsumeDesk) -> None:
    """Their log files have 1 MiB."""
    for number in range(4):
        await desk.send(f"{number}" * 400_000)
        await desk.receive(max_messages=1)
    await desk.step(INVISIBLE_MS)
    found = [await desk.receive(max_messages=1) for _ in range(4)]
    assert [got.attempts for got in found] == [[2]] * 4


async def test_a_message_that_cannot_be_put_again_keeps_no_other_from_it(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.send("a", "b", "c")
    await desk.receive()
    over = Redelivery.over

    def refused(self: Redelivery, record: bytes, *rest: Any, **named: Any) -> Run:
        if decode_record(record).body == b"b":
            raise PropertiesTooLarge(size_bytes=32_768, limit_bytes=32_767)
        return over(self, record, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Redelivery, "over", refused)
        await desk.step(INVISIBLE_MS)
    assert bodies(await desk.receive()) == ["a", "c"]
    await desk.step(1_000)
    assert bodies(await desk.receive()) == ["b"]


async def test_a_wait_ends_with_what_the_put_met(desk: ConsumeDesk) -> None:
    waiting = await desk.parked()
    await desk.talking.send(TOPIC, "a")
    desk.store.writing.refuse(BrokerReadOnly(why="a test"))
    with pytest.raises(BrokerReadOnly):
        await waiting
    assert desk.in_flight == 0


@pytest.mark.parametrize("is_parked", [False, True])
async def test_who_goes_away_before_the_disk_answers_leaves_the_message(
    desk: ConsumeDesk, *, is_parked: bool
) -> None:
    if is_parked:
        call = await desk.parked()
        await desk.talking.send(TOPIC, "a")
    else:
        await desk.send("a")
        call = asyncio.ensure_future(desk.receive())
    await until(lambda: desk.in_flight == 1)
    assert not call.done()
    call.cancel()
    await desk.settled()
    await desk.step(1_000)
    assert bodies(await desk.receive()) == ["a"]


async def test_messages_of_a_group_that_is_gone_are_let_go(desk: ConsumeDesk) -> None:
    await desk.send("a")
    await desk.receive()
    await desk.store.tables.groups.remove(GROUP)
    await desk.step(INVISIBLE_MS)
    assert desk.in_flight == 0


async def test_messages_that_expired_are_let_go(tmp_path: Path) -> None:
    async with store_broker() as broker:
        await broker.store.tables.groups.ensure(GROUP)
        desk = ConsumeDesk(broker.talking)
        await broker.add(TOPIC, b"a", b"b")
        got = await desk.receive(max_messages=1)
        await broker.expire()
        assert (await desk.receive()).records == []
        await desk.step(INVISIBLE_MS)
        assert desk.in_flight == 0
        assert await desk.ack(got) == [INVALID]
        await broker.add(TOPIC, b"c")
        assert bodies(await desk.receive()) == ["c"]
        await desk.consume.close()


async def test_others_get_their_turn_between_large_messages_that_come_again(
    tmp_path: Path,
) -> None:
    async with consuming(tmp_path / "s", commit_log_file_size_bytes=8 << 20) as desk:
        await desk.send(*("x" * 200_000 for _ in range(6)))
        assert len((await desk.receive()).records) == 6
        stepping = asyncio.ensure_future(desk.step(INVISIBLE_MS))
        seen: list[int] = []
        while not stepping.done():
            end = desk.store.tables.offsets.leases.journal_end
            if end not in seen:
                seen.append(end)
            await asyncio.sleep(0)
        assert len(seen) == 1 + 3, "two messages and their ack in each put"
        assert len((await desk.receive()).records) == 6
