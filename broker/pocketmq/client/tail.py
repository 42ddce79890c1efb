"""Tails a topic: yields its messages without a group, and without state at the broker.

Stored messages are pulled in pages and merged in log order. New messages arrive by long polls
(following.py).
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

from pocketmq.client.following import (
    PAGE_COUNT,
    BrokerWait,
    Following,
    Pull,
    asked_until_answered,
    place_in_log,
)
from pocketmq.client.values import PullQuery, TailQuery, TopicState
from pocketmq.client.wire import Wire
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import Bound
from pocketmq.model.topic import is_system_topic

Given = ParamSpec("Given")
Found = TypeVar("Found")
Describe = Callable[[str], Coroutine[Any, Any, TopicState]]
Find = Callable[[str, int, int, Bound], Coroutine[Any, Any, int]]


@dataclass
class Reader:
    """The next pull of a queue, and the pulled messages that are not yielded yet."""

    query: PullQuery
    pulled: deque[StoredMessage] = field(default_factory=deque)
    is_at_end: bool = False


class Tail:
    """A tail of a topic; if `follow` is set, it ends only when all queues are deleted.

    wire        transport of the calls below
    pull, describe, find   methods `pull`, `describe_topic` and `query_by_time` of a client
    patience    waits for an unreachable broker; None: the error is raised
    """

    def __init__(
        self,
        wanted: TailQuery,
        wire: Wire,
        pull: Pull,
        describe: Describe,
        find: Find,
        patience: BrokerWait | None = None,
    ) -> None:
        assert None in (wanted.since_ms, wanted.last_count), "both since_ms and last_count are set"
        self._wanted = wanted
        self._wire = wire
        self._pull, self._describe, self._find = pull, describe, find
        self._patience = patience

    async def pages(self) -> AsyncGenerator[list[StoredMessage], None]:
        """Yields messages in log order, in lists of messages that arrived together.

        Errors   ClientError
        """
        wanted = self._wanted
        queues = (await self._asked(self._describe, wanted.topic)).readable_queues
        readers = [
            Reader(
                PullQuery(
                    wanted.topic,
                    queue.queue_id,
                    place,
                    expression=wanted.expression,
                    sql=wanted.sql,
                )
            )
            for queue in queues
            for ends in [range(queue.min_offset, queue.max_offset)]
            for place in [await self._begin(queue.queue_id, ends)]
        ]
        kept = deque[StoredMessage](maxlen=wanted.last_count)
        async with aclosing(self._merged(readers)) as pages:
            async for messages in pages:
                if wanted.last_count is not None:
                    kept.extend(messages)
                    continue
                late = [m for m in messages if m.store_timestamp_ms >= (wanted.since_ms or 0)]
                if late:
                    yield late
        if kept:
            yield list(kept)
        if not wanted.follow:
            return
        following = Following(self._wire, self._pull, patience=self._patience)
        async with aclosing(following.pages([reader.query for reader in readers])) as pages:
            async for messages in pages:
                yield messages

    async def _begin(self, queue_id: int, ends: range) -> int:
        wanted = self._wanted
        if wanted.last_count is not None:
            return max(ends.stop - wanted.last_count, ends.start)
        if wanted.since_ms is None:
            return ends.stop
        if is_system_topic(wanted.topic):
            return ends.start  # brokers refuse QueryByTime for system topics
        return await self._asked(self._find, wanted.topic, queue_id, wanted.since_ms, Bound.LOWER)

    async def _asked(
        self,
        ask: Callable[Given, Coroutine[Any, Any, Found]],
        *given: Given.args,
        **options: Given.kwargs,
    ) -> Found:
        """Returns a call's answer; after the first answer of all, waits for the broker."""
        return await asked_until_answered(
            self._wire, self._patience, lambda: ask(*given, **options)
        )

    async def _merged(self, readers: list[Reader]) -> AsyncGenerator[list[StoredMessage], None]:
        """Yields stored messages in log order, until all queues are read to their ends."""
        while True:
            empty = [reader for reader in readers if not (reader.pulled or reader.is_at_end)]
            await self._wire.all_of(self._refill(reader) for reader in empty)
            filled = [reader for reader in readers if reader.pulled]
            if not filled:
                if all(reader.is_at_end for reader in readers):
                    return
                continue
            if any(not (reader.pulled or reader.is_at_end) for reader in readers):
                continue
            # A queue that is not pulled to its end may continue directly after its last pulled
            # message, so messages of other queues after that offset must wait.
            ends = [r.pulled[-1].physical_offset for r in filled if not r.is_at_end]
            bound = min(ends) if ends else None
            messages = [message for reader in filled for message in _taken(reader, bound)]
            yield sorted(messages, key=place_in_log)

    async def _refill(self, reader: Reader) -> None:
        query = replace(reader.query, max_messages=PAGE_COUNT)
        page = await self._asked(self._pull, query)
        before = reader.query.queue_offset
        reader.query = replace(reader.query, queue_offset=page.next_begin_offset)
        reader.pulled.extend(page.messages)
        is_stuck = not page.messages and page.next_begin_offset <= before
        reader.is_at_end = is_stuck or page.next_begin_offset >= page.max_offset


def _taken(reader: Reader, bound: int | None) -> list[StoredMessage]:
    """Removes the messages up to and including a physical offset; None: all messages."""
    taken = []
    while reader.pulled and (bound is None or reader.pulled[0].physical_offset <= bound):
        taken.append(reader.pulled.popleft())
    return taken
