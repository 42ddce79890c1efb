"""Pulling and parking."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.tag import EVERYTHING, parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.record import decode_record
from pocketmq.model.delivered import OTHER_GROUP, SERIES_MAX
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.services.pull import (
    LOOKED_AT_BYTES_MAX,
    LOOKED_AT_MAX,
    Pull,
    PullRequest,
)
from pocketmq.store.read.append_notifier import GIVEN_UP_MAX
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.pulling import SCAN_COUNT_MIN
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import store_at, turns

LONG_MS = 60_000


def request(
    queue_offset: int = 0, *, wait_ms: int = 0, tags: str = "", group: str = ""
) -> PullRequest:
    wanted = parse(tags, tags_code) if tags else EVERYTHING
    return PullRequest(ReadRange("orders", 0, queue_offset, 32, 1 << 20), wanted, wait_ms, group)


def bodies(result: PullResult) -> list[bytes]:
    return [decode_record(record).body for record in result.records]


class Desk:
    """A store, its pull service, and pulls that wait in tasks."""

    def __init__(self, broker: StoreBroker) -> None:
        self.broker = broker
        self.pull = broker.pull

    async def ask(self, asked: PullRequest, *, joined: bool = False) -> PullResult:
        result = await value_of(self.pull.pull(asked, joined=joined))
        if self.pull.should_wait(asked, result):
            return await self.pull.wait(asked, result, joined=joined)
        return result

    async def parked(self, asked: PullRequest) -> asyncio.Task[PullResult]:
        task = asyncio.create_task(self.ask(asked))
        await turns()
        assert not task.done()
        assert self.pull.waiter_count == 1
        return task


@pytest.fixture
def desk(broker: StoreBroker) -> Desk:
    return Desk(broker)


async def test_messages_that_are_there_are_returned_at_once(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b")
    result = await desk.ask(request(wait_ms=LONG_MS))
    assert (result.status, result.next_begin_offset) == (PullStatus.FOUND, 2)
    assert bodies(result) == [b"a", b"b"]


async def test_joined_records_come_as_one_piece(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b")
    result = await desk.ask(request(), joined=True)
    assert (len(result.records), result.record_count) == (1, 2)


async def test_a_pull_at_the_end_is_woken_by_the_next_message(desk: Desk) -> None:
    await desk.broker.add("orders", b"a")
    task = await desk.parked(request(1, wait_ms=LONG_MS))
    await desk.broker.add("orders", b"b")
    assert bodies(await task) == [b"b"]
    assert desk.pull.waiter_count == 0


async def test_a_pull_of_an_empty_queue_waits_too(desk: Desk) -> None:
    task = await desk.parked(request(wait_ms=LONG_MS))
    await desk.broker.add("orders", b"a", queue_id=1)
    await turns()
    assert not task.done(), "another queue's message is no reason to wake"
    await desk.broker.add("orders", b"b")
    assert bodies(await task) == [b"b"]


async def test_running_out_of_time_is_an_empty_answer(desk: Desk) -> None:
    await desk.broker.add("orders", b"a")
    result = await desk.ask(request(1, wait_ms=1))
    assert result.status is PullStatus.OFFSET_OVERFLOW_ONE
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (1, 0, 1)
    assert desk.pull.waiter_count == 0


@pytest.mark.parametrize(
    ("queue_offset", "status", "following"),
    [(0, PullStatus.OFFSET_TOO_SMALL, 1), (3, PullStatus.OFFSET_OVERFLOW_BADLY, 2)],
)
async def test_offsets_outside_the_queue_are_answered_at_once(
    desk: Desk, queue_offset: int, status: PullStatus, following: int
) -> None:
    await desk.broker.add("orders", b"a")
    await desk.broker.expire()
    await desk.broker.add("orders", b"b")
    result = await desk.ask(request(queue_offset, wait_ms=LONG_MS))
    assert (result.status, result.next_begin_offset) == (status, following)
    assert (result.min_offset, result.max_offset) == (1, 2)


async def test_without_a_wait_nothing_parks(desk: Desk) -> None:
    result = await desk.ask(request())
    assert result.status is PullStatus.NO_NEW_MESSAGE


async def test_a_cancelled_pull_leaves_nothing_behind(desk: Desk) -> None:
    task = await desk.parked(request(wait_ms=LONG_MS))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.pull.waiter_count == 0
    await desk.broker.add("orders", b"a")  # finds a waiter that is gone


async def test_a_silent_queue_forgets_those_who_gave_up(desk: Desk) -> None:
    for _ in range(3 * GIVEN_UP_MAX):
        task = await desk.parked(request(wait_ms=LONG_MS))
        task.cancel()
        await asyncio.wait([task])
    assert desk.broker.store.reading.arrivals("orders", 0).waiter_count <= GIVEN_UP_MAX


async def test_a_drain_answers_parked_pulls_and_parks_none(desk: Desk) -> None:
    task = await desk.parked(request(wait_ms=LONG_MS))
    desk.pull.drain()
    assert (await task).records == []
    late = await desk.ask(request(wait_ms=LONG_MS))
    assert late.records == []
    assert desk.pull.waiter_count == 0


async def test_a_store_that_sends_waiters_away_ends_the_wait(desk: Desk) -> None:
    task = await desk.parked(request(wait_ms=LONG_MS))
    desk.broker.store.reading.arrivals("orders", 0).release()
    assert (await task).records == []


async def test_a_mark_ahead_of_the_queue_does_not_hold_the_loop(desk: Desk) -> None:
    desk.broker.store.reading.arrivals("orders", 0).advance(5)
    task = asyncio.create_task(desk.ask(request(wait_ms=LONG_MS)))
    await turns()
    await desk.broker.add("orders", b"a")
    assert bodies(await task) == [b"a"]


async def test_tags_choose(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", TAGS="A")
    await desk.broker.add("orders", b"b", TAGS="B")
    await desk.broker.add("orders", b"none")
    result = await desk.ask(request(tags="A || C"))
    assert bodies(result) == [b"a"]
    assert result.next_begin_offset == 3


async def test_a_hash_that_lies_is_found_out(desk: Desk) -> None:
    await desk.broker.add("orders", b"aa", TAGS="Aa")
    await desk.broker.add("orders", b"bb", TAGS="BB")
    result = await desk.ask(request(tags="Aa"))
    assert (bodies(result), result.record_count) == ([b"aa"], 1)
    other = await desk.ask(request(1, tags="Aa"))
    assert (other.status, other.next_begin_offset) == (PullStatus.NO_MATCHED_MESSAGE, 2)


async def test_one_scan_without_a_match_says_where_to_go_on(desk: Desk) -> None:
    await desk.broker.add("orders", *[b"x"] * (SCAN_COUNT_MIN + 10), TAGS="B")
    result = await desk.ask(request(tags="A"))
    assert (result.status, result.next_begin_offset) == (
        PullStatus.NO_MATCHED_MESSAGE, SCAN_COUNT_MIN,
    )  # fmt: skip


def by_sql(expression: str, queue_offset: int = 0, **rest: int) -> PullRequest:
    wanted = parse_filter(expression, is_sql=True)
    asked = {"max_messages": 32, "max_bytes": 1 << 20, **rest}
    return PullRequest(ReadRange("orders", 0, queue_offset, **asked), wanted, 0)


async def test_a_sql_filter_looks_at_more_than_was_asked_for_and_returns_no_more(
    desk: Desk,
) -> None:
    count = LOOKED_AT_MAX + 40
    for number in range(count):
        await desk.broker.add("orders", b"%d" % number, n=str(number % 10))
    seen, queue_offset = [], 0
    while queue_offset < count:
        result = await desk.ask(by_sql("n = 3", queue_offset, max_messages=4))
        assert queue_offset < result.next_begin_offset <= queue_offset + LOOKED_AT_MAX
        assert len(result.records) == result.record_count <= 4
        seen += bodies(result)
        queue_offset = result.next_begin_offset
    assert seen == [b"%d" % number for number in range(3, count, 10)]


async def test_a_sql_filter_keeps_to_the_bytes_asked_for(desk: Desk) -> None:
    await desk.broker.add("orders", *[bytes(100)] * 4, n="1")
    size = len(desk.broker.records()[0])
    result = await desk.ask(by_sql("n = 1", max_bytes=2 * size))
    assert (result.record_count, result.next_begin_offset) == (2, 2)
    lone = await desk.ask(by_sql("n = 1", 1, max_bytes=1))
    assert (lone.record_count, lone.next_begin_offset) == (1, 2)


async def test_a_sql_filter_reads_no_more_than_there_is_memory_for(desk: Desk) -> None:
    await desk.broker.add("orders", *[bytes(100)] * 8, n="1")
    size, wanted = len(desk.broker.records()[0]), []

    def room(asked: int) -> int:
        wanted.append(asked)
        return 3 * size

    asked = by_sql("n = 2", max_bytes=2 * size)._replace(room=room)
    result = await desk.ask(asked)
    assert (result.record_count, result.next_begin_offset) == (0, 3)
    found = await desk.ask(asked._replace(wanted=parse_filter("n = 1", is_sql=True)))
    assert (found.record_count, found.next_begin_offset) == (2, 2)
    assert wanted == [LOOKED_AT_BYTES_MAX, 0, LOOKED_AT_BYTES_MAX, 2 * size]


async def test_a_costly_sql_filter_answers_after_its_turn_with_where_to_go_on(desk: Desk) -> None:
    costly = " OR ".join(["a LIKE '%_x_%_'"] * 90)
    for _ in range(20):
        await desk.broker.add("orders", b"m", a="y" * 15_000)
    await desk.broker.add("orders", b"wanted", a="-x--")
    place, pages = 0, 0
    found: list[bytes] = []
    while place < 21:
        result = await desk.ask(by_sql(costly, place))
        assert result.next_begin_offset == min(place + 1, 21) or result.records
        place, pages, found = result.next_begin_offset, pages + 1, found + bodies(result)
    assert (pages, found) == (21, [b"wanted"])


async def test_a_pull_with_a_costly_filter_gives_others_their_turn(desk: Desk) -> None:
    costly = " OR ".join(["a LIKE '%_x_%_'"] * 90)
    for _ in range(9):
        await desk.broker.add("orders", b"m", a="y" * 15_000)
    await desk.broker.add("orders", b"wanted", a="-x--")
    waiting = asyncio.ensure_future(desk.ask(by_sql(costly)._replace(wait_ms=LONG_MS)))
    turn_count = 0
    while not waiting.done():
        await asyncio.sleep(0)
        turn_count += 1
    assert bodies(waiting.result()) == [b"wanted"]
    assert turn_count >= 9


async def test_sql_that_fits_nothing_says_where_to_go_on(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b", n="x")
    result = await desk.ask(by_sql("n > 1"))
    assert (result.status, result.next_begin_offset) == (PullStatus.NO_MATCHED_MESSAGE, 2)


async def test_a_waiting_scan_goes_on_to_the_match(desk: Desk) -> None:
    await desk.broker.add("orders", *[b"x"] * SCAN_COUNT_MIN, TAGS="B")
    await desk.broker.add("orders", b"a", TAGS="A")
    result = await desk.ask(request(tags="A", wait_ms=LONG_MS))
    assert (bodies(result), result.next_begin_offset) == ([b"a"], SCAN_COUNT_MIN + 1)


async def test_what_does_not_match_parks_the_pull_again(desk: Desk) -> None:
    task = await desk.parked(request(tags="A", wait_ms=LONG_MS))
    await desk.broker.add("orders", b"x", TAGS="B")
    await turns()
    assert not task.done()
    await desk.broker.add("orders", b"a", TAGS="A")
    assert bodies(await task) == [b"a"]


async def test_a_wait_without_a_match_ends_where_it_has_looked(desk: Desk) -> None:
    count = SCAN_COUNT_MIN + 10
    await desk.broker.add("orders", *[b"x"] * count, TAGS="B")
    result = await desk.ask(request(tags="A", wait_ms=50))
    assert (result.status, result.next_begin_offset) == (PullStatus.NO_MATCHED_MESSAGE, count)


async def test_messages_and_bytes_out_are_counted(desk: Desk) -> None:
    await desk.broker.add("orders", b"a", b"b", TAGS="A")
    desk.pull.pull(request(group="g"))
    desk.pull.pull(request(group="g"), joined=True)
    desk.pull.pull(request(group="CID_RMQ_SYS_x"))
    assert desk.pull.delivered.messages_out.values == {
        ("orders", "g", "false", ""): 4,
        ("orders", "CID_RMQ_SYS_x", "true", ""): 2,
    }
    size = sum(map(len, desk.broker.records()))
    assert desk.pull.delivered.bytes_out.values["orders", "g", "false", ""] == 2 * size


async def test_group_names_from_clients_do_not_become_endless_series(desk: Desk) -> None:
    await desk.broker.add("orders", b"a")
    for number in range(SERIES_MAX + 5):
        desk.pull.pull(request(group=f"g{number}"))
    desk.pull.pull(request(group=OTHER_GROUP))  # A client may choose this name, too.
    values = desk.pull.delivered.messages_out.values
    assert len(values) == SERIES_MAX + 1
    assert values["orders", OTHER_GROUP, "false", ""] == 6


@pytest.mark.parametrize("tags", [("BB", "Aa"), ("Aa", "BB")])
async def test_tags_of_one_hash_are_told_apart_in_joined_records(
    tmp_path: Path, tags: tuple[str, str]
) -> None:
    assert tags_code("Aa") == tags_code("BB")
    async with store_at(tmp_path / "s") as store:
        for tag in tags:
            await store.send("orders", tag, tag=tag)
        await store.settled()
        wanted = PullRequest(ReadRange("orders", 0, 0, 9, 1 << 20), parse("Aa", tags_code), 0)
        found = await value_of(Pull(store.store).pull(wanted, joined=True))
    assert [decode_record(record).body for record in found.records] == [b"Aa"]
