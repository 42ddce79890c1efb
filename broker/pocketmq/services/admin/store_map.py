"""Maps the log of an open store by a sample of its queues.

Samples are spread over all messages evenly: each represents the same number of messages, and has
its record's size and place from the queue. The broker's own topics are in the map.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.model.administration import MapPart, MapTopic, StoreMap
from pocketmq.model.topic import LMQ_PREFIX
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

SAMPLES: Final = 2_000
PARTS: Final = 480
PARTS_MAX: Final = 1_000
PIECE: Final = 4
"""Samples that are read in one turn of the loop."""
QUEUES_PIECE: Final = 128
"""Queues whose lengths are read in one turn."""


@dataclass(slots=True)
class _Queues:
    """Sums over all queues.

    ranges          (topic, queue id, min offset, length) of queues with messages, without light
                    queues
    message_count   number of messages in `ranges`
    """

    ranges: list[tuple[str, int, int, int]] = field(default_factory=list)
    message_count: int = 0
    file_size_bytes: int = 0
    file_count: int = 0
    entry_count: int = 0


class _Sample(NamedTuple):
    """A sampled message; `weight` is the bytes that it represents."""

    place: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    weight: int


async def map_store(
    store: MessageStore, part_count: int, may_see: Callable[[str], bool]
) -> StoreMap:
    """Returns a map of the log.

    part_count   wanted number of parts. Each file has at least one part; if there are more files
                 than parts, a part has several files
    may_see      returns whether the caller sees a topic's name
    Errors       StorageError, DiskSlow
    Cost         up to SAMPLES reads of queues and PARTS reads of the log, in pieces of PIECE
    """
    queues = await _measured(store)
    samples = await _samples(store, queues)
    bounds = _bounds(store, part_count)
    begins = bounds[:-1]
    sums: dict[tuple[int, str], int] = {}
    first: dict[int, _Sample] = {}
    sizes: dict[str, int] = {}
    for one in samples:
        at = bisect_right(begins, one.place) - 1
        if at < 0 or one.place >= bounds[-1]:
            continue
        name = one.topic if may_see(one.topic) else ""
        sums[at, name] = sums.get((at, name), 0) + one.weight
        sizes[name] = sizes.get(name, 0) + one.weight
        if at not in first or one.place < first[at].place:
            first[at] = one
        for covered in range(at + 1, bisect_left(begins, one.place + one.size)):
            sums.setdefault((covered, name), 0)
    ordered = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))
    numbers = {name: number for number, (name, _) in enumerate(ordered)}
    best: dict[int, tuple[int, str]] = {}
    for (at, name), weight in sums.items():
        best[at] = max(best.get(at, (0, "")), (weight, name))
    times = await _times(store, first)
    parts = [
        MapPart(begin, end, numbers[best[at][1]] if at in best else -1, times.get(at, 0))
        for at, (begin, end) in enumerate(zip(begins, bounds[1:], strict=True))
    ]
    return _filled(store, parts, [MapTopic(*pair) for pair in ordered], queues)


async def _measured(store: MessageStore) -> _Queues:
    """Returns the lengths of all queues, and the sums of their files and entries."""
    found = _Queues()
    for number, queue in enumerate([*store.views.queues.queues.values()]):
        if number % QUEUES_PIECE == QUEUES_PIECE - 1:
            await asyncio.sleep(0)
        found.file_size_bytes = queue.files.file_size
        found.file_count += len(queue.files.files)
        found.entry_count += queue.max_offset - queue.files.min_offset // UNIT_SIZE
        length = queue.shown_max - queue.min_offset
        # The entries of a light queue are of other topics' records.
        if length and not queue.topic.startswith(LMQ_PREFIX):
            found.message_count += length
            found.ranges.append((queue.topic, queue.queue_id, queue.min_offset, length))
    return found


async def _samples(store: MessageStore, queues: _Queues) -> list[_Sample]:
    """Returns evenly spread messages: each represents the same number of messages."""
    stride = max(-(-queues.message_count // SAMPLES), 1)
    found: list[_Sample] = []
    at, read_count = stride // 2, 0
    for topic, queue_id, lower, length in queues.ranges:
        while at < length:
            places = await value_of(store.reading.unit_places(topic, queue_id, lower + at, 1))
            found += [
                _Sample(place, size, topic, queue_id, lower + at, size * stride)
                for place, size in places
                if size > 0
            ]
            at += stride
            read_count += 1  # Units without a place count too, so that other tasks get their turn.
            if read_count % PIECE == 0:
                await asyncio.sleep(0)
        at -= length
    assert len(found) <= SAMPLES + 1, "more samples than wanted"
    return found


def _bounds(store: MessageStore, part_count: int) -> list[int]:
    """Returns the begins of all parts, and the end of the last; [end] for an empty log."""
    size, first, end = store.log.file_size_bytes, store.log.min_offset, store.appended
    files = max(-(-(end - first) // size), 1)
    each = max(part_count // files, 1)
    joined = max(-(-files // part_count), 1)
    """Number of files of one part."""
    step = size * joined if joined > 1 else max(size // each, 1)
    bounds = [
        begin
        for base in range(first, end, size * joined)
        for begin in range(base, min(base + size * joined, end), step)
        if joined > 1 or begin - base <= size - step
    ]
    return [*bounds, end]


async def _times(store: MessageStore, samples: dict[int, _Sample]) -> dict[int, int]:
    times: dict[int, int] = {}
    for number, (at, one) in enumerate(samples.items()):
        stored = store.reading.store_timestamp_at(one.topic, one.queue_id, one.queue_offset)
        found: int | None = await value_of(stored)
        times[at] = found or 0
        if number % PIECE == PIECE - 1:
            await asyncio.sleep(0)
    return times


def _filled(
    store: MessageStore, parts: list[MapPart], topics: list[MapTopic], queues: _Queues
) -> StoreMap:
    index = store.views.index
    return StoreMap(
        parts,
        topics,
        log_file_size_bytes=store.log.file_size_bytes,
        log_file_count=len(store.log.files.files),
        queue_file_size_bytes=queues.file_size_bytes,
        queue_file_count=queues.file_count,
        queue_entry_count=queues.entry_count,
        index_file_size_bytes=index.geometry.file_size,
        index_file_count=len(index.files),
        index_entry_count=sum(max(one.entry_count, 0) for one in index.files),
        index_file_entries_max=index.geometry.entry_count_max - 1,
    )
