"""Builds the services of an open store from settings."""

from random import Random
from secrets import randbits

from pocketmq.config.live import LiveConfig
from pocketmq.config.sections import Config
from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.model.begin import begin_from_text
from pocketmq.rpc.services import Services
from pocketmq.services.admin.members import Members
from pocketmq.services.admin.rates import Rates
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull
from pocketmq.services.query import Query
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.services.transaction.checking import CheckRules
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.tables import Tables


def backing_of(
    store: MessageStore, live: LiveConfig, store_host: bytes, keys: UniqueKeyMaker
) -> Services:
    """Returns the services of an open store, which follow changes of the settings.

    store_host   packed store host for records
    keys         generates unique keys for messages without one
    """
    config, clock = live.config, store.clock
    bound_tables(store.tables, config)
    live.follow(lambda config: bound_tables(store.tables, config))
    rules, random = send_rules(config, store_host), Random(randbits(64))
    send = Send(store, rules, clock, key_maker=keys, random=random)
    live.follow(lambda config: send.take(send_rules(config, store_host)))
    consume = Consume(store, consume_settings(config, store_host))
    transactions = Transactions(store, store_host, check_rules(config))
    live.follow(lambda config: transactions.take(check_rules(config)))
    clients = consume.clients
    sessions = Sessions(
        lambda client_id, group: clients.touch(client_id, group, clock.monotonic_ms()),
        consume.leave,
    )
    members = Members(clock)
    pull = Pull(store)
    rates = Rates(send.counts.counters, pull.delivered, store.clock, live.config.broker.cluster)
    return Services(
        store, send, pull, Query(store), consume, members, sessions, transactions, rates
    )


def bound_tables(tables: Tables, config: Config) -> None:
    """Sets limits of topics, queues and groups, and where new groups begin, from the settings."""
    limits = config.limits
    tables.topics.count_max = limits.topics_max
    tables.topics.queue_count_max = limits.queues_max
    tables.groups.count_max = limits.groups_max
    tables.groups.begin_ms = begin_from_text(config.broker.group_begin)


def send_rules(config: Config, store_host: bytes) -> SendRules:
    """Returns the rules of sending from the settings."""
    return SendRules(
        store_host=store_host,
        cluster=config.broker.cluster,
        permission=config.broker.permission,
        accept_from_ms=config.broker.accept_from_ms,
        auto_create_topics=config.broker.auto_create_topics,
        default_queue_count=config.broker.default_queue_count,
        default_type=config.broker.default_topic_type.upper(),
        max_message_size_bytes=config.limits.max_message_size_bytes,
        delay_max_ms=config.limits.delay_max_ms,
        refuses_transactions=config.transactions.refuse,
        check_kinds=config.broker.check_message_types,
        dedupe_window_ms=config.broker.dedupe_window_ms,
    )


def consume_settings(config: Config, store_host: bytes) -> ConsumeSettings:
    """Returns the settings of consuming."""
    return ConsumeSettings(
        config.broker.cluster, config.broker.name, store_host, config.limits.in_flight_max
    )


def check_rules(config: Config) -> CheckRules:
    """Returns the rules of transaction checks from the settings."""
    section = config.transactions
    return CheckRules(
        timeout_ms=section.timeout_ms,
        interval_ms=section.check_interval_ms,
        checks_max=section.checks_max,
        keep_ms=config.retention.age_ms,
    )
