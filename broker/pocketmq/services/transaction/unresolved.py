"""Resolves half messages from before a start that appear to be open.

The outcome of a half message and its op message are adjacent, in this order, so a power cut may
lose the latter alone. A real broker writes it up to three seconds later. So such a half message is
searched in the log once, before it is decided or checked. The result is written to the log, as
otherwise a real broker would ask about it, and the next start would search it again.
"""

from contextlib import suppress

from pocketmq.model.errors import BrokerError
from pocketmq.model.message import StoredMessage
from pocketmq.services.transaction.duplicate_halves import Became
from pocketmq.services.transaction.finding import HalfSearch
from pocketmq.services.transaction.half_table import PUT_MESSAGES_MAX, HalfTable
from pocketmq.services.transaction.halves import HalfState


class UnresolvedHalves:
    """Clears up which half messages are open."""

    __slots__ = ("_done", "_finding", "_ledger")

    def __init__(self, ledger: HalfTable, finding: HalfSearch) -> None:
        self._ledger = ledger
        self._finding = finding
        self._done: list[int] = []

    async def clear(self, queue_offset: int) -> None:
        """Resolves whether a half message is open, or its outcome.

        Cost     some searches by key, for one from before the start
        Errors   Corruption, DiskSlow
        """
        halves = self._ledger.halves
        if halves.state(queue_offset) is not HalfState.UNSURE:
            return
        half = (await self._ledger.reading.read([queue_offset])).get(queue_offset)
        first = None if half is None else await self._finding.first(half.group, half.place)
        if first is not None:
            await self.clear_all(first)
        if halves.state(queue_offset) is HalfState.UNSURE:
            halves.believe(queue_offset)

    async def clear_all(self, first: StoredMessage) -> None:
        """Resolves all half messages of a key, and the outcome of those done before the start.

        Cost     one walk over the messages of that key: not one for each of them
        Errors   Corruption, DiskSlow
        """
        halves = self._ledger.halves
        for at, became in (await self._finding.became_all(first)).items():
            state = halves.state(at)
            if state is HalfState.UNSURE:
                self._settle(at, became)
            elif state is HalfState.DONE:
                halves.know(at, *became)

    def _settle(self, queue_offset: int, became: Became) -> None:
        halves, (state, later) = self._ledger.halves, became
        if state in (HalfState.COMMITTED, HalfState.GIVEN_UP):
            self._ledger.finish(queue_offset, state)
        elif state is HalfState.MOVED and later < halves.end:
            assert later > queue_offset
            self._ledger.finish(queue_offset, state, later)
        else:
            halves.believe(queue_offset)
            return
        self._done.append(queue_offset)

    async def tell(self) -> None:
        """Puts that those are done which were found to be.

        Effects  one message for many; nothing where it cannot be put: a start finds it again
        """
        done, self._done = self._done, []
        with suppress(BrokerError):
            for begin in range(0, len(done), PUT_MESSAGES_MAX):
                await self._ledger.put(done[begin : begin + PUT_MESSAGES_MAX], [])
