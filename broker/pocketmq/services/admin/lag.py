"""Lag of consumer groups by queue, and the age of their oldest unconsumed message.

The function `unconsumed` (model/consuming.py) defines which messages are consumed, here and in
metrics.
Source: AdminBrokerProcessor.getConsumeStats, ConsumerLagCalculator.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from pocketmq.model.administration import PAGE_SIZE_DEFAULT, Page, QueueLag, TopicLag, page_of
from pocketmq.model.consuming import NOTHING_HELD, Held, Leased, unconsumed
from pocketmq.model.errors import IllegalPageToken
from pocketmq.store.message_store import MessageStore
from pocketmq.store.pieces import PIECE, in_pieces
from pocketmq.store.read.cold_read import value_of

TOKEN_SEPARATOR: Final = "@"
"""Separator of group and topic in a page token; names of groups and topics do not contain it."""
GROUPS_PIECE: Final = 100
"""Groups whose retry topics are looked up in one turn."""


async def group_lag(
    store: MessageStore, group: str, topic: str = "", read_leased: Callable[[], Leased] = dict
) -> list[TopicLag]:
    """Returns the lag of a group by queue.

    topic         topic of the queues; "": all topics in which the group has offsets, and the retry
                  topics of these
    read_leased   returns the counts of received and unsettled messages (`Consume.leased`)
    Errors        IllegalGroup, GroupNotFound, IllegalTopic, TopicNotFound, StorageError, DiskSlow
    Cost          one read of the log for each queue with lag
    """
    if topic:
        store.tables.topics.existing(topic)
    store.tables.groups.existing(group)
    rows = store.tables.offsets.all_of(group)
    leased = read_leased()
    lags = []
    for name in [topic] if topic else store.tables.with_retries(group, rows):
        held = leased.get((group, name), {})
        lag = _topic_lag(store, group, name, rows.get(name, {}), held)
        queues = [
            queue._replace(lag_ms=await _age_ms(store, name, queue, held)) for queue in lag.queues
        ]
        oldest_ms = max((queue.lag_ms for queue in queues), default=0)
        lags.append(lag._replace(lag_ms=oldest_ms, queues=queues))
    return lags


async def all_lags(
    store: MessageStore,
    *,
    topic: str = "",
    page_size: int = 0,
    page_token: str = "",
    read_leased: Callable[[], Leased] = dict,
) -> Page[TopicLag]:
    """Returns a page of the lags of all groups, by topic, without queues and ages.

    topic         "": all topics
    read_leased   returns the counts of received and unsettled messages (`Consume.leased`)
    Errors        IllegalTopic, TopicNotFound, IllegalNumber, IllegalPageToken
    """
    if topic:
        store.tables.topics.existing(topic)
    count = page_size or PAGE_SIZE_DEFAULT
    leased = read_leased()  # In the turn of the offsets, or a lease could count as lag twice.
    by_group = await committed_offsets(store)
    pairs = await _pairs(store, by_group, topic, page_token, count)
    page = page_of(pairs, page_size, page_token, _check_pair)
    lags = []
    for pair in page.items:
        group, _, name = pair.partition(TOKEN_SEPARATOR)
        committed = by_group[group].get(name, {})
        held = leased.get((group, name), {})
        lags.append(_topic_lag(store, group, name, committed, held)._replace(queues=[]))
        await asyncio.sleep(0)
    return Page(lags, page.next_page_token)


async def committed_offsets(
    store: MessageStore, groups: Iterable[str] | None = None
) -> dict[str, dict[str, Mapping[int, int]]]:
    """Returns the offsets of groups: group -> topic -> queue id -> queue offset, as of now.

    groups   None: all groups with offsets
    Cost     linear in the rows of all groups, in pieces
    """
    found: dict[str, dict[str, Mapping[int, int]]] = {group: {} for group in groups or ()}
    for number, (group, topic, row) in enumerate(store.tables.offsets.positions()):
        if number % PIECE == PIECE - 1:
            await asyncio.sleep(0)
        if groups is None:
            found.setdefault(group, {})[topic] = row
        elif group in found:
            found[group][topic] = row
    return found


async def _pairs(
    store: MessageStore, by_group: Mapping[str, Iterable[str]], topic: str, token: str, count: int
) -> list[str]:
    """Returns pairs of group and topic after a token, sorted; more than `count`, or all.

    by_group   group -> topics
    Cost       linear in the names of all groups, and in the topics of one page's groups
    """
    begin = token.partition(TOKEN_SEPARATOR)[0] + TOKEN_SEPARATOR if token else ""
    prefixes = sorted(f"{group}{TOKEN_SEPARATOR}" for group in by_group)
    pairs: list[str] = []
    async for piece in in_pieces([prefix for prefix in prefixes if prefix >= begin], GROUPS_PIECE):
        for prefix in piece:
            if len(pairs) > count:
                return pairs
            group = prefix.removesuffix(TOKEN_SEPARATOR)
            names = store.tables.with_retries(group, by_group[group])
            found = [f"{prefix}{name}" for name in names if topic in ("", name)]
            pairs += [pair for pair in found if pair > token]
    return pairs


class LagSums(NamedTuple):
    """Lag and offsets of a group in all queues."""

    lag_messages: int
    committed_sum: int


async def lag_sums(
    store: MessageStore, groups: Iterable[str], read_leased: Callable[[], Leased] = dict
) -> dict[str, LagSums]:
    """Returns the lag of each group: the sums over all topics."""
    sums, leased = {}, read_leased()
    for group, rows in (await committed_offsets(store, groups)).items():
        lags = [
            _topic_lag(store, group, name, rows.get(name, {}), leased.get((group, name), {}))
            for name in store.tables.with_retries(group, rows)
        ]
        sums[group] = LagSums(
            sum(one.lag_messages for one in lags), sum(one.committed_sum for one in lags)
        )
        await asyncio.sleep(0)
    return sums


def queue_lag(
    queue_id: int, committed: int | None, lower: int, upper: int, held: Held = NOTHING_HELD,
    *, begins_at_min: bool = False,
) -> QueueLag:  # fmt: skip
    """Returns a group's lag in one queue, without the age.

    lower, upper    min and max offset of the queue
    begins_at_min   whether a group without an offset begins at `lower`; if not, at `upper`
    """
    left = unconsumed(
        lower if committed is None and begins_at_min else committed, lower, upper, held
    )
    return QueueLag(queue_id, committed, lower, upper, left.left, 0, held.total)


def _check_pair(token: str) -> None:
    if TOKEN_SEPARATOR not in token:
        raise IllegalPageToken(token=token)


async def _age_ms(
    store: MessageStore, topic: str, lag: QueueLag, leased: Mapping[int, Held]
) -> int:
    """Returns the age of a group's first unconsumed message in ms; 0: there is no such message."""
    if not lag.lag_messages:
        return 0
    held = leased.get(lag.queue_id, NOTHING_HELD)
    committed = lag.min_offset if lag.committed_offset is None else lag.committed_offset
    begin = unconsumed(committed, lag.min_offset, lag.max_offset, held).begin
    stored_ms = await value_of(store.reading.store_timestamp_at(topic, lag.queue_id, begin))
    return 0 if stored_ms is None else max(store.clock.wall_ms() - stored_ms, 0)


def _topic_lag(
    store: MessageStore,
    group: str,
    topic: str,
    committed: Mapping[int, int],
    leased: Mapping[int, Held],
) -> TopicLag:
    """Returns the lag in each queue of a topic; includes removed queues with an offset."""
    config = store.tables.topics.find(topic)
    begins = store.tables.begins_at_first(group, topic)
    count = config.queue_count if config is not None else 0
    queues = []
    for queue_id in sorted({*range(count), *committed}):
        lower, upper = store.reading.queue_range(topic, queue_id)
        held = leased.get(queue_id, NOTHING_HELD)
        lag = queue_lag(queue_id, committed.get(queue_id), lower, upper, held, begins_at_min=begins)
        since_ms = store.clock.wall_ms() - held.since_ms if held.since_ms else 0
        queues.append(lag._replace(in_flight_ms=max(since_ms, 0)))
    lag_messages = sum(queue.lag_messages for queue in queues)
    return TopicLag(group, topic, sum(committed.values()), lag_messages, 0, queues)
