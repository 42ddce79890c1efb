"""Tail prints in the order of the log, from now, a time or the last few on."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli import following
from broker.cli.tail import Wanted, print_tail
from broker.client.values import ClientError, PullPage, PullQuery, TopicState, Unreachable
from broker.model.administration import QueueState
from broker.model.message import StoredMessage
from broker.model.reading import Bound, PullStatus
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker, stored


class Log:
    """Queues whose messages lie in one log; message n lies at place n and was stored at n."""

    def __init__(self, *queue_ids: int, page_size: int = 2) -> None:
        self.admin = self
        self.page_size = page_size
        self.queues: list[list[StoredMessage]] = [[], [], []]
        self.parked: list[asyncio.Future[None]] = []
        self.all_parked = asyncio.Event()
        self.has_failed = asyncio.Event()
        self.error: ClientError | None = None
        self.count = 0
        for queue_id in queue_ids:
            self.add(queue_id)

    def add(self, queue_id: int) -> None:
        """Store a message, and wake who waits."""
        queue = self.queues[queue_id]
        message = stored(len(queue), b"%d" % self.count, queue_id=queue_id)
        message.physical_offset = message.store_timestamp_ms = self.count
        self.count += 1
        queue.append(message)
        self.wake()

    def wake(self) -> None:
        """Let parked pulls look again."""
        for parked in self.parked:
            if not parked.done():
                parked.set_result(None)
        self.parked.clear()

    async def describe_topic(self, name: str) -> TopicState:
        """Return the queues."""
        states = [QueueState(n, 0, len(queue), 0, 0) for n, queue in enumerate(self.queues)]
        return TopicState(name, 3, 3, 6, "NORMAL", False, False, {}, states)

    async def query_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> int:
        """Return the first message stored then or later."""
        return sum(m.store_timestamp_ms < time_ms for m in self.queues[queue_id])

    async def pull(self, query: PullQuery) -> PullPage:
        """Return a page; wait for one where asked to."""
        queue = self.queues[query.queue_id]
        while query.wait_ms and len(queue) <= query.queue_offset and self.error is None:
            parked = asyncio.get_running_loop().create_future()
            self.parked.append(parked)
            if len(self.parked) == len(self.queues):
                self.all_parked.set()
            await parked
        if self.error is not None:
            self.has_failed.set()
            raise self.error
        found = queue[query.queue_offset :][: self.page_size]
        status = PullStatus.FOUND if found else PullStatus.OFFSET_OVERFLOW_ONE
        return PullPage(status, query.queue_offset + len(found), 0, len(queue), found, b"")

    admin_pull = pull


async def printed(log: Log, wanted: Wanted, *, count_max: int | None = None) -> list[int]:
    """Return the places of what is printed."""
    places: list[int] = []

    def show(messages: list[StoredMessage]) -> bool:
        places.extend(message.physical_offset for message in messages)
        return count_max is None or len(places) < count_max

    await print_tail(log, log.pull, wanted, show)  # type: ignore[arg-type]
    return places


EVERYTHING = Wanted("orders", since_ms=0, follow=False)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 4))
async def test_queues_are_merged_in_the_order_of_the_log(ids: list[int], page_size: int) -> None:
    log = Log(*ids, page_size=page_size)
    assert await printed(log, EVERYTHING) == list(range(len(ids)))


@given(st.lists(st.integers(0, 2), max_size=20), st.integers(0, 25))
async def test_since_a_time(ids: list[int], since: int) -> None:
    wanted = replace(EVERYTHING, since_ms=since)
    assert await printed(Log(*ids), wanted) == list(range(since, len(ids)))


@given(st.lists(st.integers(0, 2), max_size=20), st.integers(0, 25))
async def test_the_last_few(ids: list[int], count: int) -> None:
    wanted = Wanted("orders", last_count=count, follow=False)
    assert await printed(Log(*ids), wanted) == list(range(len(ids)))[max(len(ids) - count, 0) :]


async def test_left_to_itself_it_begins_now() -> None:
    assert await printed(Log(0, 1, 2), Wanted("orders", follow=False)) == []


async def test_topics_of_the_broker_are_read_from_their_beginning_and_sifted() -> None:
    wanted = Wanted("SCHEDULE_TOPIC_XXXX", since_ms=2, follow=False, is_sifted=True)
    assert await printed(Log(0, 0, 0, 1), wanted) == [2, 3]


async def test_what_comes_is_printed_as_it_comes() -> None:
    log = Log(0, 1)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(printed(log, Wanted("orders"), count_max=3))
        await log.all_parked.wait()
        for queue_id in (2, 0, 1):
            log.add(queue_id)
    assert task.result() == [2, 3, 4]


async def test_it_ends_with_the_last_one_asked_for() -> None:
    assert await printed(Log(0, 0, 0), Wanted("orders", since_ms=0), count_max=2) == [0, 1]
    assert await printed(Log(0, 0, 0), Wanted("orders", last_count=2), count_max=2) == [1, 2]


async def test_a_broker_that_goes_away_is_told_once() -> None:
    log = Log(0)

    async def go_away() -> None:
        await log.all_parked.wait()
        log.error = ClientError("Gone", "gone")
        log.wake()

    following, _ = await asyncio.gather(
        printed(log, Wanted("orders")), go_away(), return_exceptions=True
    )
    assert isinstance(following, ClientError)


async def test_a_broker_that_comes_back_is_read_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(following, "RETRY_S", 0.0)
    log = Log(0, page_size=1)

    async def restart() -> None:
        await log.all_parked.wait()
        log.error = Unreachable("Unreachable", "nobody answers", retryable=True)
        log.wake()
        await log.has_failed.wait()
        assert capsys.readouterr().err == "nobody answers; trying again until Ctrl-C\n"
        log.error = None
        for queue_id in (1, 0, 1):
            log.add(queue_id)

    places, _ = await asyncio.gather(printed(log, Wanted("orders"), count_max=3), restart())
    assert sorted(places) == [1, 2, 3]
    assert places.index(1) < places.index(3)
    assert capsys.readouterr().err == "The broker answers again.\n"


# -- the command -----------------------------------------------------------------------------------


def test_the_command_prints_and_commits_nothing(broker: LocalBroker) -> None:
    broker.fill(3)
    done = run("tail", "orders", "-n", "2", "--no-follow", "-o", "jsonl")
    assert [row["body_text"] for row in done.rows] == ["1", "2"]
    pulls = broker.requests("PullMessage")
    assert all(not pull.group and not pull.HasField("commit_offset") for pull in pulls)


def test_since_and_max(broker: LocalBroker) -> None:
    broker.fill(3)
    done = run("tail", "orders", "--since", "0", "--max", "2", "-o", "jsonl")
    assert [row["body_text"] for row in done.rows] == ["0", "1"]


def test_times_are_not_looked_up_in_topics_of_the_broker(broker: LocalBroker) -> None:
    broker.fill(1, topic="SCHEDULE_TOPIC_XXXX")
    done = run("tail", "SCHEDULE_TOPIC_XXXX", "--since", "0", "--no-follow", "-o", "jsonl")
    assert (len(done.rows), broker.requests("QueryByTime")) == (1, [])


def test_a_filter_goes_to_the_broker(broker: LocalBroker) -> None:
    run("tail", "orders", "--no-follow", "--tag-filter", "a||b")
    assert {pull.filter.expression for pull in broker.requests("PullMessage")} == {"a||b"}
