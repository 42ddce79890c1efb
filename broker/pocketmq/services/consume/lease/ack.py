"""Settles leased messages by their handles: acknowledges, hides or sends them back.

Messages are removed from their leases, then replacements and acks are put. If the put fails, the
messages return to their leases. The second of two calls with one handle is answered with
INVALID_RECEIPT_HANDLE. Messages of an expired lease can be settled until they are revived (stored
in the retry topic).
Source: AckMessageProcessor, ChangeInvisibleTimeProcessor, SendMessageProcessor.consumerSendMsgBack.
"""

from collections.abc import Iterable, Sequence

from pocketmq.format.pop_records import Entry
from pocketmq.model.administration import GroupConfig
from pocketmq.model.batch import Run
from pocketmq.model.consuming import Settled
from pocketmq.services.consume.ack_mode import OK, AckMode, answers_of
from pocketmq.services.consume.handles import take_out
from pocketmq.services.consume.journal import Journal
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.reread import reread
from pocketmq.store.message_store import MessageStore


class LeaseAck(AckMode):
    """Settles messages under leases."""

    __slots__ = ("_journal", "_leases", "_redelivery", "_store")

    def __init__(
        self, store: MessageStore, leases: LeaseTable, journal: Journal, redelivery: Redelivery
    ) -> None:
        self._store = store
        self._leases = leases
        self._journal = journal
        self._redelivery = redelivery

    # -- acknowledged --------------------------------------------------------------------------
    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Acknowledges messages by acks in the journal."""
        taken = take_out(self._leases, group, topic, handles)
        if taken.by_lease:
            acks = [self._journal.ack(lease, at) for lease, at in taken.by_lease.items()]
            await self._put(acks, [], taken.by_lease)
        return answers_of(handles, taken.leases)

    async def _put(
        self, entries: list[Entry], runs: Sequence[Run], by_lease: dict[Lease, list[int]]
    ) -> int:
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

    # -- invisible durations -------------------------------------------------------------------
    async def change_invisible(
        self,
        group: str,
        topic: str,
        entries: Sequence[tuple[str, int]],
        *,
        is_suspended: bool = False,
    ) -> list[Settled]:
        """Replaces the leases of messages by leases with other invisible durations."""
        handles = [handle for handle, _ in entries]
        taken = take_out(self._leases, group, topic, handles)
        settled = answers_of(handles, taken.leases)
        changes: list[tuple[Lease, list[int], int]] = []
        places: list[int] = []
        for place, lease in enumerate(taken.leases):
            if lease is not None:
                changes.append((lease, [taken.queue_offsets[place]], entries[place][1]))
                places.append(place)
        if changes:
            made = await self._extended(changes, taken.by_lease)
            for place, lease in zip(places, made, strict=True):
                lease.is_counted = not is_suspended
                settled[place] = Settled(OK, f"{lease.place.prefix}{lease.start_offset}")
            await self._journal.durable()
        return settled

    async def renew(self, leases: Iterable[Lease], invisible_ms: int) -> None:
        """Renews leases: unsettled messages stay invisible for `invisible_ms` from now on.

        Errors   errors of a put: the leases are unchanged
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
        """Replaces leases by leases with other invisible durations; returns the new leases.

        is_renewed   whether the new leases are renewed while their client is alive
        """
        now_ms = self._store.clock.wall_ms()
        checkpoints = [
            self._journal.checkpoint_of(
                lease.queue,
                at,
                max(now_ms, lease.popped_at_ms + 1),
                invisible_ms,
                lease.revive_queue,
                lease.first_popped_ms,
            )
            for lease, at, invisible_ms in changes
        ]
        entries = [self._journal.checkpoint(checkpoint) for checkpoint in checkpoints]
        acks = [self._journal.ack(lease, at) for lease, at in by_lease.items()]
        try:
            first = await self._journal.put([*entries, *acks])
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

    # -- sent back, dead-lettered --------------------------------------------------------------
    async def send_back(
        self, group: GroupConfig, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Sends messages back: one put stores retry or dead-letter copies, and acks."""
        await self._redelivery.prepare(group)
        handles = [handle for handle, _ in entries]
        taken = take_out(self._leases, group.name, topic, handles)
        by_lease = taken.by_lease
        levels = {
            (lease, queue_offset): level
            for lease, queue_offset, (_, level) in zip(
                taken.leases, taken.queue_offsets, entries, strict=True
            )
        }
        runs: list[Run] = []
        acks: list[Entry] = []
        try:
            for lease, queue_offsets in by_lease.items():
                name = lease.queue.topic
                records = await reread(self._store.reading, lease.queue, queue_offsets)
                runs += [
                    self._redelivery.back(record, group, name, levels[lease, queue_offset])
                    for queue_offset, record in records.items()
                ]
                acks.append(self._journal.ack(lease, queue_offsets))
        except BaseException:
            self._give_back(by_lease)
            raise
        if acks:
            await self._put(acks, runs, by_lease)
        return answers_of(handles, taken.leases)
