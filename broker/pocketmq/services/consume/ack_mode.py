"""Settles received messages by their handles, in the delivery mode of each message."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from pocketmq.format.receipt_handle import ORDERED
from pocketmq.model.administration import GroupConfig
from pocketmq.model.consuming import INVISIBLE_MAX_MS, Settled, SettleStatus
from pocketmq.services.consume.handles import runs_of

OK: Final = SettleStatus.OK
INVALID: Final = SettleStatus.INVALID_RECEIPT_HANDLE
ILLEGAL_TIME: Final = SettleStatus.ILLEGAL_INVISIBLE_TIME

_MARK: Final = f" {ORDERED} "
Entry = TypeVar("Entry", bound=str | tuple[str, int])
Settle = Callable[[Sequence[Entry]], Awaitable[list[Settled]]]


class AckMode(ABC):
    """Settles messages; results are in the order of the handles."""

    __slots__ = ()

    @abstractmethod
    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Acknowledges messages by their receipt handles; durable when it returns.

        Errors   errors of a put: nothing was settled
        """

    @abstractmethod
    async def change_invisible(
        self,
        group: str,
        topic: str,
        entries: Sequence[tuple[str, int]],
        *,
        is_suspended: bool = False,
    ) -> list[Settled]:
        """Changes the invisible duration of messages, counted from now.

        entries        (handle, invisible ms) of each message; 0 to 12 h
        is_suspended   whether the delivery of these messages does not count as an attempt
        Returns        the new handles; old and new handles both settle the messages
        Errors         errors of a put: nothing was changed
        """

    @abstractmethod
    async def send_back(
        self, group: GroupConfig, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Schedules redelivery of messages by delay level, or makes them dead letters.

        entries   (handle, level) of each message; 0: level by retry count, below 0: dead letter
        Effects   messages that were deleted from the log are settled without a redelivery
        Errors    errors of a put: nothing was settled
        """


async def settled_by_kind(
    entries: Sequence[Entry], lease: Settle[Entry], fifo: Settle[Entry]
) -> list[Settled]:
    """Settles each entry in the delivery mode of its handle; results are in the entries' order.

    If FIFO settling rejects a handle, the handle is tried under leases: the message may have become
    a lease after its delivery (fifo_exit.py).

    Shape    an entry is a handle, or a pair that begins with a handle
    """
    handles = [entry if isinstance(entry, str) else entry[0] for entry in entries]
    ordered: list[int] = []
    count = 0
    for place, some, _ in runs_of(handles) if any(_MARK in one for one in handles) else ():
        if place is not None and place.revive_queue == ORDERED:
            ordered += range(count, count + len(some))
        count += len(some)
    if not ordered:
        return await lease(entries)
    settled = await fifo([entries[i] for i in ordered])
    if len(settled) == len(entries) and not any(one.status is INVALID for one in settled):
        return settled
    answers = dict(zip(ordered, settled, strict=True))
    others = [i for i in range(len(entries)) if i not in answers or answers[i].status is INVALID]
    if others:
        answers |= zip(others, await lease([entries[i] for i in others]), strict=True)
    return [answers[i] for i in range(len(entries))]


def is_legal(entry: tuple[str, int]) -> bool:
    """Returns whether the invisible duration of a (handle, ms) entry is within the limits."""
    return 0 <= entry[1] <= INVISIBLE_MAX_MS


def answers_of(handles: Sequence[str], found: Iterable[object]) -> list[Settled]:
    """Returns the result of each handle: OK if its item in `found` is true, else INVALID."""
    return [
        Settled(OK if one else INVALID, handle) for handle, one in zip(handles, found, strict=True)
    ]
