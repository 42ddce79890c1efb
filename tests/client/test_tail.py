"""Tail gives messages in the order of the log, from now, a time or the last few on."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client import ClientError, PullPage, PullQuery, TailQuery, TopicState, Unreachable
from pocketmq.client.following import RETRY_S, BrokerWait
from pocketmq.client.tail import Tail
from pocketmq.client.wire import LoopWire
from pocketmq.model.administration import QueueState
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import Bound, PullStatus
from tests.cli.local_broker import stored


class Log:
    """Queues whose messages lie in one log; message n lies at place n and was stored at n."""

    def __init__(self, *queue_ids: int, page_size: int = 2) -> None:
        self.page_size = page_size
        self.queues: list[list[StoredMessage]] = [[], [], []]
        self.parked: list[asyncio.Future[None]] = []
        self.all_parked = asyncio.Event()
        self.error: ClientError | None = None
        self.count = 0
        self.said: list[str] = []
        for queue_id in queue_ids:
            self.add(queue_id)

    def add(self, queue_id: int) -> None:
        """Stores a message, and wake who waits."""
        queue = self.queues[queue_id]
        message = stored(len(queue), b"%d" % self.count, queue_id=queue_id)
        message.physical_offset = message.store_timestamp_ms = self.count
        self.count += 1
        queue.append(message)
        self.wake()

    def wake(self) -> None:
        """Makes parked pulls look again."""
        for parked in self.parked:
            if not parked.done():
                parked.set_result(None)
        self.parked.clear()

    async def describe_topic(self, name: str) -> TopicState:
        """Returns the queues."""
        states = [QueueState(n, 0, len(queue), 0, 0) for n, queue in enumerate(self.queues)]
        return TopicState(name, 3, 3, 6, "NORMAL", False, False, {}, states)

    async def query_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Returns the first message stored then or later."""
        return sum(m.store_timestamp_ms < time_ms for m in self.queues[queue_id])

    async def pull(self, query: PullQuery) -> PullPage:
        """Returns a page; waits for one where asked to."""
        queue = self.queues[query.queue_id]
        while query.wait_ms and len(queue) <= query.queue_offset and self.error is None:
            parked = asyncio.get_running_loop().create_future()
            self.parked.append(parked)
            if len(self.parked) == len(self.queues):
                self.all_parked.set()
            await parked
        if self.error is not None:
            raise self.error
        found = queue[query.queue_offset :][: self.page_size]
        status = PullStatus.FOUND if found else PullStatus.OFFSET_OVERFLOW_ONE
        return PullPage(status, query.queue_offset + len(found), 0, len(queue), found, b"")


class Loop(LoopWire):
    """Pauses take no time."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.pauses: list[float] = []
        self.many = asyncio.Event()
        """It was slept often enough."""

    async def sleep(self, seconds: float) -> None:
        """Gives other tasks a turn of the loop."""
        self.pauses.append(seconds)
        if len(self.pauses) >= 20:
            self.many.set()
        await asyncio.sleep(0)


async def told(
    log: Log, wanted: TailQuery, *, count_max: int | None = None, loop: Loop | None = None
) -> list[int]:
    """Returns the places of what is told."""
    places: list[int] = []
    patience = BrokerWait(log.said.append) if wanted.is_lasting else None
    wire = loop or Loop()
    tail = Tail(wanted, wire, log.pull, log.describe_topic, log.query_by_time, patience)
    async with aclosing(tail.pages()) as pages:
        async for page in pages:
            places.extend(message.physical_offset for message in page)
            if count_max is not None and len(places) >= count_max:
                break
    return places


LEAVING = TailQuery("orders", is_lasting=False)
EVERYTHING = TailQuery("orders", since_ms=0, follow=False)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 4))
async def test_queues_are_merged_in_the_order_of_the_log(ids: list[int], page_size: int) -> None:
    log = Log(*ids, page_size=page_size)
    assert await told(log, EVERYTHING) == list(range(len(ids)))


@given(st.lists(st.integers(0, 2), max_size=20), st.integers(0, 25))
async def test_since_a_time(ids: list[int], since: int) -> None:
    wanted = replace(EVERYTHING, since_ms=since)
    assert await told(Log(*ids), wanted) == list(range(since, len(ids)))


@given(st.lists(st.integers(0, 2), max_size=20), st.integers(0, 25))
async def test_the_last_few(ids: list[int], count: int) -> None:
    wanted = TailQuery("orders", last_count=count, follow=False)
    assert await told(Log(*ids), wanted) == list(range(len(ids)))[max(len(ids) - count, 0) :]


async def test_left_to_itself_it_begins_now() -> None:
    assert await told(Log(0, 1, 2), TailQuery("orders", follow=False)) == []


async def test_topics_of_the_broker_are_read_from_their_beginning_and_sifted() -> None:
    wanted = TailQuery("SCHEDULE_TOPIC_XXXX", since_ms=2, follow=False)
    assert await told(Log(0, 0, 0, 1), wanted) == [2, 3]


async def test_what_comes_is_printed_as_it_comes() -> None:
    log = Log(0, 1)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(told(log, TailQuery("orders"), count_max=3))
        await log.all_parked.wait()
        for queue_id in (2, 0, 1):
            log.add(queue_id)
    assert task.result() == [2, 3, 4]


async def test_it_ends_with_the_last_one_asked_for() -> None:
    assert await told(Log(0, 0, 0), TailQuery("orders", since_ms=0), count_max=2) == [0, 1]
    assert await told(Log(0, 0, 0), TailQuery("orders", last_count=2), count_max=2) == [1, 2]


async def gone_meanwhile(log: Log, wanted: TailQuery, error: ClientError, loop: Loop) -> list[int]:
    """Follows a log whose broker goes away, and comes back with another message."""

    async def go_away() -> None:
        await log.all_parked.wait()
        log.error = error
        log.wake()
        await loop.many.wait()
        log.error = None
        log.add(0)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(told(log, wanted, count_max=1, loop=loop))
        tasks.create_task(go_away())
    return task.result()


async def test_a_broker_that_goes_away_is_waited_for() -> None:
    loop = Loop()
    gone = Unreachable("Unreachable", "gone", retryable=True)
    log = Log(0)
    assert await gone_meanwhile(log, TailQuery("orders"), gone, loop) == [1]
    assert loop.pauses.count(RETRY_S) >= 3
    assert log.said == ["gone; trying again until Ctrl-C", "The broker answers again."]


@pytest.mark.parametrize(
    "wanted", [TailQuery("orders", since_ms=0), TailQuery("orders", last_count=2)]
)
async def test_a_broker_that_goes_away_before_the_tail_follows_is_waited_for(
    wanted: TailQuery,
) -> None:
    gone = Unreachable("Unreachable", "gone", retryable=True)
    log, left = Log(0, 0), [gone, gone, gone]
    pull = log.pull

    async def failing(query: PullQuery) -> PullPage:
        if left:
            raise left.pop()
        return await pull(query)

    log.pull = failing  # type: ignore[method-assign]
    assert await told(log, wanted, count_max=2) == [0, 1]
    assert log.said == ["gone; trying again until Ctrl-C", "The broker answers again."]


async def test_a_broker_that_never_answered_is_not_waited_for() -> None:
    gone = Unreachable("Unreachable", "gone", retryable=True)
    log = Log(0)

    async def describe(name: str) -> TopicState:
        raise gone

    log.describe_topic = describe  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        await told(log, TailQuery("orders"))


async def test_an_error_ends_it_once_where_waiting_is_of_no_use() -> None:
    for wanted, retryable in ((TailQuery("orders"), False), (LEAVING, True)):
        error = ClientError("Gone", "gone", retryable=retryable)
        with pytest.raises(ExceptionGroup) as caught:
            await gone_meanwhile(Log(0), wanted, error, Loop())
        assert caught.value.exceptions == (error,)


async def test_a_topic_without_queues_has_an_end() -> None:
    log = Log()
    log.queues.clear()
    assert await told(log, TailQuery("orders")) == []
