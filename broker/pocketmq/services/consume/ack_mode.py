"""Settling of received messages by their handles, in the mode that each was delivered in."""

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
    """Settles messages; each handle is answered in its place."""

    __slots__ = ()

    @abstractmethod
    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Settles messages for good; durable when it returns.

        Errors   those of a put: nothing was settled
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
        """Hides messages from now on for another time; old handles and new ones settle them.

        entries        (handle, ms) each, 0 to 12 h
        is_suspended   their delivery does not count as an attempt
        Errors         those of a put: nothing was changed
        """

    @abstractmethod
    async def send_back(
        self, group: GroupConfig, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Puts messages again behind a delay level, or makes them dead letters of their group.

        entries   (handle, level) each: 0 for the usual level, below 0 for a dead letter
        Effects   of messages that are gone from the log nothing is put
        Errors    those of a put: nothing was settled
        """


async def settled_by_kind(
    entries: Sequence[Entry], lease: Settle[Entry], fifo: Settle[Entry]
) -> list[Settled]:
    """Settles each entry by the kind of its handle; results are in the order of the entries.

    A message delivered in order may have been leased without order since (fifo_exit.py).
    Shape    entries are handles, or begin with one
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
    """Returns whether a message may be hidden for so long: (handle, ms)."""
    return 0 <= entry[1] <= INVISIBLE_MAX_MS


def answers_of(handles: Sequence[str], found: Iterable[object]) -> list[Settled]:
    """Returns the answer of each handle: settled, where something true was found for it."""
    return [
        Settled(OK if one else INVALID, handle) for handle, one in zip(handles, found, strict=True)
    ]
