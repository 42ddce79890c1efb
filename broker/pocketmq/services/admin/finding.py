"""Finds the topics or groups of a list: by a part of the name, in an order.

Long lists are counted in pieces, so that the event loop serves others meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from pocketmq.model.administration import CountDetail, GroupConfig, Page, TopicCounts
from pocketmq.model.consuming import Leased
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.listing import (
    MEASURED_MAX,
    READING_ORDERS,
    FoundRows,
    GroupOrder,
    GroupTotals,
    ListPart,
    Ranking,
    SortKey,
    TopicOrder,
    TopicTotals,
    topic_key,
)
from pocketmq.model.names import check_group, check_topic
from pocketmq.model.topic import TopicConfig, is_system_group
from pocketmq.services.admin.lag import LagSums, lag_sums
from pocketmq.services.admin.topic_counts import RateOf, counts_of, no_rate
from pocketmq.services.admin.topics import topic_names
from pocketmq.store.message_store import MessageStore

PIECE: Final = 64
"""Number of rows that are handled without a pause."""
MeasuredTopic = tuple[TopicConfig, TopicCounts | None]


async def find_topics(
    store: MessageStore, part: ListPart, order: TopicOrder, rate_of: RateOf = no_rate, *,
    include_system: bool = False, with_sums: bool = False,
) -> FoundRows[TopicConfig, TopicTotals]:  # fmt: skip
    """Returns a page of topics.

    Errors   IllegalNumber, IllegalPageToken; StorageError, DiskSlow: an order that reads the log;
             UnsupportedFeature: such an order, of more than MEASURED_MAX topics
    Cost     linear in the queues of all found topics, unless the order needs no counts; of all
             topics with sums
    """
    part.check(is_by_name=order is TopicOrder.NAME)
    names = [*topic_names(store, include_system=include_system)]
    found = part.found(names)
    if order in READING_ORDERS and len(found) > MEASURED_MAX:
        raise UnsupportedFeature(
            feature=f"the order by {order.value} of more than {MEASURED_MAX} topics; give a part "
            "of their names"
        )
    token = ""
    if order is TopicOrder.NAME:
        page = part.page(found, check_topic)
        rows, token = [*map(store.tables.topics.existing, page.items)], page.next_page_token
    else:

        def key(config: TopicConfig, counts: TopicCounts | None) -> SortKey:
            if order is TopicOrder.RATE:  # It needs no queues, which take the most time.
                return -rate_of(config.name), config.name
            return topic_key(order, config.name, config.type_name, config.read_queue_count, counts)

        detail = CountDetail.SUMMARY if order in READING_ORDERS else None
        detail = CountDetail.TOTALS if order is TopicOrder.MESSAGES else detail
        ranking: Ranking[TopicConfig] = Ranking(part.end)
        async for piece in _topics(store, found, detail, rate_of):
            ranking.add((key(one, counts), one) for one, counts in piece)
        rows = part.cut(ranking.items)
    sums = await _topic_sums(store, names, rate_of) if with_sums else None
    return FoundRows(rows, token, len(found), len(names), sums)


async def _topics(
    store: MessageStore, names: Sequence[str], detail: CountDetail | None, rate_of: RateOf
) -> AsyncIterator[list[MeasuredTopic]]:
    """Yields topics with their counts, in pieces; detail None: without counts."""
    for begin in range(0, len(names), PIECE):
        piece: list[MeasuredTopic] = []
        for name in names[begin : begin + PIECE]:
            config = store.tables.topics.find(name)
            if config is None:  # It was deleted during a pause.
                continue
            counts = None
            if detail is not None:
                counts = await counts_of(store, config, detail)
                counts = counts._replace(in_per_s=rate_of(name))
            piece.append((config, counts))
        yield piece
        await asyncio.sleep(0)


async def _topic_sums(store: MessageStore, names: Sequence[str], rate_of: RateOf) -> TopicTotals:
    topics = messages = stored = 0
    rate = 0.0
    async for piece in _topics(store, names, CountDetail.TOTALS, rate_of):
        found = [counts for _, counts in piece if counts is not None]
        topics += len(found)
        messages += sum(one.message_count for one in found)
        stored += sum(one.stored_count for one in found)
        rate += sum(one.in_per_s for one in found)
    return TopicTotals(topics, messages, stored, rate)


async def find_groups(
    store: MessageStore, part: ListPart, order: GroupOrder, *,
    read_leased: Callable[[], Leased], member_counts: Callable[[], Mapping[str, int]],
    include_system: bool = False, with_sums: bool = False,
) -> FoundRows[GroupConfig, GroupTotals]:  # fmt: skip
    """Returns a page of groups.

    Errors   IllegalNumber, IllegalPageToken
    Cost     linear in the queues of all found groups in the order by lag; of all groups with sums
    """
    part.check(is_by_name=order is GroupOrder.NAME)
    groups, members = store.tables.groups, member_counts()
    names = [name for name in groups.names() if include_system or not is_system_group(name)]
    found, lags = part.found(names), dict[str, LagSums]()
    if with_sums or order is GroupOrder.LAG:
        lags = await lag_sums(store, names if with_sums else found, read_leased)
    if order is GroupOrder.NAME:
        page = part.page(found, check_group)
    else:
        values = members
        if order is GroupOrder.LAG:
            values = {name: one.lag_messages for name, one in lags.items()}
        page = Page(part.cut(sorted(found, key=lambda name: (-values.get(name, 0), name))), "")
    rows = [config for name in page.items if (config := groups.find(name))]
    sums = None
    if with_sums:
        counts = [members.get(name, 0) for name in names]
        sums = GroupTotals(
            len(names), sum(one.lag_messages for one in lags.values()),
            sum(one.committed_sum for one in lags.values()), sum(counts), sum(map(bool, counts)),
        )  # fmt: skip
    return FoundRows(rows, page.next_page_token, len(found), len(names), sums)
