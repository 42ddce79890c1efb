"""Finds the leases of messages by their handles.

A handle is valid while its message is in the lease under which the message was delivered, or in a
lease that replaced this lease after a change of the invisible duration.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from pocketmq.format.receipt_handle import LeasePlace, place_of
from pocketmq.model.decimal import number_of
from pocketmq.model.system_topics import lease_retry_topic, lease_retry_topic_v2
from pocketmq.model.topic import RETRY_PREFIX, retry_topic
from pocketmq.services.consume.leases import Lease, LeaseTable


class HandledMessage(NamedTuple):
    """A message found by its handle."""

    lease: Lease
    queue_offset: int


@final
class TakenOut:
    """Messages that were found by handles, and removed from their leases.

    leases          lease of each handle, None for an invalid handle
    queue_offsets   queue offset of each handle
    by_lease        lease -> removed queue offsets, ascending
    """

    __slots__ = ("by_lease", "leases", "queue_offsets")

    def __init__(self) -> None:
        self.leases: list[Lease | None] = []
        self.queue_offsets: list[int] = []
        self.by_lease: dict[Lease, list[int]] = {}


def find(table: LeaseTable, group: str, topic: str, handle: str) -> HandledMessage | None:
    """Returns the message of a handle; None if the handle is not valid."""
    cut = handle.rfind(" ") + 1
    source = _source(table, group, topic, handle[:cut])
    if source is None:
        return None
    queue_offset = number_of(handle[cut:])
    lease = _lease_of(source, queue_offset)
    return None if lease is None else HandledMessage(lease, queue_offset)


def take_out(table: LeaseTable, group: str, topic: str, handles: Sequence[str]) -> TakenOut:
    """Finds the messages of handles, and removes them from their leases, to be settled.

    If two handles name one message, the second handle is invalid.

    Cost     below 1 µs for each handle, when compiled
    """
    taken = TakenOut()
    prefix = ""
    source: _Source | None = None
    last: Lease | None = None
    queue_offsets: list[int] = []
    for handle in handles:
        if not prefix or not handle.startswith(prefix) or handle.find(" ", len(prefix)) >= 0:
            prefix = handle[: handle.rfind(" ") + 1]
            source = _source(table, group, topic, prefix)
        queue_offset = number_of(handle[len(prefix) :])
        lease = None if source is None else _lease_of(source, queue_offset)
        taken.leases.append(lease)
        taken.queue_offsets.append(queue_offset)
        if lease is None:
            continue
        if lease is not last:
            last = lease
            queue_offsets = taken.by_lease.setdefault(lease, [])
        table.take_one(lease, queue_offset)
        queue_offsets.append(queue_offset)
    for queue_offsets in taken.by_lease.values():
        queue_offsets.sort()
    return taken


def runs_of(
    handles: Sequence[str],
) -> list[tuple[LeasePlace | None, list[str], list[int]]]:
    """Groups adjacent handles with a common prefix: (prefix fields, handles, queue offsets).

    Shape    the prefix fields of invalid handles are None
    """
    runs: list[tuple[LeasePlace | None, list[str], list[int]]] = []
    prefix, queue_offsets, some = "", [0], [""]
    for handle in handles:
        cut = handle.rfind(" ") + 1
        queue_offset = number_of(handle[cut:])
        if not runs or handle[:cut] != prefix or queue_offset < 0 or not prefix:
            prefix = handle[:cut] if queue_offset >= 0 else ""
            some, queue_offsets = [], []
            runs.append((place_of(prefix) if prefix else None, some, queue_offsets))
        some.append(handle)
        queue_offsets.append(queue_offset)
    return runs


class _Source(NamedTuple):
    """Leases of a queue by queue offset, and the pop time of a handle."""

    leased: dict[int, Lease]
    popped_at_ms: int


def _source(table: LeaseTable, group: str, topic: str, prefix: str) -> _Source | None:
    place = place_of(prefix)
    if place is None:
        return None
    actual = actual_topic(group, topic, place.retry)
    queue = table.queues.get((group, actual, place.queue_id))
    return None if queue is None else _Source(queue.leased, place.popped_at_ms)


def _lease_of(source: _Source, queue_offset: int) -> Lease | None:
    """Returns the lease of a message; None if the handle is not valid for this lease."""
    leased, popped_at_ms = source
    lease = leased.get(queue_offset)
    if lease is None or not lease.first_popped_ms <= popped_at_ms <= lease.popped_at_ms:
        return None
    return lease


def actual_topic(group: str, topic: str, retry: int) -> str:
    """Returns the topic of a handle's message (format/receipt_handle.py)."""
    return topic if topic.startswith(RETRY_PREFIX) else topics_of(group, topic)[retry]


def topics_of(group: str, topic: str) -> list[str]:
    """Returns a topic and its retry topics, in the order of their numbers in handles."""
    return [
        topic, lease_retry_topic(group, topic), lease_retry_topic_v2(group, topic),
        retry_topic(group),
    ]  # fmt: skip


def handles_of(place: LeasePlace, queue_offsets: Sequence[int]) -> list[str]:
    """Returns the handles of messages of one lease."""
    prefix = place.prefix
    return [f"{prefix}{queue_offset}" for queue_offset in queue_offsets]
