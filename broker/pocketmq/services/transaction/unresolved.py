"""Resolves half messages that seem to be open, but were stored before the broker started.

The op message follows the outcome in the log; a RocketMQ broker writes it up to three seconds
later. So a power cut may lose only the op message. Before such a half message is decided or
checked, the log is searched for its outcome. If there is one, the missing op message is written:
without it, a RocketMQ broker would check the transaction, and the next start would search again.
"""

from contextlib import suppress

from pocketmq.model.errors import BrokerError
from pocketmq.model.message import StoredMessage
from pocketmq.services.transaction.duplicate_halves import Became
from pocketmq.services.transaction.finding import HalfSearch
from pocketmq.services.transaction.half_table import PUT_MESSAGES_MAX, HalfTable
from pocketmq.services.transaction.halves import HalfState


class UnresolvedHalves:
    """Resolves UNSURE half messages."""

    __slots__ = ("_done", "_finding", "_ledger")

    def __init__(self, ledger: HalfTable, finding: HalfSearch) -> None:
        self._ledger = ledger
        self._finding = finding
        self._done: list[int] = []

    async def clear(self, queue_offset: int) -> None:
        """Sets an UNSURE half message to OPEN or to its outcome; ignores other half messages.

        Cost     a few index queries by key for an UNSURE half message
        Errors   StorageError, FollowersLate, DiskSlow
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
        """Finds the outcomes of all UNSURE and DONE half messages with the key of `first`.

        Cost     one scan of the messages with this key
        Errors   those of `HalfSearch.became`
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
        """Puts the missing op messages; if a put is refused, the next start resolves them again."""
        done, self._done = self._done, []
        with suppress(BrokerError):
            for begin in range(0, len(done), PUT_MESSAGES_MAX):
                await self._ledger.put(done[begin : begin + PUT_MESSAGES_MAX], [])
