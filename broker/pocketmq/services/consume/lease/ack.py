"""Settles leased messages by their handles: acknowledged, hidden longer, sent back, dead-lettered.

    handles ─► leases ─► taken from the table ─► put: messages, then acks ─► durable ─► answered
                             a failed put returns them

The second of two calls for one handle gets an invalid handle. An expired lease can be settled until
its message is put again.
Source: AckMessageProcessor, ChangeInvisibleTimeProcessor, SendMessageProcessor.consumerSendMsgBack.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pocketmq.format.pop_records import Entry, PopCheckpoint
from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import Run
from pocketmq.model.consuming import INVISIBLE_MAX_MS, Settled, SettleStatus
from pocketmq.services.consume.handles import HandledMessage, TakenOut, find, take_out
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.message_store import MessageStore

OK: Final = SettleStatus.OK
INVALID: Final = SettleStatus.INVALID_RECEIPT_HANDLE
ILLEGAL_TIME: Final = SettleStatus.ILLEGAL_INVISIBLE_TIME

Moved = Callable[[bytes, Lease, int], Run]
"""(record, its lease, place in the call) -> the replacement of the record."""


class LeaseAck:
    """Settles leases."""

    __slots__ = ("_journal", "_leases", "_redelivery", "_store")

    def __init__(
        self, store: MessageStore, leases: LeaseTable, journal: Journal, redelivery: Redelivery
    ) -> None:
        self._store = store
        self._leases = leases
        self._journal = journal
        self._redelivery = redelivery

    def find(self, group: str, topic: str, handle: str) -> HandledMessage | None:
        """Returns the message of a handle, None where no lease it belongs to has it."""
        return find(self._leases, group, topic, handle)

    # -- acknowledged --------------------------------------------------------------------------
    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Settles messages for good.

        Errors   those of a put: nothing was settled
        """
        taken = take_out(self._leases, group, topic, handles)
        if taken.by_lease:
            acks = [self._journal.ack(lease, at) for lease, at in taken.by_lease.items()]
            await self._put(acks, [], taken.by_lease)
        return _told(handles, taken)

    async def _put(
        self, entries: list[Entry], runs: Sequence[Run], by_lease: dict[Lease, list[int]]
    ) -> int:
        """Puts the records that settle messages; returns the place of the first entry."""
        try:
            first = await self._journal.put(entries, runs)
        except BaseException:
            self._give_back(by_lease)
            raise
        for lease, queue_offsets in by_lease.items():
            self._leases.close(lease, len(queue_offsets))
        await self._journal.durable()
        return first

    def _give_back(self, by_lease: dict[Lease, list[int]]) -> None:
        for lease, queue_offsets in by_lease.items():
            self._leases.give_back(lease, queue_offsets)

    # -- hidden longer, or shorter -------------------------------------------------------------
    async def change_invisible(
        self,
        group: str,
        topic: str,
        entries: Sequence[tuple[str, int]],
        *,
        is_suspended: bool = False,
    ) -> list[Settled]:
        """Hides messages from now on for another time; old handles and new ones settle them.

        is_suspended   the delivery does not count as an attempt
        Errors   those of a put: nothing was changed
        """
        legal = [ms if 0 <= ms <= INVISIBLE_MAX_MS else -1 for _, ms in entries]
        handles = [handle for handle, _ in entries]
        asked = [handle if ms >= 0 else "" for handle, ms in zip(handles, legal, strict=True)]
        taken = take_out(self._leases, group, topic, asked)
        settled = _told(handles, taken)
        changes: list[tuple[Lease, list[int], int]] = []
        places: list[int] = []
        for place, lease in enumerate(taken.leases):
            if legal[place] < 0:
                settled[place] = Settled(ILLEGAL_TIME, handles[place])
            elif lease is not None:
                changes.append((lease, [taken.queue_offsets[place]], legal[place]))
                places.append(place)
        if changes:
            made = await self._extended(changes, taken.by_lease)
            for place, lease in zip(places, made, strict=True):
                lease.is_counted = not is_suspended
                settled[place] = Settled(OK, f"{lease.place.prefix}{lease.start_offset}")
            await self._journal.durable()
        return settled

    async def renew(self, leases: Iterable[Lease], invisible_ms: int) -> None:
        """Hides the unsettled messages of leases from now on for some time more.

        Errors   those of a put: they are as they were
        """
        by_lease = {lease: lease.pending() for lease in leases if lease.pending_count}
        if not by_lease:
            return
        for lease, queue_offsets in by_lease.items():
            self._leases.take(lease, queue_offsets)
        changes = [(lease, at, invisible_ms) for lease, at in by_lease.items()]
        await self._extended(changes, by_lease, is_renewed=True)

    async def _extended(
        self,
        changes: list[tuple[Lease, list[int], int]],
        by_lease: dict[Lease, list[int]],
        *,
        is_renewed: bool = False,
    ) -> list[Lease]:
        """Leases messages that were redelivered; returns the leases. Checkpoints come before acks.

        is_renewed   they go on to renew themselves; a time that was asked for ends when it is over
        """
        now_ms = self._store.clock.wall_ms()
        checkpoints = [
            PopCheckpoint(
                lease.batched._replace(
                    start_offset=at[0],
                    popped_at_ms=max(now_ms, lease.popped_at_ms + 1),
                    broker=self._journal.broker,
                ),
                at,
                invisible_ms,
                lease.revive_queue,
                lease.first_popped_ms,
            )
            for lease, at, invisible_ms in changes
        ]
        told = [self._journal.checkpoint(checkpoint) for checkpoint in checkpoints]
        acks = [self._journal.ack(lease, at) for lease, at in by_lease.items()]
        try:
            first = await self._journal.put([*told, *acks])
        except BaseException:
            self._give_back(by_lease)
            raise
        made: list[Lease] = []
        for i, (old, _, _) in enumerate(changes):
            lease = Lease(
                old.queue, checkpoints[i], first + i,
                first_popped_ms=old.first_popped_ms,
                client_id=old.client_id if is_renewed else "",
            )  # fmt: skip
            self._leases.add(lease, self._store.clock.monotonic_ms() + lease.invisible_ms)
            made.append(lease)
        for old, queue_offsets in by_lease.items():
            self._leases.close(old, len(queue_offsets))
        return made

    # -- sent back, given up -------------------------------------------------------------------
    async def send_back(
        self, group: GroupConfig, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Puts messages again behind a delay level, 0 for the usual one; below 0: give them up.

        Errors   those of a put: nothing was settled
        """
        await self._redelivery.prepare(group)
        levels = [level for _, level in entries]

        def moved(record: bytes, lease: Lease, place: int) -> Run:
            return self._redelivery.back(record, group, lease.queue.topic, levels[place])

        return await self._move(group.name, topic, [handle for handle, _ in entries], moved)

    async def give_up(
        self, group: GroupConfig, topic: str, handles: Sequence[str]
    ) -> list[Settled]:
        """Makes messages dead letters of their group.

        Errors   those of a put: nothing was settled
        """
        await self._redelivery.prepare(group)

        def moved(record: bytes, lease: Lease, _: int) -> Run:
            return self._redelivery.dead(record, group, lease.queue.topic)

        return await self._move(group.name, topic, handles, moved)

    async def _move(
        self, group: str, topic: str, handles: Sequence[str], moved: Moved
    ) -> list[Settled]:
        """Settles messages by putting others in their stead, as far as they are still there."""
        taken = take_out(self._leases, group, topic, handles)
        by_lease = taken.by_lease
        if not by_lease:
            return _told(handles, taken)
        pairs = zip(taken.leases, taken.queue_offsets, strict=True)
        places = {pair: place for place, pair in enumerate(pairs)}
        runs: list[Run] = []
        acks: list[Entry] = []
        try:
            for lease, queue_offsets in by_lease.items():
                records = await reread(self._store.reading, lease.queue, queue_offsets)
                runs += [moved(record, lease, places[lease, at]) for at, record in records.items()]
                acks.append(self._journal.ack(lease, queue_offsets))
        except BaseException:
            self._give_back(by_lease)
            raise
        await self._put(acks, runs, by_lease)
        return _told(handles, taken)


def _told(handles: Sequence[str], taken: TakenOut) -> list[Settled]:
    """Returns the answer of each handle."""
    return [
        Settled(INVALID if lease is None else OK, handle)
        for handle, lease in zip(handles, taken.leases, strict=True)
    ]
