"""Reads the newest messages of a topic, and further pages of older ones.

A page's place is the offset of each queue below which the next page reads, "0:120,1:98".
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pocketmq.client import PullQuery, PullStatus, QueueState, StoredMessage
from pocketmq.console.web import Visit
from pocketmq.model.decimal import number_of

ROWS: Final = 25
BYTES_MAX: Final = 1024 * 1024
"""Stored bytes of one pull; its first message may be larger."""
TOTAL_MAX: Final = 24 * 1024 * 1024
"""Bytes of bodies in one queue after which fewer of its messages are read."""
QUEUES_MAX: Final = 64
"""Maximum number of queues that one page reads: those with the latest last messages."""


class Older(NamedTuple):
    """Messages, newest first, and the place of the next page; "": there is none."""

    messages: list[StoredMessage]
    place: str


def place_of(bounds: Mapping[int, int]) -> str:
    """Returns a place as text."""
    return ",".join(f"{queue}:{bound}" for queue, bound in sorted(bounds.items()))


def bounds_of(text: str) -> dict[int, int]:
    """Parses a place; illegal parts are left out."""
    bounds = {}
    for part in text.split(","):
        queue, _, bound = part.partition(":")
        pair = number_of(queue, 10**6), number_of(bound, 10**18)
        if min(pair) >= 0:
            bounds[pair[0]] = pair[1]
    return bounds


def places_of(rows: Iterable[tuple[str, int, int]]) -> str:
    """Returns (topic, queue id, bound) rows as text for a form.

    Shape   TOPIC QUEUE:BOUND,QUEUE:BOUND;TOPIC QUEUE:BOUND
    """
    bounds: dict[str, dict[int, int]] = {}
    for topic, queue_id, bound in rows:
        bounds.setdefault(topic, {})[queue_id] = bound
    return ";".join(f"{topic} {place_of(queues)}" for topic, queues in bounds.items())


def rows_of(text: str) -> list[tuple[str, int, int]]:
    """Parses the text of `places_of`; illegal parts are left out."""
    parts = [part.partition(" ") for part in text.split(";")]
    return [
        (topic, queue_id, bound)
        for topic, _, place in parts
        for queue_id, bound in bounds_of(place).items()
    ]


async def newest(
    page: Visit, topic: str, queues: Sequence[QueueState], place: str = "", rows: int = ROWS
) -> Older:
    """Returns a page of messages, newest first.

    place   place that the previous page returned; "": begin at the newest messages
    """
    below = bounds_of(place)
    bounds = {one.queue_id: below.get(one.queue_id, one.max_offset) for one in queues}
    least = {one.queue_id: one.min_offset for one in queues}
    open_ = [one for one in queues if bounds[one.queue_id] > one.min_offset]
    open_.sort(key=lambda one: -one.max_store_timestamp_ms)
    each = await asyncio.gather(
        *(
            _last(page, topic, one.queue_id, one.min_offset, bounds[one.queue_id], rows)
            for one in open_[:QUEUES_MAX]
        )
    )
    # A queue that was read only in part bounds the others: an unread message may be newer.
    partial = [part[0].store_timestamp_ms for part in each if part and _is_partial(part, least)]
    found = sorted(
        (one for part in each for one in part),
        key=lambda one: (-one.store_timestamp_ms, -one.physical_offset),
    )
    shown = found[:rows]
    if partial:
        bound = max(partial)
        shown = [one for one in shown if one.store_timestamp_ms >= bound] or shown[:1]
    for one in shown:
        bounds[one.queue_id] = min(bounds[one.queue_id], one.queue_offset)
    is_more = any(bounds[queue] > least[queue] for queue in bounds)
    return Older(shown, place_of(bounds) if is_more and shown else "")


def _is_partial(part: Sequence[StoredMessage], least: Mapping[int, int]) -> bool:
    return part[0].queue_offset > least[part[0].queue_id]


async def _last(
    page: Visit, topic: str, queue_id: int, lowest: int, bound: int, rows: int
) -> list[StoredMessage]:
    """Returns a queue's last messages below an offset, oldest first; fewer if they are large."""
    count = rows
    while True:
        begin = max(bound - count, lowest)
        found: list[StoredMessage] = []
        at, left = begin, TOTAL_MAX
        while at < bound and left > 0:
            answer = await page.client.admin.pull(
                PullQuery(topic, queue_id, at, max_messages=bound - at, max_bytes=BYTES_MAX)
            )
            if answer.status is not PullStatus.FOUND and answer.next_begin_offset <= at:
                break
            found += [one for one in answer.messages if one.queue_offset < bound]
            left -= sum(len(one.body) for one in answer.messages)
            at = answer.next_begin_offset
        if at >= bound or count == 1:
            return found
        count = max(count // 8, 1)  # The bodies are large: read fewer messages, the newest.


async def at_offset(
    page: Visit, topic: str, queue_id: int, queue_offset: int
) -> StoredMessage | None:
    """Returns the message at a queue offset; None if there is none."""
    answer = await page.client.admin.pull(PullQuery(topic, queue_id, queue_offset, max_messages=1))
    return next((one for one in answer.messages if one.queue_offset == queue_offset), None)
