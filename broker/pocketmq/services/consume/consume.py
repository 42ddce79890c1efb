"""Consuming under leases: receive, acknowledge, and redeliver unacknowledged messages in time.

    receive ─► lease/receive.py  leases available messages  (or long_poll: waits for them)
    ack …   ─► lease/ack.py      by handles
    step    ─► lease/revive.py   expired leases are redelivered with one more attempt
               journal.py  stores all of it as RocketMQ's own records in the log: kill -9 loses
                           nothing that a client had acknowledged (lease/recovery.py)

Source: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, PopReviveService.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from pocketmq.model.administration import GroupConfig
from pocketmq.model.consuming import Leased, Received, ReceiveRequest, Settled, SettleStatus
from pocketmq.model.errors import BrokerError, GroupDisabled
from pocketmq.model.stats import Counter, Gauge, LabelValues, Stat
from pocketmq.model.step import Next, Now
from pocketmq.model.system_topics import leased_topic
from pocketmq.model.topic import TopicConfig, retry_topic
from pocketmq.services.consume.broadcasting import Broadcasting
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.fifo.ack import settled_by_kind
from pocketmq.services.consume.fifo.fifo import Fifo
from pocketmq.services.consume.fifo.fifo_exit import LeavingOrder
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.journal import ConsumeSettings, Journal
from pocketmq.services.consume.lease.ack import LeaseAck
from pocketmq.services.consume.lease.receive import LeaseReceive
from pocketmq.services.consume.lease.recovery import LeaseRecovery
from pocketmq.services.consume.lease.revive import Reviving, revive_gauges
from pocketmq.services.consume.lease.undelivered import UndeliveredLeases
from pocketmq.services.consume.leases import LeaseTable
from pocketmq.services.consume.long_poll import (
    AnyTaken,
    LongPolls,
    Taker,
    handed_over,
    nothing,
)
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.wakeup import Wakeup
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore


# -- offset barrier ----------------------------------------------------------------------------
class OffsetBarrier:
    """Lets offsets go to disk (store/tables/lease_marks.py), with the deliveries in order."""

    __slots__ = ("_end", "_journal", "_leases", "_store")

    def __init__(self, store: MessageStore, leases: LeaseTable, journal: Journal) -> None:
        self._store = store
        self._leases = leases
        self._journal = journal
        self._end: int | None = None
        """Physical offset behind the journal at the last fence."""

    def write_down(self) -> None:
        """Passes a durable fence, and sets the next one."""
        self._store.tables.orders.save_soon()
        if not self._is_passed() or self._leases.has_foreign:
            return
        end = self._journal.end
        self._store.tables.offsets.fence(self._leases.journal_begin(end), end)
        self._end = self._store.marks.appended.value
        self._is_passed()

    def _is_passed(self) -> bool:
        """Passes the last fence where it is durable; returns whether none is left."""
        if self._end is not None and self._store.marks.flushed.value >= self._end:
            self._store.tables.offsets.pass_fence()
            self._end = None
        assert self._store.marks.flushed.value <= self._store.marks.appended.value
        return self._end is None


# -- the service -------------------------------------------------------------------------------
STEP_INTERVAL_MS: Final = 1_000
"""At most so long between two steps: wall time may jump, and offsets are written down."""


class Consume:
    """All receives of a broker, and their leases."""

    __slots__ = (
        "_acks", "_alarm", "_broadcasting", "_clock", "_fence", "_in_order",
        "_job", "_journal", "_leases", "_parking", "_reviving",
        "_settings", "_settling", "_store", "_taking", "_targets", "_unheard", "clients",
        "is_lease_open",
        "stats",
    )  # fmt: skip

    def __init__(self, store: MessageStore, settings: ConsumeSettings) -> None:
        self._store = store
        self._settings = settings
        self._clock = store.clock
        self._leases = leases = LeaseTable()
        self.is_lease_open = leases.is_open
        self._journal = journal = Journal(store, settings)
        self.clients = Clients()
        tables = store.tables
        redelivery = Redelivery(tables.topics, store.settings.levels, settings.store_host)
        self._settling = LeaseAck(store, leases, journal, redelivery)
        self._reviving = Reviving(store, leases, journal, redelivery, self._settling, self.clients)
        self._broadcasting = Broadcasting(store)
        self._in_order = Fifo(store, leases, redelivery, settings.broker, self._is_alive)
        leaving = LeavingOrder(store, self._in_order.table, leases, journal)
        self._taking = LeaseReceive(store, leases, journal, settings.in_flight_max, leaving.leave)
        self._alarm = Wakeup()
        self._unheard = UndeliveredLeases(
            store.clock, leases, self._settling, self._in_order, self._alarm
        )
        self._parking = LongPolls(store, self._taker, self._release_soon, self._watched)
        self._targets: dict[tuple[str, str], GroupTopic] = {}
        self._job: Job[None] | None = None
        self._fence = OffsetBarrier(store, leases, journal)
        self._acks = Counter("pocketmq_ack_total", "Handles acknowledged.", ("result",))
        self.stats: list[Stat] = [
            Gauge("pocketmq_leases", "Messages under leases.", lambda: self.lease_count),
            self._acks,
            self._reviving.expired,
            self._reviving.retried,
            self._reviving.dead_letters,
            journal.revive_in,
            Gauge(
                "rocketmq_pop_checkpoint_buffer_size", "Checkpoints that are not acknowledged.",
                lambda: leases.open_count,
            ),
            Gauge(
                "rocketmq_pop_offset_buffer_size", "Offsets moved by leases and not yet on disk.",
                lambda: len(tables.offsets.leases.held),
            ),
            *revive_gauges(leases, self._clock.monotonic_ms),
        ]  # fmt: skip

    async def recover(self) -> None:
        """Finds the leases of the store; once, before anything is received.

        Errors   Corruption, DiskSlow
        """
        assert not self._leases.count, "once, before anything is received"
        if self._store.damage is None:
            await LeaseRecovery(self._store, self._leases).run()

    # -- receiving -----------------------------------------------------------------------------
    def receive(self, request: ReceiveRequest) -> Received | Awaitable[Received]:
        """Returns messages under leases, or waits for some; the awaitable may be cancelled.

        Errors   GroupNotFound, GroupDisabled, TopicNotFound, TooManyRequests; those of a put
        """
        group, topic = self._readable(request.group, request.topic)
        if request.broadcast:
            return self._broadcasting.receive(request)
        target = self._target(request.group, request.topic)
        target.is_ordered = bool(group.settings.fifo) or topic.is_fifo
        now_ms = self._clock.monotonic_ms()
        if request.client_id:
            self.clients.receives(request, now_ms)
        before = self._taking.attempts.leased(request)
        if before:
            return self._taking.again(request, before)
        if target.is_ordered and self._in_order.taking.was_given(request, target):
            return self._receive(target, request)
        if target.parked and request.wait_ms > 0:
            return self._wait(target, request, now_ms)
        if self._taker(target).is_ready(target):
            return self._receive(target, request)
        return self._wait(target, request, now_ms)

    def _wait(
        self, target: GroupTopic, request: ReceiveRequest, now_ms: int
    ) -> Received | Awaitable[Received]:
        if request.wait_ms <= 0 or self._parking.is_draining:
            return nothing(self._clock.wall_ms())
        deadline_ms = now_ms + request.wait_ms
        parked = self._parking.park(target, request, deadline_ms)
        self._taking.attempts.wait(request, parked)
        self._alarm.by(deadline_ms)
        return parked

    async def _receive(self, target: GroupTopic, request: ReceiveRequest) -> Received:
        begun_ms = self._clock.monotonic_ms()
        taker = self._taker(target)
        try:
            taken = await taker.take(request, target)
        finally:
            self._parking.serve(target)
        if taken is None:
            left = request._replace(
                wait_ms=request.wait_ms - (self._clock.monotonic_ms() - begun_ms)
            )
            found = self._wait(target, left, self._clock.monotonic_ms())
            release = partial(self.release, request.group, request.topic)
            return found if isinstance(found, Received) else await handed_over(found, release)
        self._wake_by_end(taken)
        try:
            await taker.durable()
        except asyncio.CancelledError:
            self._release_soon(target, taken)
            raise
        return taken.received

    def _taker(self, target: GroupTopic) -> Taker:
        return self._in_order.taking if target.is_ordered else self._taking

    def release(self, group: str, topic: str, handles: Sequence[str]) -> None:
        """Makes messages visible soon whose receiver never got them."""
        if self._unheard.release(group, topic, handles):
            self._serve(group, topic)

    def leave(self, client_id: str, group: str) -> None:
        """Ends soon the leases that a terminating client kept alive for a group."""
        self._unheard.leave(client_id, group)
        self.clients.forget(client_id, group)
        for target in self._targets.values():
            is_its = target.group == group and target.is_ordered
            if is_its and self._in_order.leave(target, client_id):
                self._parking.serve(target)

    def _release_soon(self, target: GroupTopic, taken: AnyTaken) -> None:
        self._unheard.release_taken(taken)
        if target.is_ordered:
            self._parking.serve(target)

    def _readable(self, group: str, topic: str) -> tuple[GroupConfig, TopicConfig]:
        """Returns a group and a topic that it may receive from.

        Errors   GroupNotFound, GroupDisabled, TopicNotFound, …
        """
        found, config = self._group(group), self._store.tables.topics.existing(topic)
        config.check_readable()
        return found, config

    def _group(self, group: str) -> GroupConfig:
        config = self._store.tables.groups.existing(group)
        if config.settings.enabled is False:
            raise GroupDisabled(group=group)
        return config

    def _target(self, group: str, topic: str) -> GroupTopic:
        key = (group, topic)
        found = self._targets.get(key)
        if found is None:
            found = self._targets[key] = GroupTopic(
                group, topic, self._store.tables.topics, self._leases
            )
        return found

    # -- settling ------------------------------------------------------------------------------
    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Settles messages for good; each entry is answered in its place.

        Errors   GroupNotFound, GroupDisabled; those of a put: nothing was settled
        """
        self._group(group)
        leased, ordered = self._settling, self._in_order.settling
        settled = await settled_by_kind(
            handles, partial(leased.ack, group, topic), partial(ordered.ack, group, topic)
        )
        done = sum([entry.status is SettleStatus.OK for entry in settled])
        if done:
            self._acks.add((SettleStatus.OK.name,), done)
        if done < len(settled):
            invalid = SettleStatus.INVALID_RECEIPT_HANDLE.name
            self._acks.add((invalid,), len(settled) - done)
        self._serve_settled(group, topic)
        return settled

    async def change_invisible(
        self,
        group: str,
        topic: str,
        entries: Sequence[tuple[str, int]],
        *,
        is_suspended: bool = False,
    ) -> list[Settled]:
        """Hides messages for another time from now on: (handle, ms) each, 0 to 12 h.

        is_suspended   their delivery does not count as an attempt
        Errors   GroupNotFound, GroupDisabled; those of a put: nothing was changed
        """
        self._group(group)
        leased, ordered = self._settling, self._in_order.settling
        settled = await settled_by_kind(
            entries,
            partial(leased.change_invisible, group, topic, is_suspended=is_suspended),
            partial(ordered.change_invisible, group, topic, is_suspended=is_suspended),
        )
        self._serve_settled(group, topic)
        shortest_ms = min((ms for _, ms in entries), default=STEP_INTERVAL_MS)
        self._alarm.by(self._clock.monotonic_ms() + max(shortest_ms, 0))
        return settled

    async def send_back(
        self, group: str, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Schedules redelivery after a delay level: (handle, level) each, 0 for the default level.

        Errors   GroupNotFound, GroupDisabled; those of a put: nothing was settled
        """
        config, leased, ordered = self._group(group), self._settling, self._in_order.settling
        settled = await settled_by_kind(
            entries, partial(leased.send_back, config, topic),
            partial(ordered.send_back, config, topic),
        )  # fmt: skip
        self._serve_settled(group, topic)
        return settled

    async def forward_to_dead_letters(
        self, group: str, topic: str, handles: Sequence[str]
    ) -> list[Settled]:
        """Makes messages dead letters of their group.

        Errors   GroupNotFound, GroupDisabled; those of a put: nothing was settled
        """
        config, leased, ordered = self._group(group), self._settling, self._in_order.settling
        settled = await settled_by_kind(
            handles, partial(leased.give_up, config, topic),
            partial(ordered.give_up, config, topic),
        )  # fmt: skip
        self._serve_settled(group, topic)
        count = sum(entry.status is SettleStatus.OK for entry in settled)
        if count:
            self._reviving.dead_letters.add((group, topic, "false"), count)
        return settled

    def _serve_settled(self, group: str, topic: str) -> None:
        """Serves parked receives after a settlement that may have unblocked the next message."""
        target = self._targets.get((group, topic))
        if target is not None and (target.is_ordered or target.is_capped):
            target.is_capped = False
            self._parking.serve(target)

    def _watched(self, target: GroupTopic) -> None:
        """Schedules a wakeup for the end of leases that block waiting receives."""
        if target.is_ordered:
            self._in_order.watch_ends(target)
            end_ms = self._in_order.next_end_ms
            if end_ms is not None:
                self._alarm.by(max(end_ms, 0))

    def _look_again(self) -> None:
        """Serves parked receives after offset resets; refuses those of deleted groups or topics."""
        for group, name in self._store.tables.offsets.set_back():
            topic = leased_topic(name, group)
            keys = [(group, topic)]
            if name == retry_topic(group):  # All its topics come back by that one.
                keys = [key for key in self._targets if key[0] == group]
            for key in filter(self._targets.__contains__, keys):
                try:
                    self._readable(*key)
                except BrokerError:
                    self._parking.refuse(self._targets.pop(key), partial(self._readable, *key))
                else:
                    self._parking.serve(self._targets[key])

    def _serve(self, group: str, topic: str) -> None:
        target = self._targets.get((group, topic))
        if target is not None:
            self._parking.serve(target)

    # -- background steps -----------------------------------------------------------------------
    def step(self, now: Now) -> Next:
        """Ends expired waits and leases, and persists offsets."""
        self._look_again()
        self._parking.end_waits(now.monotonic_ms, now.wall_ms)
        for target in self._in_order.ended(now.monotonic_ms):
            self._parking.serve(target)
        self._fence.write_down()
        if self._job is not None and self._job.is_done:
            job, self._job = self._job, None
            job.result()
        if self._job is None:
            if self._unheard.has_some:
                self._job = Job(self._unheard.let_come())
            elif due := self._reviving.due(now.monotonic_ms):
                self._job = Job(self._reviving.end(due, now.monotonic_ms))
            elif old := self._reviving.old(self._settings.journal_max):
                self._job = Job(self._reviving.carry(old))
        if self._job is not None:
            return Next(now.monotonic_ms + STEP_INTERVAL_MS, self._job, 1)
        return self._alarm.next(self._when_next(now))

    def _when_next(self, now: Now) -> int:
        at_ms = now.monotonic_ms + STEP_INTERVAL_MS
        for ends_ms in (
            self._leases.next_end_ms, self._in_order.next_end_ms, self._parking.next_deadline_ms
        ):  # fmt: skip
            if ends_ms is not None:
                at_ms = min(at_ms, max(ends_ms, now.monotonic_ms))
        return at_ms

    def _wake_by_end(self, taken: AnyTaken) -> None:
        received = taken.received
        # Not from `popped_at_ms`: that is later where the clock was ahead, and was set right.
        left_ms = received.invisible_until_ms - self._clock.wall_ms()
        self._alarm.by(self._clock.monotonic_ms() + max(left_ms, 0))

    def in_flight(self) -> dict[LabelValues, float]:
        """Returns how many messages are leased, by (group, topic)."""
        rows = self.leased().items()
        return {names: float(sum(h.total for h in queues.values())) for names, queues in rows}

    def leased(self) -> Leased:
        """Returns the leased messages, in order or not, by queue."""
        found = self._leases.held(self._store.tables.offsets.find)
        self._in_order.table.add_held(found)
        return found

    @property
    def lease_count(self) -> int:
        """Messages that are leased, or in order and not settled since they were."""
        return self._leases.count + self._in_order.table.delivered_count

    def _is_alive(self, client_id: str, group: str) -> bool:
        return self.clients.is_alive(client_id, group, self._clock.monotonic_ms())

    @property
    def waiter_count(self) -> int:
        """Receives that are parked now."""
        return self._parking.waiter_count

    def drain(self) -> None:
        """Answers all parked receives, and parks no new ones."""
        self._parking.drain()
        self._broadcasting.drain()

    async def close(self) -> None:
        """Returns when all work has ended, and the end of the settled journal is known."""
        await self._parking.close()
        if self._job is not None:
            await self._job.reached()
        await self._reviving.carry_partly_settled()
        with suppress(BrokerError):  # A start reads more of the journal then.
            self._fence.write_down()
            if await self._store.writing.durable():
                self._fence.write_down()
