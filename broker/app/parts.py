"""What runs on an open store, put together.

store ─► services ─► faces
           └─► steps, counts
"""

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import NamedTuple

from broker.app.access import Door
from broker.app.official import official_of
from broker.config.addresses import advertised_address
from broker.config.live import LiveConfig
from broker.config.sections import KNOBS, Config
from broker.format.addresses import UniqueKeyMaker, pack_host
from broker.format.names import zone_from_name
from broker.model.stats import Gauge, Stat
from broker.model.step import Step
from broker.rpc.service import Service
from broker.rpc.v1.access import AccessFace
from broker.rpc.v1.admin import Admin
from broker.rpc.v1.messaging import Messaging
from broker.rpc.v1.transacting import Transacting
from broker.services.administration.members import Members
from broker.services.administration.status import Process
from broker.services.consume.consume import Consume
from broker.services.consume.journal import ConsumeSettings
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.retention import Retention, is_wanted
from broker.services.schedule.schedule import Schedule
from broker.services.sending.rules import SendRules
from broker.services.sending.send import Send
from broker.services.sessions.sessions import Sessions
from broker.services.timer.timer import Timer
from broker.services.transaction.checking import CheckRules
from broker.services.transaction.transactions import Transactions
from broker.store.message_store import MessageStore


class Parts(NamedTuple):
    """What runs on an open store."""

    send: Send
    pull: Pull
    consume: Consume
    members: Members
    sessions: Sessions
    schedule: Schedule
    timer: Timer
    transactions: Transactions
    retention: Retention
    door: Door
    services: list[Service]

    @property
    def steps(self) -> list[Step]:
        """What is to be called while the store is open."""
        later = [self.schedule.step, self.timer.step] if self.schedule.is_on else []
        return [self.retention.step, self.consume.step, self.transactions.step, *later]

    async def recover(self) -> None:
        """Find out what was under way when the store was closed, or killed.

        Errors   Corruption, DiskSlow
        """
        await self.consume.recover()
        await self.transactions.recover()

    def drain(self) -> None:
        """Send home who waits."""
        self.sessions.drain()
        self.pull.drain()
        self.consume.drain()
        self.transactions.drain()

    async def close(self) -> None:
        """Write down how far everything is; steps are not called any more."""
        await self.consume.close()
        await self.schedule.close()
        await self.transactions.close()
        await self.timer.close()

    def stats(self) -> list[Stat]:
        """What metrics show of them."""
        parts = (
            self.send, self.pull, self.consume, self.members, self.sessions, self.schedule,
            self.timer, self.transactions,
            self.retention, self.door.access,
        )  # fmt: skip
        found = [stat for part in parts for stat in part.stats]
        return [*found, long_poll_waiters(self.pull, self.consume)]


def long_poll_waiters(pull: Pull, consume: Consume) -> Gauge:
    """Return the gauge of all who wait for messages."""
    return Gauge(
        "pocketmq_long_poll_waiters",
        "Pulls and receives that wait for messages.",
        lambda: pull.waiter_count + consume.waiter_count,
    )


def parts_of(
    store: MessageStore, live: LiveConfig, bound: str, drain: Callable[[], None], door: Door
) -> Parts:
    """Return what runs on an open store.

    bound   the address clients come to
    drain   asks the broker to end
    door    who may come
    """
    config = live.config
    address, port = advertised_address(config.broker, bound)
    store_host = pack_host(address, port)
    keys = UniqueKeyMaker(
        address=address.packed, process_id=os.getpid(), random_bytes=secrets.token_bytes(4)
    )
    rules, random = _rules(config, store_host), Random(secrets.randbits(64))
    send = Send(store, rules, store.clock, key_maker=keys, random=random)
    live.follow(lambda config: send.take(_rules(config, store_host)))
    pull, query = Pull(store), Query(store)
    consume = Consume(store, consume_settings(config, store_host))
    members = Members(store.clock)
    transactions = Transactions(store, store_host, check_rules(config))
    live.follow(lambda config: transactions.take(check_rules(config)))
    transacting = Transacting(transactions)
    messaging = Messaging(store, send, pull, query, consume, members, transacting)
    timer = Timer(store, store_host, consume.is_lease_open)
    retention = retention_of(store, config, [timer.floor, transactions.floor])
    live.follow(
        lambda config: retention.take(config.retention_settings(), is_on=_expires(store, config))
    )
    process = Process(
        lambda: [
            (key, knob.text_of(live.config.value(key)), live.config.origin(key))
            for key, knob in KNOBS.items()
        ],
        drain,
        lambda: retention.status,
        store_host,
        members.of_group,
        consume.leased,
    )
    admin = Admin(store, pull, query, process, transacting)
    schedule = Schedule(store, store_host)
    sessions, official = official_of(
        store, send, pull, query, consume, members, transactions, live, f"{address}:{port}"
    )
    access = AccessFace(door.access, is_checked=door.is_checked)
    faces = (messaging.service(), admin.service(), access.service(), official.service())
    return Parts(
        send, pull, consume, members, sessions, schedule, timer, transactions, retention,
        door, door.guarded(faces),
    )  # fmt: skip


def _rules(config: Config, store_host: bytes) -> SendRules:
    return SendRules(
        store_host=store_host,
        cluster=config.broker.cluster,
        permission=config.broker.permission,
        accept_from_ms=config.broker.accept_from_ms,
        auto_create_topics=config.broker.auto_create_topics,
        default_queue_count=config.broker.default_queue_count,
        max_message_size_bytes=config.limits.max_message_size_bytes,
        delay_max_ms=config.limits.delay_max_ms,
        refuses_transactions=config.transactions.refuse,
        check_kinds=config.broker.check_message_types,
        dedupe_window_ms=config.broker.dedupe_window_ms,
    )


def consume_settings(config: Config, store_host: bytes) -> ConsumeSettings:
    """Return what of the settings consuming needs."""
    return ConsumeSettings(
        config.broker.cluster, config.broker.name, store_host, config.limits.in_flight_max
    )


def check_rules(config: Config) -> CheckRules:
    """Return when producers are asked about their transactions."""
    section = config.transactions
    return CheckRules(
        timeout_ms=section.timeout_ms,
        interval_ms=section.check_interval_ms,
        checks_max=section.checks_max,
        keep_ms=config.retention.age_ms,
    )


def retention_of(
    store: MessageStore, config: Config, floors: Sequence[Callable[[], int]] = ()
) -> Retention:
    """Return what lets an open store's old messages go.

    floors   physical offsets; nothing at or above the lowest of them goes
    """
    zone = zone_from_name(store.settings.time_zone)
    return Retention(
        store.views.expiry,
        config.retention_settings(),
        is_on=_expires(store, config),
        floors=floors,
        disk_space=store.disk_space,
        refuse=store.writing.refuse,
        hour_of=lambda now_ms: datetime.fromtimestamp(now_ms / 1000, zone).hour,
    )


def _expires(store: MessageStore, config: Config) -> bool:
    """Return whether messages of a store expire at all."""
    return store.damage is None and is_wanted(
        config.retention_settings(),
        made_here=store.made_here,
        is_configured=config.retention_is_set,
    )
