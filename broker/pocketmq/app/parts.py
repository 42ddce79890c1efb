"""Composes the parts that run on an open store.

store ─► services ─► protocols
           └─► steps, counts
"""

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.app.access import AccessControl
from pocketmq.app.backing import backing_of
from pocketmq.app.ports import Ports
from pocketmq.config.addresses import advertised_address
from pocketmq.config.live import LiveConfig
from pocketmq.config.port_sections import OFF
from pocketmq.config.rocketmq import rocketmq_rows
from pocketmq.config.sections import KNOBS, Config
from pocketmq.format.addresses import UniqueKeyMaker, pack_host, text_from_host
from pocketmq.format.names import zone_from_name
from pocketmq.model.stats import Gauge, Stat
from pocketmq.model.step import Step
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.methods import ClassicAdmin
from pocketmq.rpc.classic.messaging import ClassicMethods
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.read_only import of_follower
from pocketmq.rpc.service import Service
from pocketmq.rpc.services import Services
from pocketmq.rpc.v1.access import AccessFace
from pocketmq.rpc.v1.admin import AdminMethods
from pocketmq.rpc.v1.messaging import Messaging
from pocketmq.rpc.v1.replication import ReplicationFace
from pocketmq.rpc.v2.messaging import MessagingV2, OfficialRules
from pocketmq.services.admin.status import Process
from pocketmq.services.consume.consume import Consume
from pocketmq.services.delay.levels import Schedule
from pocketmq.services.delay.timer import Timer
from pocketmq.services.pull import Pull
from pocketmq.services.replication.confirming import InSync
from pocketmq.services.replication.leader import Leader
from pocketmq.services.replication.roles import Link, Roles
from pocketmq.services.retention import DiskSpace, FindHolder, Retention, is_wanted
from pocketmq.services.topic_retention import TopicRetention
from pocketmq.store.believed_clock import BelievedClock
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.holding import FOLLOWER, LEADER, RetentionHolder, holder_at
from pocketmq.store.recovery.cut import NOTHING_ASIDE, Aside
from pocketmq.store.tables.terms import TermTable

if TYPE_CHECKING:
    from pocketmq.rpc.replication.following import FollowerLink

DRAIN, SWITCH = "drain", "switch"
"""Reasons for which the broker ends its services without a signal: an operator's call, or a change
of its role in replication."""


class Replicated(NamedTuple):
    """The state of replication that a store's services need.

    following       the connection to the broker's leader; None: this broker leads
    aside           records that were set aside because the log had diverged
    """

    terms: TermTable
    following: "FollowerLink | None" = None
    aside: Aside = NOTHING_ASIDE

    def roles(self, store: MessageStore, leader: Leader, switch: Callable[[], None]) -> Roles:
        """Returns the broker's role; `switch` restarts the services after a change of the role."""
        link = link_of(self.following)
        return Roles(store, self.terms, leader, switch, link, self.aside)


class Parts(NamedTuple):
    """The services of an open store, and their protocols."""

    backing: Services
    schedule: Schedule
    timer: Timer
    retention: Retention
    leader: Leader
    door: AccessControl
    services: list[Service]
    following: "FollowerLink | None"
    """The connection to the broker's leader; None: this broker leads."""
    roles: Roles
    address: str
    """"host:port" that clients use."""

    @property
    def steps(self) -> list[Step]:
        """Steps of the services, to run while the store is open; a follower's put no records."""
        if self.following is not None:
            follower = [self.retention.step, self.backing.sessions.step, self.backing.rates.step]
            return [*follower, self.following.step]
        later = [self.schedule.step, self.timer.step] if self.schedule.is_on else []
        backing = self.backing
        return [
            self.retention.step, backing.consume.step, backing.transactions.step,
            backing.sessions.step, backing.rates.step, self.leader.step, self.leader.tables.step,
            *later,
        ]  # fmt: skip

    async def recover(self) -> None:
        """Recovers the leases and transactions that were open at the end of the last run.

        Errors   Corruption, DiskSlow
        """
        if self.following is not None:
            return
        await self.backing.consume.recover()
        await self.backing.transactions.recover()
        self.leader.tables.begin()  # Only now: recovery must not wait for followers.

    def drain(self) -> None:
        """Ends all waiting calls."""
        backing = self.backing
        backing.sessions.drain()
        backing.pull.drain()
        backing.consume.drain()
        backing.transactions.drain()
        backing.store.turns.drain()

    async def close(self) -> None:
        """Persists the progress of every part; the runner must be closed."""
        if self.following is not None:
            await self.following.end()
            return
        self.leader.tables.close()
        await self.backing.consume.close()
        await self.schedule.close()
        await self.backing.transactions.close()
        await self.timer.close()

    def stats(self) -> list[Stat]:
        """Returns the stats of all parts, for metrics."""
        _, send, pull, _, consume, members, sessions, transactions, _ = self.backing
        parts = (
            send, pull, consume, members, sessions, self.schedule, self.timer, transactions,
            self.retention, self.leader, self.roles, self.door.access,
        )  # fmt: skip
        found = [stat for part in parts for stat in part.stats]
        found += self.following.stats if self.following is not None else []
        return [*found, long_poll_waiters(pull, consume)]


def long_poll_waiters(pull: Pull, consume: Consume) -> Gauge:
    """Returns the gauge of waiting pulls and receives."""
    return Gauge(
        "pocketmq_long_poll_waiters",
        "Pulls and receives that wait for messages.",
        lambda: pull.waiter_count + consume.waiter_count,
    )


def parts_of(
    store: MessageStore,
    live: LiveConfig,
    ports: Ports,
    stop: Callable[[str], None],
    door: AccessControl,
    replicated: Replicated,
) -> Parts:
    """Returns the services that run on an open store.

    stop     called with DRAIN to stop the broker, or with SWITCH to restart its services
    """
    config = live.config
    address, port = advertised_address(config.broker, ports.grpc)
    store_host, where = pack_host(address, port), f"{address}:{port}"
    keys = UniqueKeyMaker(
        address=address.packed, process_id=os.getpid(), random_bytes=secrets.token_bytes(4)
    )
    backing = backing_of(store, live, store_host, keys)
    consume, transactions = backing.consume, backing.transactions
    schedule, timer = Schedule(store, store_host), Timer(store, store_host, consume.is_lease_open)
    leader = leader_of(store, config)
    pending = [schedule.floor, timer.floor, transactions.floor]
    floors = floors_of(leader, replicated, pending)
    retention = retention_of(store, config, floors, partial(held_by, store, leader, replicated))
    live.follow(
        lambda config: retention.take(config.retention_settings(), is_on=_expires(store, config))
    )
    process = Process(
        lambda: settings_rows(live),
        partial(stop, DRAIN),
        lambda: retention.status,
        store_host,
        backing.members.of_group,
        consume.leased,
        backing.members.counts,
        backing.rates.stored_tps, lambda: retention.send_refusal,
    )  # fmt: skip
    following = replicated.following
    roles = replicated.roles(store, leader, partial(stop, SWITCH))
    services = [
        Messaging(backing).service(),
        AdminMethods(backing, process).service(),
        AccessFace(door.access, is_checked=door.is_checked).service(),
        ReplicationFace(roles).service(),
        MessagingV2(backing, _official_rules(live, where)).service(),
    ]
    if config.rpc.offers_classic:
        rules = classic_rules(live, store_host)._replace(
            is_signed=door.is_checked, ha_port=lambda: ports.slaves.number
        )
        controls = _controls(live, door, process, retention)._replace(replicas=leader.rows)
        classic = ClassicMethods(backing, rules, ClassicAdmin(backing, rules, controls))
        services.append(classic.service())
    if following is not None:
        services = of_follower(services, store.settings.leader)
    return Parts(
        backing, schedule, timer, retention, leader, door,
        door.guarded(services, store.tables), following, roles, where,
    )  # fmt: skip


def link_of(following: "FollowerLink | None") -> Link | None:
    """Returns the functions of the connection to the leader that a change of the role calls."""
    if following is None:
        return None
    return Link(following.state, following.finish, following.end, following.start, following.cut)


def leader_of(store: MessageStore, config: Config) -> Leader:
    """Returns the leader of slave brokers."""
    section = config.replication
    in_sync = InSync(section.in_sync_replicas, section.all_in_sync, section.count_legacy_acks)
    return Leader(store, section.lag_max_bytes, in_sync)


def settings_rows(live: LiveConfig) -> list[tuple[str, str, str]]:
    """Returns key, value and origin of every setting."""
    return [
        (key, knob.text_of(live.config.value(key)), live.config.origin(key))
        for key, knob in KNOBS.items()
    ]


def _official_rules(live: LiveConfig, address: str) -> OfficialRules:
    return OfficialRules(
        live.config.broker.name,
        address,
        lambda: live.config.limits.max_message_size_bytes,
        lambda: live.config.broker.auto_create_groups,
    )


def _controls(
    live: LiveConfig, door: AccessControl, process: Process, retention: Retention
) -> Controls:
    return Controls(
        process.read_settings,
        retention.expire_soon,
        door.access if door.is_checked else None,
        settings_change(live, is_checked=door.is_checked),
        read_rocketmq=lambda: rocketmq_rows(live.config.value),
    )


def settings_change(live: LiveConfig, *, is_checked: bool) -> Callable[[str], None] | None:
    """Returns the function that changes settings over the network; None: refused to all clients.

    is_checked   whether calls must be signed, so that only admins change settings
    """
    return live.override if is_checked or live.config.access.check == OFF else None


def classic_rules(live: LiveConfig, store_host: bytes) -> ClassicRules:
    """Returns the settings for classic clients, which follow changes.

    store_host   packed store host for records
    """
    broker, own = live.config.broker, text_from_host(store_host)
    return ClassicRules(
        broker.name,
        broker.cluster,
        own if broker.advertised_host or broker.advertised_port else "",
        own,
        lambda: live.config.broker.permission,
        lambda: live.config.broker.auto_create_topics,
        lambda: live.config.broker.default_queue_count,
        lambda: live.config.broker.auto_create_groups,
    )


def floors_of(
    leader: Leader, replicated: Replicated, pending: Sequence[Callable[[], int]]
) -> list[Callable[[], int]]:
    """Returns functions that return physical offsets from which on the log is needed.

    pending   those of pending messages, which only a leader knows: a follower keeps what its leader
              keeps
    """
    following = replicated.following
    if following is None:
        return [leader.floor, *pending]
    return [leader.floor, following.floor]


async def held_by(
    store: MessageStore, leader: Leader, replicated: Replicated, floor: int
) -> RetentionHolder:
    """Returns what needs the log from the lowest floor on: a message, a follower or the leader."""
    if leader.floor() <= floor:
        return RetentionHolder(FOLLOWER, "", "", floor)
    if replicated.following is not None:
        return RetentionHolder(LEADER, "", "", floor)
    return await holder_at(store.reading, floor)


def retention_of(
    store: MessageStore,
    config: Config,
    floors: Sequence[Callable[[], int]] = (),
    find_holder: FindHolder | None = None,
) -> Retention:
    """Returns the retention service of an open store.

    floors        return physical offsets; files at or above the lowest of them are not removed
    find_holder   as in `Retention`
    """
    zone = zone_from_name(store.settings.time_zone)
    return Retention(
        store.views.expiry,
        config.retention_settings(),
        is_on=_expires(store, config),
        floors=floors,
        disk_space=lambda: DiskSpace(
            *store.disk_space(), store.log.file_size_bytes, store.settings.reserve_size_bytes
        ),
        refuse=store.writing.refuse,
        hour_of=lambda now_ms: datetime.fromtimestamp(now_ms / 1000, zone).hour,
        find_holder=find_holder,
        expire_topics=TopicRetention(store).expire,
        archived=store.tables.archive_mark.read,
        clock=_believed_clock(store),
    )


def _believed_clock(store: MessageStore) -> BelievedClock:
    believed, progress = store.tables.believed_time, store.timer.progress
    # The timer's progress is saved every few seconds, also while no messages are sent.
    seen_ms = max(store.marks.appended.time_ms, progress.version_timestamp)
    return BelievedClock(seen_ms, believed.time_ms, believed.put)


def _expires(store: MessageStore, config: Config) -> bool:
    return store.damage is None and is_wanted(
        config.retention_settings(),
        made_here=store.made_here,
        is_configured=config.retention_is_set,
    )
