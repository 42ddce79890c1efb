"""Reads a store directory, with the methods that the console's pages call on a client.

A thread reads the files, so that the console serves other requests meanwhile.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from pocketmq.client import (
    ClientError,
    GroupSettings,
    GroupState,
    KeyQuery,
    PullPage,
    PullQuery,
    PullStatus,
    QueryResult,
    QueueState,
    StoredMessage,
    TopicState,
)
from pocketmq.client.client_error import told_error
from pocketmq.model.administration import (
    GroupOffset,
    GroupStats,
    Member,
    Page,
    QueueLag,
    TopicCounts,
    TopicLag,
)
from pocketmq.model.errors import BrokerError
from pocketmq.model.listing import (
    FoundRows,
    GroupOrder,
    GroupTotals,
    ListPart,
    SortKey,
    TopicOrder,
    TopicTotals,
    topic_key,
)
from pocketmq.model.topic import is_system_topic
from pocketmq.tools.lag import GroupLag
from pocketmq.tools.store_browser import StoreBrowser

PULLED_MAX: Final = 32
DEFAULT_QUEUES: Final = 8
READ_WRITE: Final = 6
TYPE_ATTRIBUTE: Final = "+message.type"

Answer = TypeVar("Answer")
Row = TypeVar("Row", TopicState, GroupState)


class DirectoryClient:
    """Reads of a store directory; `admin` is the client itself.

    Errors   of every method: ClientError
    """

    def __init__(self, browser: StoreBrowser) -> None:
        self.browser = browser
        self.admin = self

    async def close(self) -> None:
        """Does nothing: no file stays open."""

    async def read(self, work: Callable[[], Answer]) -> Answer:
        """Runs `work` in a thread; its errors become those of a client.

        Errors   ClientError
        """
        try:
            return await asyncio.to_thread(work)
        except BrokerError as error:
            name = type(error).__name__
            text = str(error)
            raise ClientError(name, text, status="FAILED_PRECONDITION") from error
        except OSError as error:
            raise ClientError("ReadFailed", str(error), status="UNAVAILABLE") from error

    # --- topics -----------------------------------------------------------------------------------

    async def find_topics(
        self, name_part: str = "", *, order: TopicOrder = TopicOrder.NAME, skip: int = 0,
        page_size: int = 0, **given: Any,
    ) -> FoundRows[TopicState, TopicTotals]:  # fmt: skip
        """Returns topics but system topics; their counts have no sizes, rates and times."""

        def work() -> list[TopicState]:
            rows, ranges = self.browser.topics(), self.browser.ranges()
            counts: dict[str, tuple[int, int]] = {}
            for (name, _), (first, end) in ranges.items():
                messages, stored = counts.get(name, (0, 0))
                counts[name] = messages + end - first, stored + end
            return [
                _topic(name, row)._replace(
                    counts=TopicCounts(name, 0, *counts.get(name, (0, 0)), 0, 0, [])
                )
                for name, row in rows.items()
                if not is_system_topic(name)
            ]

        return _found(
            await self.read(work), ListPart(name_part, skip, page_size),
            lambda one: topic_key(order, one.name, one.type, one.read_queue_count, one.counts),
        )  # fmt: skip

    async def describe_topic(self, name: str) -> TopicState:
        """Returns a topic with the queues that have messages."""

        def work() -> TopicState | None:
            row = self.browser.topics().get(name)
            return (
                None
                if row is None
                else _topic(name, row)._replace(queues=self.browser.queues(name))
            )

        found = await self.read(work)
        if found is None:
            raise _missing("TopicNotFound", f"the store has no topic {name!r}", topic=name)
        return found

    async def topic_counts(self, name: str) -> TopicCounts:
        """Returns the counts of a topic."""
        queues = await self.read(partial(self.browser.queues, name))
        return TopicCounts(
            name, len(queues), sum(one.max_offset - one.min_offset for one in queues),
            sum(one.max_offset for one in queues), 0,
            max((one.max_store_timestamp_ms for one in queues), default=0), [],
        )  # fmt: skip

    # --- messages ---------------------------------------------------------------------------------

    async def pull(self, query: PullQuery) -> PullPage:
        """Returns messages of a queue."""
        count = query.max_messages or PULLED_MAX

        def work() -> PullPage:
            first, end = self.browser.ranges().get((query.topic, query.queue_id), (0, 0))
            at = max(query.queue_offset, first)
            found = self.browser.messages(query.topic, query.queue_id, at, count)
            status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MESSAGE
            return PullPage(status, min(at + count, end), first, end, found, b"")

        return await self.read(work)

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Returns the message with a unique key or offset id."""
        found = await self.read(partial(self.browser.by_id, topic, message_id))
        if found is None:
            raise _missing("MessageNotFound", f"there is no message {message_id!r}", id=message_id)
        return found

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Returns the oldest messages of a topic with a key, in reverse order of their storage."""
        found, is_more = await self.read(
            partial(self.browser.by_key, query.topic, query.key, query.count_max or PULLED_MAX)
        )
        return QueryResult(found[::-1], not is_more, "")

    async def query_by_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Returns the offset of the first message stored at a time or later."""

        def work() -> int:
            first, end = self.browser.ranges().get((topic, queue_id), (0, 0))
            while first < end:
                middle = (first + end) // 2
                found = self.browser.messages(topic, queue_id, middle, 1)
                if found and found[0].store_timestamp_ms < time_ms:
                    first = middle + 1
                else:
                    end = middle
            return first

        return await self.read(work)

    async def trace_message(self, message_id: str, topic: str = "") -> tuple[str, list[Any]]:
        """Returns no records: a trace needs a broker, or `pocketmq store grep`."""
        return message_id, []

    # --- groups -----------------------------------------------------------------------------------

    async def find_groups(
        self, name_part: str = "", *, order: GroupOrder = GroupOrder.NAME, skip: int = 0,
        page_size: int = 0, **given: Any,
    ) -> FoundRows[GroupState, GroupTotals]:  # fmt: skip
        """Returns the groups that have settings or offsets, with their lag."""

        def work() -> list[GroupState]:
            sums: dict[str, int] = {}
            for one in self.browser.lags():
                sums[one.group] = sums.get(one.group, 0) + one.lag
            return [
                _group(name, row)._replace(stats=GroupStats(sums.get(name, 0), 0))
                for name, row in self.browser.groups().items()
                if name in sums or row
            ]

        def key(one: GroupState) -> SortKey:
            lag = one.stats.lag_messages if one.stats and order is GroupOrder.LAG else 0
            return -lag, one.name

        return _found(await self.read(work), ListPart(name_part, skip, page_size), key)

    async def describe_group(self, name: str) -> GroupState:
        """Returns a group with the topics in which it has offsets."""

        def work() -> GroupState | None:
            row = self.browser.groups().get(name)
            topics = sorted({one.topic for one in self.browser.lags() if one.group == name})
            return None if row is None else _group(name, row)._replace(topics=topics)

        found = await self.read(work)
        if found is None:
            raise _missing("GroupNotFound", f"the store has no group {name!r}", group=name)
        return found

    async def group_lag(self, group: str, topic: str = "") -> list[TopicLag]:
        """Returns the lag of a group by topic and queue, in a topic or (topic "") in all."""

        def work() -> list[TopicLag]:
            lags = [one for one in self.browser.lags() if one.group == group]
            return [self._aged(one) for one in _by_topic(lags) if topic in ("", one.topic)]

        return await self.read(work)

    def _aged(self, lag: TopicLag) -> TopicLag:
        """Returns the lag of a topic with the age of the oldest unread message of each queue."""
        now_ms = time.time_ns() // 1_000_000
        queues = []
        for queue in lag.queues:
            age_ms = 0
            if queue.lag_messages:
                at = queue.max_offset - queue.lag_messages
                oldest = self.browser.messages(lag.topic, queue.queue_id, at, 1)
                age_ms = max(now_ms - oldest[0].store_timestamp_ms, 0) if oldest else 0
            queues.append(queue._replace(lag_ms=age_ms))
        return lag._replace(queues=queues, lag_ms=max((one.lag_ms for one in queues), default=0))

    async def all_lags(self, *, topic: str = "", **given: Any) -> Page[TopicLag]:
        """Returns the lag of all groups, in a topic or (topic "") in all."""
        lags = await self.read(self.browser.lags)
        return Page(_by_topic([one for one in lags if topic in ("", one.topic)]), "")

    async def list_members(self, group: str) -> list[Member]:
        """Returns nothing: a directory has no clients."""
        return []

    async def list_offsets(self, group: str, topic: str = "") -> list[GroupOffset]:
        """Returns the offsets of a group."""
        lags = await self.read(self.browser.lags)
        return [
            GroupOffset(one.topic, one.queue_id, one.committed_offset)
            for one in lags
            if one.group == group and topic in ("", one.topic) and one.committed_offset is not None
        ]


def _found(rows: list[Row], part: ListPart, key: Callable[[Row], SortKey]) -> FoundRows[Row, Any]:
    """Returns a page of rows."""
    names = set(part.found(one.name for one in rows))
    found = sorted((one for one in rows if one.name in names), key=key)
    return FoundRows(part.cut(found), "", len(found), len(rows))


def _missing(reason: str, text: str, **fields: str) -> ClientError:
    return told_error(reason, text, "NOT_FOUND", retryable=False, fields=fields)


def _number(row: dict[str, Any], name: str, default: int) -> int:
    found = row.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def _topic(name: str, row: dict[str, Any]) -> TopicState:
    given = row.get("attributes")
    attributes = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
    return TopicState(
        name, _number(row, "readQueueNums", DEFAULT_QUEUES),
        _number(row, "writeQueueNums", DEFAULT_QUEUES), _number(row, "perm", READ_WRITE),
        attributes.get(TYPE_ATTRIBUTE, attributes.get(TYPE_ATTRIBUTE[1:], "normal")),
        is_system_topic(name), bool(row.get("order")), attributes, _no_queues(),
    )  # fmt: skip


def _no_queues() -> list[QueueState]:
    return []


def _group(name: str, row: dict[str, Any]) -> GroupState:
    settings = GroupSettings(
        enabled=bool(row.get("consumeEnable", True)),
        fifo=bool(row.get("consumeMessageOrderly", False)),
        max_attempts=_number(row, "retryMaxTimes", 16) + 1,
        begins_at_min=bool(row.get("consumeFromMinEnable", True)),
    )
    return GroupState(name, settings, False, {}, [])


def _by_topic(lags: list[GroupLag]) -> list[TopicLag]:
    rows: dict[tuple[str, str], list[QueueLag]] = {}
    for one in lags:
        queue = QueueLag(one.queue_id, one.committed_offset, 0, one.end_offset or 0, one.lag, 0)
        rows.setdefault((one.group, one.topic), []).append(queue)
    return [
        TopicLag(
            group, topic, sum(queue.committed_offset or 0 for queue in queues),
            sum(queue.lag_messages for queue in queues), 0, queues,
        )
        for (group, topic), queues in sorted(rows.items())
    ]  # fmt: skip
