"""Consuming: receives, acknowledgements, and redelivery of messages whose lease expires.

Group and topic determine whether messages are delivered under leases (lease/) or in FIFO order
(fifo/). Receives without messages wait in long_poll.py. Handles contain the delivery mode.
Source: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, PopReviveService.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from pocketmq.model.administration import GroupConfig
from pocketmq.model.consuming import Leased, Received, ReceiveRequest, Settled, SettleStatus
from pocketmq.model.errors import BrokerError, GroupDisabled
from pocketmq.model.stats import Counter, Gauge, LabelValues, Stat
from pocketmq.model.step import Next, Now
from pocketmq.model.system_topics import leased_topic
from pocketmq.model.topic import TopicConfig, retry_topic
from pocketmq.services.consume.ack_mode import (
    ILLEGAL_TIME,
    AckMode,
    Entry,
    Settle,
    is_legal,
    settled_by_kind,
)
from pocketmq.services.consume.broadcasting import Broadcasting
from pocketmq.services.consume.clients import Clients
from pocketmq.services.consume.delivery import DeliveryMode
from pocketmq.services.consume.fifo.delivery import FifoDelivery
from pocketmq.services.consume.fifo.fifo_exit import FifoExit
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.journal import ConsumeSettings, Journal
from pocketmq.services.consume.lease.delivery import LeaseDelivery
from pocketmq.services.consume.lease.recovery import LeaseRecovery
from pocketmq.services.consume.leases import GroupQueue, LeaseTable
from pocketmq.services.consume.long_poll import LongPolls, handed_over, nothing
from pocketmq.services.consume.position import begin_in, without_offset
from pocketmq.services.consume.receive_mode import ReceiveMode, Taken
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.services.consume.returns import Returns
from pocketmq.services.consume.wakeup import Wakeup
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore

STEP_INTERVAL_MS: Final = 1_000
"""Longest time between two steps: the wall clock may be set, and offsets have to be persisted."""
DEAD_LETTER_LEVEL: Final = -1
"""Delay level that makes a message a dead letter at once."""


class Consume:
    """All receives of a broker, and their leases."""

    __slots__ = (
        "_acks", "_broadcasting", "_changed_groups", "_changed_topics", "_clock", "_fifo", "_job",
        "_lease", "_long_polls", "_modes", "_store", "_targets", "_wakeup", "clients",
        "is_lease_open", "returns", "stats",
    )  # fmt: skip

    def __init__(self, store: MessageStore, settings: ConsumeSettings) -> None:
        self._store = store
        self._clock = store.clock
        leases = LeaseTable()
        self.is_lease_open = leases.is_open
        self.clients = Clients()
        self._wakeup = Wakeup()
        redelivery = Redelivery(store.tables.topics, store.settings.levels, settings.store_host)
        self.returns = Returns(store, redelivery)
        journal = Journal(store, settings)
        self._fifo = FifoDelivery(store, leases, redelivery, settings.broker, self.clients)
        fifo_exit = FifoExit(store, self._fifo.table, leases, journal)
        self._lease = LeaseDelivery(
            store, leases, journal, redelivery, self.clients, self._wakeup, fifo_exit.leave
        )
        self._modes: tuple[DeliveryMode, ...] = (self._lease, self._fifo)
        self._broadcasting = Broadcasting(store)
        self._long_polls = LongPolls(store, self._receive_mode, self._release_soon, self._watched)
        for mode in self._modes:
            mode.receive.on_freed = self._serve_group
        self._targets: dict[str, dict[str, GroupTopic]] = {}
        """Targets by group and topic."""
        self._changed_topics: set[str] = set()
        self._changed_groups: set[str] = set()
        """Topics and groups that were created or changed since the last step."""
        store.tables.topics.follow(self._changed_topics.add)
        store.tables.groups.follow(self._changed_groups.add)
        self._job: Job[None] | None = None
        self._acks = Counter("pocketmq_ack_total", "Handles acknowledged.", ("result",))
        self.stats: list[Stat] = [
            Gauge("pocketmq_leases", "Messages under leases.", lambda: self.lease_count),
            self._acks,
            *self._lease.stats(),
        ]

    async def recover(self) -> None:
        """Rebuilds the leases of the store; called once, before any receive.

        Errors   StorageError, DiskSlow
        """
        assert not self._lease.table.count, "leases exist before recovery"
        if self._store.damage is None:
            await LeaseRecovery(self._store, self._lease.table).run()

    def watch_in_order(
        self,
        on_leased: Callable[[GroupQueue, Sequence[bytes], int], None],
        on_acked: Callable[[GroupQueue, Sequence[int], int], None],
    ) -> None:
        """Sets functions that are called for each delivery and acknowledgement in FIFO order.

        on_leased   called with a queue, records, and the wall time of the receive in ms
        on_acked    called with a queue, queue offsets, and the wall time of the receive in ms
        """
        self._fifo.receive.on_leased = on_leased
        self._fifo.ack.on_acked = on_acked

    # -- receiving -----------------------------------------------------------------------------
    def receive(self, request: ReceiveRequest) -> Received | Awaitable[Received]:
        """Returns leased messages, or an awaitable of them, which may be cancelled.

        Errors   GroupNotFound, GroupDisabled, TopicNotFound, TopicNotReadable, UnsupportedTopic,
                 TooManyRequests; errors of a put
        """
        group, topic = self._readable(request.group, request.topic)
        request = request.begun_by(group)
        if request.broadcast:
            return self._broadcasting.receive(request, self._readable)
        target = self._target(request.group, request.topic)
        target.is_ordered = bool(group.settings.fifo) or topic.is_fifo or request.in_order
        if request.has_begin:
            target.refresh()
            queues = without_offset(self._store, target.queues[0])
            if queues:
                return self._begin(request, target, queues)
        return self._received(request, target)

    async def _begin(
        self, request: ReceiveRequest, target: GroupTopic, queues: list[GroupQueue]
    ) -> Received:
        """Sets the group's first offsets, then receives."""
        await begin_in(self._store, queues, request.begin_ms)
        found = self._received(request, target)
        if isinstance(found, Received):
            return found
        release = partial(self.release, request.group, request.topic)
        return await handed_over(found, release)

    def _received(
        self, request: ReceiveRequest, target: GroupTopic
    ) -> Received | Awaitable[Received]:
        now_ms = self._clock.monotonic_ms()
        if request.client_id:
            self.clients.receives(request, now_ms)
        mode = self._mode(target).receive
        if request.attempt_id:
            for one in (self._lease.receive, mode) if target.is_ordered else (mode,):
                if one.was_given(request, target):
                    return self._receive(target, request, one, is_again=True)
        if target.parked and request.wait_ms > 0:
            return self._wait(target, request, now_ms)
        if mode.is_ready(target):
            return self._receive(target, request, mode)
        return self._wait(target, request, now_ms)

    def _mode(self, target: GroupTopic) -> DeliveryMode:
        return self._fifo if target.is_ordered else self._lease

    def _receive_mode(self, target: GroupTopic) -> ReceiveMode:
        return self._mode(target).receive

    def _wait(
        self, target: GroupTopic, request: ReceiveRequest, now_ms: int
    ) -> Received | Awaitable[Received]:
        if request.wait_ms <= 0 or self._long_polls.is_draining:
            return nothing(self._clock.wall_ms())
        deadline_ms = now_ms + request.wait_ms
        parked = self._long_polls.park(target, request, deadline_ms)
        self._wakeup.by(deadline_ms)
        return parked

    async def _receive(
        self,
        target: GroupTopic,
        request: ReceiveRequest,
        mode: ReceiveMode,
        *,
        is_again: bool = False,
    ) -> Received:
        begun_ms = self._clock.monotonic_ms()
        try:
            taken = await (mode.again if is_again else mode.take)(request, target)
        finally:
            self._long_polls.serve(target)
        if taken is None:
            left = request._replace(
                wait_ms=request.wait_ms - (self._clock.monotonic_ms() - begun_ms)
            )
            found = self._wait(target, left, self._clock.monotonic_ms())
            release = partial(self.release, request.group, request.topic)
            return found if isinstance(found, Received) else await handed_over(found, release)
        # `popped_at_ms` is not used: after the clock was set back, it may be in the future.
        left_ms = taken.received.invisible_until_ms - self._clock.wall_ms()
        self._wakeup.by(self._clock.monotonic_ms() + max(left_ms, 0))
        try:
            await mode.durable()
        except asyncio.CancelledError:
            self._release_soon(target, taken)
            raise
        return taken.received

    def release(self, group: str, topic: str, handles: Sequence[str]) -> None:
        """Makes messages that never reached their receiver visible again soon."""
        is_free = [mode.release(group, topic, handles) for mode in self._modes]
        if any(is_free):
            self._serve_group(group)

    def leave(self, client_id: str, group: str) -> None:
        """Ends the auto-renewed leases of a terminating client in a group, within about 1 s."""
        self.clients.forget(client_id, group)
        targets = self._targets.get(group, {}).values()
        for mode in self._modes:
            own = [target for target in targets if self._mode(target) is mode]
            if mode.leave(client_id, group, own):
                self._serve_group(group)

    def _release_soon(self, target: GroupTopic, taken: Taken) -> None:
        if taken.release():
            self._serve_group(target.group)

    def _readable(self, group: str, topic: str) -> tuple[GroupConfig, TopicConfig]:
        """Returns the configurations of a group and of a readable topic.

        Errors   GroupNotFound, GroupDisabled, TopicNotFound; errors of `check_readable`
        """
        found = self._store.tables.groups.existing(group)
        if found.settings.enabled is False:
            raise GroupDisabled(group=group)
        config = self._store.tables.topics.existing(topic)
        config.check_readable()
        return found, config

    def _target(self, group: str, topic: str) -> GroupTopic:
        found = self._targets.get(group, {}).get(topic)
        if found is None:
            found = GroupTopic(group, topic, self._store.tables.topics, self._lease.table)
            self._targets.setdefault(group, {})[topic] = found
        return found

    def _all_targets(self) -> list[GroupTopic]:
        return [target for its in self._targets.values() for target in its.values()]

    # -- settling ------------------------------------------------------------------------------
    async def ack(self, group: str, topic: str, handles: Sequence[str]) -> list[Settled]:
        """Acknowledges messages by their handles; results are in the order of the handles.

        A group that was turned off meanwhile settles what it has received.

        Errors   GroupNotFound; errors of a put: nothing was settled
        """
        self._store.tables.groups.existing(group)
        settled = await self._settled(handles, lambda mode: partial(mode.ack, group, topic))
        done = sum([entry.status is SettleStatus.OK for entry in settled])
        if done:
            self._acks.add((SettleStatus.OK.name,), done)
        if done < len(settled):
            invalid = SettleStatus.INVALID_RECEIPT_HANDLE.name
            self._acks.add((invalid,), len(settled) - done)
        self._serve_settled(group)
        return settled

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
        Errors         GroupNotFound; errors of a put: nothing was changed
        """
        self._store.tables.groups.existing(group)
        legal = [entry for entry in entries if is_legal(entry)]

        def changing(mode: AckMode) -> Settle[tuple[str, int]]:
            return partial(mode.change_invisible, group, topic, is_suspended=is_suspended)

        changed = iter(await self._settled(legal, changing))
        settled = [
            next(changed) if is_legal(entry) else Settled(ILLEGAL_TIME, entry[0])
            for entry in entries
        ]
        self._serve_settled(group)
        shortest_ms = min((ms for _, ms in entries), default=STEP_INTERVAL_MS)
        self._wakeup.by(self._clock.monotonic_ms() + max(shortest_ms, 0))
        return settled

    async def send_back(
        self, group: str, topic: str, entries: Sequence[tuple[str, int]]
    ) -> list[Settled]:
        """Schedules redelivery of messages by delay level.

        entries  (handle, level) of each message; 0: level by retry count, below 0: dead letter
        Errors   GroupNotFound; errors of a put: nothing was settled
        """
        config = self._store.tables.groups.existing(group)
        settled = await self._settled(entries, lambda mode: partial(mode.send_back, config, topic))
        self._serve_settled(group)
        return settled

    async def forward_to_dead_letters(
        self, group: str, topic: str, handles: Sequence[str]
    ) -> list[Settled]:
        """Makes messages dead letters of the group.

        Errors   GroupNotFound; errors of a put: nothing was settled
        """
        letters = [(handle, DEAD_LETTER_LEVEL) for handle in handles]
        settled = await self.send_back(group, topic, letters)
        count = sum(entry.status is SettleStatus.OK for entry in settled)
        if count:
            self._lease.revive.dead_letters.add((group, topic, "false"), count)
        return settled

    async def _settled(
        self, entries: Sequence[Entry], settle: Callable[[AckMode], Settle[Entry]]
    ) -> list[Settled]:
        return await settled_by_kind(entries, settle(self._lease.ack), settle(self._fifo.ack))

    def _serve_settled(self, group: str) -> None:
        """Serves a group's parked receives if a settlement may have made messages available.

        The receives may be of other topics than the settlement, as all of them read %RETRY%group.
        """
        for target in self._targets.get(group, {}).values():
            if self._mode(target).frees(target):
                self._long_polls.serve(target)

    def _serve_group(self, group: str) -> None:
        for target in self._targets.get(group, {}).values():
            self._long_polls.serve(target)

    def _serve_capped(self) -> None:
        """Serves parked receives whose queues had too many messages in flight.

        No message may arrive for them: expired leases may have ended as dead letters.
        """
        for target in self._all_targets():
            if target.is_capped:
                target.is_capped = False
                self._long_polls.serve(target)

    def _watched(self, target: GroupTopic) -> None:
        """Requests a step at the end of leases that block waiting receives."""
        end_ms = self._mode(target).watch_ends(target)
        if end_ms is not None:
            self._wakeup.by(max(end_ms, 0))

    def _look_again(self) -> None:
        """Serves parked receives after offset resets; fails them if group or topic was deleted."""
        for group, name in self._store.tables.offsets.set_back():
            topic = leased_topic(name, group)
            its = self._targets.get(group, {})
            # %RETRY%group contains messages of all topics of the group.
            topics = list(its) if name == retry_topic(group) else [topic]
            for target in [its[name] for name in topics if name in its]:
                check = partial(self._readable, group, target.topic)
                try:
                    check()
                except BrokerError:
                    self._long_polls.refuse(its.pop(target.topic), check)
                else:
                    self._serve(target)

    def _heed_changes(self) -> None:
        """Makes waiting calls wait for added queues too; fails those that may not receive."""
        topics, groups = self._changed_topics, self._changed_groups
        for group in groups:
            if self._store.tables.groups.find(group) is None:
                self._forget(group)
        for target in self._all_targets() if topics or groups else ():
            is_awaited = bool(target.parked or target.expecting)
            if is_awaited and (target.group in groups or target.reads(topics)):
                check = partial(self._readable, target.group, target.topic)
                self._long_polls.refuse(target, check)
                self._long_polls.watch(target)
                self._serve(target)
        topics.clear()
        groups.clear()

    def _serve(self, target: GroupTopic) -> None:
        """Serves parked receives; ends waits for a next message if there is one already."""
        self._long_polls.notify(target, partial(self._has_messages, target))
        self._long_polls.serve(target)

    def _forget(self, group: str) -> None:
        """Fails the parked receives of a removed group, and drops what memory has of its queues."""
        for target in self._targets.pop(group, {}).values():
            self._long_polls.refuse(target, partial(self._readable, group, target.topic))
        for place in self._lease.table.forget_group(group):
            self._fifo.table.forget(place)

    # -- background steps -----------------------------------------------------------------------
    def step(self, now: Now) -> Next:
        """Ends expired waits and leases, and persists offsets."""
        self._look_again()
        self._heed_changes()
        self._long_polls.end_waits(now.monotonic_ms, now.wall_ms)
        for target in self._fifo.ended(now.monotonic_ms):
            self._long_polls.serve(target)
        self._lease.write_offsets()
        if self._job is not None and self._job.is_done:
            job, self._job = self._job, None
            job.result()
            self._serve_capped()
        if self._job is None:
            work = self._lease.work(now.monotonic_ms)
            self._job = None if work is None else Job(work)
        if self._job is not None:
            return Next(now.monotonic_ms + STEP_INTERVAL_MS, self._job, 1)
        return self._wakeup.next(self._when_next(now))

    def _when_next(self, now: Now) -> int:
        at_ms = now.monotonic_ms + STEP_INTERVAL_MS
        ends = [mode.next_end_ms for mode in self._modes]
        for ends_ms in (*ends, self._long_polls.next_deadline_ms):
            if ends_ms is not None:
                at_ms = min(at_ms, max(ends_ms, now.monotonic_ms))
        return at_ms

    def in_flight(self) -> dict[LabelValues, float]:
        """Returns how many messages are leased, by (group, topic)."""
        rows = self.leased().items()
        return {names: float(sum(h.total for h in queues.values())) for names, queues in rows}

    def leased(self) -> Leased:
        """Returns the counts of leased messages in both delivery modes, by queue."""
        found = self._lease.table.held(self._store.tables.offsets.find)
        self._fifo.add_held(found)
        return found

    @property
    def lease_count(self) -> int:
        """Number of leased messages, and of unsettled messages delivered in order."""
        return self._lease.table.count + self._fifo.table.delivered_count

    @property
    def waiter_count(self) -> int:
        """Number of parked receives."""
        return self._long_polls.waiter_count

    def ready_count(self, group: str, topic: str) -> int:
        """Returns how many messages a group has not received from a topic and its retry topics."""
        find, range_of = self._store.tables.offsets.find, self._store.reading.queue_range
        count = 0
        for queue in self._target(group, topic).all_queues():
            lower, upper = range_of(queue.topic, queue.queue_id)
            stored = find(group, queue.topic, queue.queue_id)
            count += upper - min(max(stored or 0, lower), upper)
        return count

    async def expect(self, request: ReceiveRequest) -> bool:
        """Waits for messages like a receive, but leases none; returns whether there are any."""
        target = self._target(request.group, request.topic)
        waits = request.wait_ms > 0 and not self._long_polls.is_draining
        if waits and not self._has_messages(target, request):
            deadline_ms = self._clock.monotonic_ms() + request.wait_ms
            waiting = self._long_polls.expect(target, request, deadline_ms)
            self._wakeup.by(deadline_ms)
            await waiting
        return self._has_messages(target, request)

    def _has_messages(self, target: GroupTopic, request: ReceiveRequest) -> bool:
        if not request.in_order:
            return self.ready_count(request.group, request.topic) > 0
        mode = self._fifo.receive
        return mode.is_ready(target) or mode.was_given(request, target)

    def parked_count(self, group: str, topic: str) -> int:
        """Returns how many receives of a group wait for messages of a topic."""
        parked = self._target(group, topic).parked
        return sum(not one.future.done() for one in parked)

    def drain(self) -> None:
        """Answers all parked receives; later receives do not wait."""
        self._long_polls.drain()
        self._broadcasting.drain()

    async def close(self) -> None:
        """Ends background work, rewrites partly settled leases and persists offsets."""
        await self._long_polls.close()
        if self._job is not None:
            await self._job.reached()
        await self._lease.close()
