"""Ends transactions: applies decisions of producers, and puts the outcomes.

A decision names a half message by offsets, key and group. If the half message was stored again, the
decision applies to the latest copy. The first decision is applied. Repeating it gets the same
answer; the opposite decision gets an error that states the first decision.
Source: EndTransactionProcessor.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pocketmq.format.half_message import Half
from pocketmq.format.transaction_id import HalfPlace, read_transaction_id
from pocketmq.model.errors import (
    BrokerError,
    RequestError,
    TopicNotFound,
    TransactionDecided,
    TransactionUnknown,
)
from pocketmq.model.transaction import Decided, Decision, Resolution
from pocketmq.services.transaction.finding import HalfSearch
from pocketmq.services.transaction.half_table import PUT_MESSAGES_MAX, HalfTable
from pocketmq.services.transaction.halves import HalfState
from pocketmq.services.transaction.unresolved import UnresolvedHalves
from pocketmq.store.job import Job

STATES: Final = {
    Resolution.COMMIT: HalfState.COMMITTED,
    Resolution.ROLLBACK: HalfState.ROLLED_BACK,
}
FIRST: Final = {
    HalfState.COMMITTED: "committed",
    HalfState.ROLLED_BACK: "rolled back",
    HalfState.GIVEN_UP: "given up",
    HalfState.LOST: "given up, as its message is damaged",
}
"""Outcome -> text in the error of a later decision that contradicts the outcome."""
NO_ID: Final = "that is no transaction id"
NOT_THERE: Final = "no half message has these offsets, key and group"
NO_PLACE: Final = "its message names no target queue"
DAMAGED: Final = "its message is damaged"

Ended = Callable[[str, int, HalfState], None]
"""Called with (target topic, store time in ms, outcome) for each decided half message."""


class Said:
    """A decision in progress.

    place      position in the transaction id
    at         queue offset of the latest copy of the half message
    is_known   whether the half message at `place` was verified
    state      requested outcome
    found      outcome of an earlier decision; OPEN if there is none
    error      why the decision was not applied
    """

    __slots__ = ("at", "error", "found", "group", "is_done", "is_known", "place", "state", "text")

    def __init__(self, group: str, text: str, place: HalfPlace, state: HalfState) -> None:
        self.group = group
        self.text = text
        self.place = place
        self.at = place.queue_offset
        self.state = state
        self.error: BrokerError | None = None
        self.is_done = self.is_known = False
        self.found = HalfState.OPEN

    def unknown(self, why: str = NOT_THERE) -> None:
        """Fails the decision with TransactionUnknown."""
        self.fail(TransactionUnknown(transaction_id=self.text, group=self.group, why=why))

    def fail(self, error: BrokerError) -> None:
        """Fails the decision with an error."""
        assert not self.is_done
        self.error, self.is_done = error, True

    def compare(self, found: HalfState) -> None:
        """Completes a decision for a half message that was decided before."""
        self.found = found
        if found is not self.state:
            self.error = TransactionDecided(transaction_id=self.text, first=FIRST[found])
        self.is_done = True

    def means(self, half: Half) -> bool:
        """Returns whether the decision names this half message."""
        is_here = self.is_known or half.place.physical_offset == self.place.physical_offset
        return is_here and (half.group, half.place.unique_key) == (
            self.group, self.place.unique_key,
        )  # fmt: skip


class EndTransactions:
    """Applies decisions; all decisions of one loop iteration are put together.

    is_removed     returns whether a topic was removed
    queue_count    returns the number of write queues of a topic, 0 for an unknown topic
    """

    __slots__ = (
        "_doubts", "_ended", "_finding", "_is_removed", "_job", "_ledger", "_queue_count", "_said",
    )  # fmt: skip

    def __init__(
        self,
        ledger: HalfTable,
        finding: HalfSearch,
        doubts: UnresolvedHalves,
        ended: Ended,
        is_removed: Callable[[str], bool],
        queue_count: Callable[[str], int],
    ) -> None:
        self._ledger = ledger
        self._finding = finding
        self._doubts = doubts
        self._ended = ended
        self._is_removed = is_removed
        self._queue_count = queue_count
        self._said: list[Said] = []
        self._job: Job[None] | None = None

    async def decide(self, group: str, decisions: Sequence[Decision]) -> list[Decided]:
        """Applies decisions of a producer group; durable when this returns.

        Effects  UNKNOWN has no effect
        Errors   errors of reads and puts: some decisions may have been applied; the caller may
                 repeat all of them
        """
        said = [_said(group, *decision) for decision in decisions]
        waiting = [one for one in said if one is not None and not one.is_done]
        if waiting:
            self._said += waiting
            if self._job is None:
                self._job = Job(self._turn())
            await self._job
        for one in said:
            if one is not None and one.error and not isinstance(one.error, RequestError):
                raise one.error
        return [
            Decided(text, one.error if one is not None and one.error else None)  # type: ignore[arg-type]
            for one, (text, _) in zip(said, decisions, strict=True)
        ]

    async def state_of(self, half: Half) -> HalfState:
        """Returns the state of a half message; OPEN if it is undecided.

        Errors   StorageError, FollowersLate, DiskSlow
        """
        asked = Said(half.group, half.place.unique_key, half.place, HalfState.OPEN)
        await self._place(asked)
        return asked.found

    async def newest_of(self, half: Half) -> int:
        """Returns the queue offset of the newest copy of a half message.

        Errors   StorageError, FollowersLate, DiskSlow
        """
        first = await self._finding.first(half.group, half.place)
        at = half.place.queue_offset
        return at if first is None else max(at, (await self._finding.became(first)).queue_offset)

    async def _turn(self) -> None:
        self._job = None
        said, self._said = self._said, []
        halves = self._ledger.halves
        while said:
            fresh: list[Said] = []
            busy: list[Said] = []
            for one in said:
                try:
                    await self._place(one)
                except BrokerError as error:
                    one.fail(error)
                if one.is_done:
                    continue
                if halves.is_open(one.at):
                    self._ledger.take(one.at)
                    fresh.append(one)
                else:
                    busy.append(one)
            assert len({one.at for one in fresh}) == len(fresh), "two decisions for a half message"
            for begin in range(0, len(fresh), PUT_MESSAGES_MAX):
                await self._end(fresh[begin : begin + PUT_MESSAGES_MAX])
            for one in busy:
                await self._ledger.left(one.at)
            said = [one for one in said if not one.is_done]
        await self._doubts.tell()
        await self._ledger.durable()

    async def _place(self, one: Said) -> None:
        """Finds the half message that a decision names, and its state."""
        ledger, halves = self._ledger, self._ledger.halves
        if not await ledger.arrived(one.at, one.place.physical_offset):
            one.unknown()
            return
        await self._doubts.clear(one.at)
        while (state := halves.state(one.at)) not in (HalfState.OPEN, HalfState.TAKEN):
            first = await self._finding.first(one.group, one.place)
            if first is None:
                one.unknown()
                return
            one.is_known = True
            if state is HalfState.DONE:
                await self._doubts.clear_all(first)
                state = halves.state(one.at)
            if state is HalfState.MOVED:
                at = halves.moved_to(one.at)
            elif state is None or state is HalfState.DONE:
                state, at = await self._finding.became(first)
            if state is not HalfState.MOVED:
                one.compare(state)
                return
            if at == one.at:
                one.compare(HalfState.ROLLED_BACK)
                return
            one.at = at
            await self._doubts.clear(at)
            if not await ledger.arrived(at, first.physical_offset):
                one.unknown()
                return

    # -- ending open half messages ------------------------------------------------------------
    async def _end(self, taken: list[Said]) -> None:
        """Ends reserved half messages; releases the half messages that the read left out."""
        at_once: dict[int, Said] = {one.at: one for one in taken}
        try:
            found = await self._ledger.reading.read(sorted(at_once))
        except BrokerError as error:
            for one in taken:
                self._leave(one, error)
            return
        pairs: list[tuple[Said, Half]] = []
        size = 0
        for at, one in at_once.items():
            half = found.get(at)
            refusal = self._refusal(one, half) if at in found or not found else None
            if refusal is not None or half is None:
                self._leave(one, refusal)
                continue
            if pairs and size + len(half.record) > self._ledger.put_bytes:
                await self._put(pairs)
                pairs, size = [], 0
            pairs.append((one, half))
            size += len(half.record)
        if pairs:
            await self._put(pairs)

    def _refusal(self, one: Said, half: Half | None) -> BrokerError | None:
        """Returns why a decision cannot be applied to a half message; None: it can be applied."""
        why = ""
        if half is None:
            why = DAMAGED
        elif not one.means(half):
            why = NOT_THERE
        elif half.real is None and one.state is HalfState.COMMITTED:
            why = NO_PLACE
        elif one.state is HalfState.COMMITTED and self._is_removed(half.real.topic):  # type: ignore[union-attr]
            return TopicNotFound(topic=half.real.topic)  # type: ignore[union-attr]
        if not why:
            return None
        return TransactionUnknown(transaction_id=one.text, group=one.group, why=why)

    def _leave(self, one: Said, error: BrokerError | None) -> None:
        self._ledger.give_back(one.at)
        if error is not None:
            one.fail(error)

    async def _put(self, pairs: list[tuple[Said, Half]]) -> None:
        """Puts outcomes together; one by one if that put is refused."""
        runs = [
            self._ledger.committed(half, self._queue_count(half.real.topic))
            for one, half in pairs
            if one.state is HalfState.COMMITTED and half.real is not None
        ]
        try:
            await self._ledger.put([one.at for one, _ in pairs], runs)
        except RequestError as error:
            if len(pairs) > 1:
                for pair in pairs:
                    await self._put([pair])
                return
            self._leave(pairs[0][0], error)
        except BrokerError as error:
            for one, _ in pairs:
                self._leave(one, error)
        else:
            for one, half in pairs:
                self._ledger.finish(one.at, one.state)
                one.is_done = True
                topic = half.real.topic if half.real is not None else ""
                self._ended(topic, half.store_ms, one.state)


def _said(group: str, text: str, resolution: Resolution) -> Said | None:
    state = STATES.get(resolution, HalfState.OPEN)
    if state is HalfState.OPEN and text.strip():
        return None
    place = read_transaction_id(text)
    one = Said(group, text, place or HalfPlace(0, 0, text), state)
    if place is None:
        one.unknown(NO_ID)
    return one
