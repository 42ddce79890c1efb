"""Counts the messages of topics; also returns sizes, rates and times."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from pocketmq.model.administration import CountDetail, Page, TopicCounts, page_of
from pocketmq.model.names import check_topic
from pocketmq.model.topic import TopicConfig
from pocketmq.services.admin.topics import queue_states, topic_names
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.reading import Reading

RateOf = Callable[[str], float]
"""Rate of a topic, as `Rates.stored_tps` returns it."""
EXACT_MAX: Final = 256
"""In a queue with at most this number of messages, the sizes of all records are added. In a longer
queue the size is estimated."""
SAMPLES: Final = 4
"""Number of evenly spaced reads, of SAMPLE_UNITS sizes each, for an estimate."""
SAMPLE_UNITS: Final = 32

QueueRange = tuple[int, int]


def no_rate(topic: str) -> float:
    """Returns 0; used if there are no rates."""
    return 0.0


async def counts_of(
    store: MessageStore, config: TopicConfig, detail: CountDetail, rate_of: RateOf = no_rate
) -> TopicCounts:
    """Returns the message counts of a topic.

    Errors   StorageError, DiskSlow
    Cost     TOTALS: no read; SUMMARY: one read of the log, and up to SAMPLES reads of each queue;
             QUEUES: up to SAMPLES reads of each queue, and two reads of the log for each queue
    """
    name, reading = config.name, store.reading
    ranges = [reading.queue_range(name, queue_id) for queue_id in range(config.queue_count)]
    assert all(lower <= upper for lower, upper in ranges), "max offset below min offset"
    stored_count = sum(upper for _, upper in ranges)
    counts = TopicCounts(
        name,
        queue_count=len(ranges),
        message_count=sum(upper - lower for lower, upper in ranges),
        stored_count=stored_count,
        first_store_timestamp_ms=0,
        last_store_timestamp_ms=0,
        queues=[],
    )
    if detail is CountDetail.TOTALS:
        return counts
    size_bytes, is_estimated = await _size(reading, name, ranges)
    counts = counts._replace(
        size_bytes=size_bytes,
        size_estimated=is_estimated,
        in_per_s=round(rate_of(name), 1),
    )
    if detail is CountDetail.SUMMARY:
        return counts._replace(last_store_timestamp_ms=await _last_ms(reading, name, ranges))
    queues = await queue_states(store, name, range(config.queue_count))
    firsts = [q.min_store_timestamp_ms for q in queues if q.min_store_timestamp_ms]
    return counts._replace(
        first_store_timestamp_ms=min(firsts, default=0),
        last_store_timestamp_ms=max((q.max_store_timestamp_ms for q in queues), default=0),
        queues=queues,
    )


async def topic_counts(
    store: MessageStore, name: str, *, totals_only: bool = False, rate_of: RateOf = no_rate
) -> TopicCounts:
    """Returns the message counts of a topic and of its queues.

    totals_only   whether to leave out queues, times, sizes and rates
    Errors        IllegalTopic, TopicNotFound, StorageError, DiskSlow
    """
    config = store.tables.topics.existing(name)
    return await counts_of(store, config, _detail(totals_only=totals_only), rate_of)


async def all_topic_counts(
    store: MessageStore,
    *,
    page_size: int = 0,
    page_token: str = "",
    include_system: bool = False,
    totals_only: bool = False,
    rate_of: RateOf = no_rate,
) -> Page[TopicCounts]:
    """Returns the result of `topic_counts` for a page of the topics.

    Errors   IllegalNumber, IllegalPageToken, StorageError, DiskSlow
    """
    names = topic_names(store, include_system=include_system)
    page = page_of(names, page_size, page_token, check_topic)
    counts, detail = [], _detail(totals_only=totals_only)
    for name in page.items:
        config = store.tables.topics.find(name)
        if config is not None:  # It may have been deleted during another topic's reads.
            counts.append(await counts_of(store, config, detail, rate_of))
        await asyncio.sleep(0)
    return Page(counts, page.next_page_token)


async def summaries(
    store: MessageStore, topics: Sequence[TopicConfig], rate_of: RateOf = no_rate
) -> list[TopicCounts]:
    """Returns the counts of topics with CountDetail.SUMMARY.

    Errors   StorageError, DiskSlow
    """
    found = []
    for config in topics:
        found.append(await counts_of(store, config, CountDetail.SUMMARY, rate_of))
        await asyncio.sleep(0)
    return found


def _detail(*, totals_only: bool) -> CountDetail:
    return CountDetail.TOTALS if totals_only else CountDetail.QUEUES


async def _size(reading: Reading, topic: str, ranges: Sequence[QueueRange]) -> tuple[int, bool]:
    """Returns the bytes of a topic's readable records, and whether the bytes are estimated.

    An estimate is at most the part of the log from the topic's first to its last sampled record.
    """
    total, is_estimated = 0, False
    spans: list[tuple[int, int]] = []
    for queue_id, (lower, upper) in enumerate(ranges):
        count = upper - lower
        if not count:
            continue
        is_exact = count <= EXACT_MAX
        begins, length = [lower], count
        if not is_exact:
            length = SAMPLE_UNITS
            begins = [lower + (count - length) * n // (SAMPLES - 1) for n in range(SAMPLES)]
        sizes: list[int] = []
        for begin in begins:
            places = await value_of(reading.unit_places(topic, queue_id, begin, length))
            sizes += [size for _, size in places]
            spans += [(at, at + size) for at, size in (*places[:1], *places[-1:]) if size]
        total += sum(sizes) if is_exact else round(sum(sizes) * count / max(len(sizes), 1))
        is_estimated = is_estimated or not is_exact
    if is_estimated and spans:
        total = min(total, max(end for _, end in spans) - min(begin for begin, _ in spans))
    return total, is_estimated


async def _last_ms(reading: Reading, topic: str, ranges: Sequence[QueueRange]) -> int:
    """Returns the store time of a topic's last readable message; 0: the topic has no message.

    Cost     one read of the log
    """
    ends = [
        (reading.end_of(topic, queue_id), queue_id)
        for queue_id, (lower, upper) in enumerate(ranges)
        if lower < upper
    ]
    if not ends:
        return 0
    _, queue_id = max(ends)
    last = reading.store_timestamp_at(topic, queue_id, ranges[queue_id][1] - 1)
    return await value_of(last) or 0
