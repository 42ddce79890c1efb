"""Plans which queue offsets a stream of a broker reads; plain numbers, without Spark or a broker.

queue 0   ├── read ──┼── next batch ──┤······
queue 1   ├── read ──┼── next ──┤········
queue 2              ├── next ─┤·                 a new queue begins at its oldest message
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pocketmq.model.message import QueueKey
from pocketmq.spark.stream_request import EARLIEST, EARLIEST_NUMBER, LATEST_NUMBER

Offsets = Mapping[QueueKey, int]
Held = Mapping[QueueKey, range]
"""The queue offsets [min, max) that can be read, by queue."""
SPAN_SIZE_MIN: Final = 4_096
"""Fewest messages of a partition, as each partition costs some 50 ms."""


class MessagesLost(Exception):
    """Messages that the stream has not read were removed."""


class QueueSpan(NamedTuple):
    """The queue offsets [begin, end) of one queue."""

    topic: str
    queue_id: int
    begin: int
    end: int


def first_offsets(starting: str | Offsets, held: Held) -> dict[QueueKey, int]:
    """Returns the offsets at which a new stream begins.

    starting   EARLIEST, LATEST, or offsets; queues without one begin at their oldest message
    Errors     ValueError: `starting` has an offset for a queue that is not read
    """
    if isinstance(starting, str):
        return {key: one.start if starting == EARLIEST else one.stop for key, one in held.items()}
    for topic, queue_id in starting:
        if (topic, queue_id) not in held:
            raise ValueError(
                f"startingOffsets names queue {queue_id} of {topic}, which is not read"
            )
    named = {
        EARLIEST_NUMBER: lambda one: one.start,
        LATEST_NUMBER: lambda one: one.stop,
    }
    return {
        key: named[number](one) if number in named else min(max(number, one.start), one.stop)
        for key, one in held.items()
        for number in [starting.get(key, EARLIEST_NUMBER)]
    }


def sound_begin(start: int | None, one: range) -> int:
    """Returns the first offset to read; the queue's oldest message if `start` is outside of it."""
    return start if start is not None and one.start <= start <= one.stop else one.start


def later_offsets(start: Offsets, held: Held, count_max: int | None) -> dict[QueueKey, int]:
    """Returns the end of the batch that begins at `start`.

    Above the limit, each queue gets a share in proportion to its messages. With more queues than
    `count_max`, some shares are 0. The next batch then begins with another queue, so that all are
    served.

    count_max   upper limit of messages; None: no limit
    """
    begins = {key: sound_begin(start.get(key), one) for key, one in held.items()}
    sizes = {key: held[key].stop - begin for key, begin in begins.items()}
    total = sum(sizes.values())
    ends = dict(start)
    if count_max is None or total <= count_max:
        return ends | {key: one.stop for key, one in held.items()}
    keys = sorted(key for key, size in sizes.items() if size)
    first = sum(begins.values()) % len(keys)
    before, given = 0, 0
    for key in (*keys[first:], *keys[:first]):
        before += sizes[key]
        upto = -(-before * count_max // total)
        ends[key] = begins[key] + min(upto - given, sizes[key])
        given += ends[key] - begins[key]
    assert given <= count_max, (given, count_max)
    return {key: begins[key] for key in held if key not in ends} | ends


def count_from(start: Offsets, held: Held) -> int:
    """Returns the number of messages that follow `start`."""
    return sum(one.stop - sound_begin(start.get(key), one) for key, one in held.items())


def check_losses(start: Offsets, held: Held) -> None:
    """Raises an error if messages from `start` on were removed before they were read.

    Queues that became unreadable while their topic exists are not lost: they are read again when
    the topic has as many queues as before.

    Errors   MessagesLost
    """
    topics = {topic for topic, _ in held}
    for (topic, queue_id), begin in start.items():
        one = held.get((topic, queue_id))
        if one is None:
            if topic not in topics:
                raise MessagesLost(f"topic {topic} is gone; {ADVICE}")
        elif begin < one.start:
            raise MessagesLost(_removed(topic, queue_id, begin, one.start))
        elif begin > one.stop:
            raise MessagesLost(
                f"queue {queue_id} of {topic} ends at {one.stop}, before the checkpoint's "
                f"{begin}: the topic was created again, or it is another broker's; {ADVICE}"
            )


ADVICE: Final = "use a new checkpoint, or set failOnDataLoss to false"


def _removed(topic: str, queue_id: int, begin: int, end: int) -> str:
    return (
        f"messages {begin} to {end - 1} of queue {queue_id} of {topic} were removed before the "
        "stream read them; keep them longer (retention), or set failOnDataLoss to false"
    )


def check_page(span: QueueSpan, at: int, least: int) -> None:
    """Raises if a queue begins after the offset that is being read.

    Errors   MessagesLost
    """
    if least > at:
        raise MessagesLost(_removed(span.topic, span.queue_id, at, min(least, span.end)))


def spans_between(start: Offsets, end: Offsets, held: Held) -> list[QueueSpan]:
    """Returns the spans of a batch, by topic and queue."""
    spans = []
    for key in sorted(end):
        one = held.get(key, range(end[key], end[key]))
        begin = max(start.get(key, one.start), one.start)
        begin = one.start if begin > end[key] else begin
        if begin < end[key]:
            spans.append(QueueSpan(*key, begin, end[key]))
    return spans


def shared(spans: Sequence[QueueSpan], count: int) -> list[list[QueueSpan]]:
    """Divides spans among at most `count` partitions of about equal sizes.

    A queue is cut only at the borders of partitions, so that a partition has its messages in order.
    """
    total = sum(span.end - span.begin for span in spans)
    count = max(min(count, total // SPAN_SIZE_MIN), 1)
    size = -(-total // count)
    lots: list[list[QueueSpan]] = []
    room = 0
    for span in spans:
        begin = span.begin
        while begin < span.end:
            if not room:
                lots.append([])
                room = size
            end = min(span.end, begin + room)
            lots[-1].append(span._replace(begin=begin, end=end))
            room -= end - begin
            begin = end
    return lots
