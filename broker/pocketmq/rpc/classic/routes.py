"""The name server's requests: every topic is on this broker.

    105  GET_ROUTEINFO_BY_TOPIC     206  GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    106  GET_BROKER_CLUSTER_INFO    205  WIPE_WRITE_PERM_OF_BROKER, 327  ADD_WRITE_PERM_OF_BROKER

Slaves are listed in the cluster, but in no route.
Routes contain `broker.advertised_host` if it is set, else the address that the client reached.
A query creates no topic. For a missing topic, a producer queries the default topic's route next,
and its first message creates the topic. Clients that create topics by request query the route of
the cluster's or the broker's name, as every broker of RocketMQ has topics of these names.
Source: RouteInfoManager, ClientRequestProcessor, DefaultRequestProcessor of the name server.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pocketmq.model.errors import TopicNotFound
from pocketmq.model.topic import (
    DEFAULT_TOPIC,
    PERMISSION_INHERIT,
    PERMISSION_READ,
    PERMISSION_WRITE,
    TRACE_TOPIC,
    TopicConfig,
    retry_topic,
)
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.name_settings import ClassicNameSettings
from pocketmq.rpc.classic.retry_topics import topic_or_retry
from pocketmq.rpc.classic.slave_tables import SlaveTables
from pocketmq.rpc.classic.slaves import ClassicSlaves, SlaveRules
from pocketmq.services.sessions.slaves import SlaveRegistry
from pocketmq.store.tables.tables import Tables
from pocketmq.wire.remoting import Command

MASTER: Final = "0"
REPLY_TOPIC_END: Final = "_REPLY_TOPIC"
"""End of the name of a cluster's topic for replies, which stores nothing (MixAll)."""

CREATING: Final = PERMISSION_READ | PERMISSION_WRITE | PERMISSION_INHERIT
"""Permission of the topics whose routes clients query to create other topics."""


class ClassicRules(NamedTuple):
    """Broker settings for classic clients.

    broker, cluster     names
    advertised          "address:port" for all clients; "": the address that each client reached
    own                 "address:port" for a client if the address that it reached is unknown
    permission          returns the broker's own permission
    auto_create_topics  returns whether a send creates a missing topic
    queue_count         returns the number of queues of a topic that a send creates
    auto_create_groups  returns whether a heartbeat creates a missing group
    is_signed           whether the broker checks signatures
    ha_port             returns the port for slaves that replicate; 0: replication is not served
    """

    broker: str
    cluster: str
    advertised: str
    own: str
    permission: Callable[[], int]
    auto_create_topics: Callable[[], bool]
    queue_count: Callable[[], int]
    auto_create_groups: Callable[[], bool]
    is_signed: bool = False
    ha_port: Callable[[], int] = int

    def fixed_settings(self) -> dict[str, str]:
        """Returns RocketMQ's settings that its tools read, and that cannot be set here."""
        return {
            "brokerClusterName": self.cluster, "brokerId": "0", "brokerName": self.broker,
            "brokerRole": "ASYNC_MASTER", "filterServerNums": "0",
            "msgTraceTopicName": TRACE_TOPIC, "slaveReadEnable": "true", "traceOn": "true",
            "traceTopicEnable": "true", "useTLS": "true",
        }  # fmt: skip


class ClassicRoutes:
    """The requests that clients send to a name server."""

    __slots__ = (
        "_is_write_wiped", "_registry", "_rules", "_tables", "settings", "slaves",
    )  # fmt: skip

    def __init__(
        self,
        tables: Tables,
        rules: ClassicRules,
        registry: SlaveRegistry,
        now_ms: Callable[[], int],
    ) -> None:
        self._tables = tables
        self._rules = rules
        self.settings = ClassicNameSettings(tables, rules.broker)
        self._is_write_wiped = False
        self._registry = registry
        accepted = SlaveRules(
            rules.broker, rules.cluster, rules.is_signed, rules.ha_port, self._address
        )
        copied = SlaveTables(tables)
        self.slaves = ClassicSlaves(registry, accepted, self.settings, now_ms, copied)
        assert rules.own, "no address for clients"

    def route(self, request: Command, call: ClassicCall) -> Command:
        """Returns the route of a topic: the broker's address, and numbers of queues.

        Errors   MalformedRequest, TopicNotFound, UnsupportedTopic
        """
        config = self._config(text_field(request, "topic"))
        config.check_supported()
        name = self._rules.broker
        found: dict[str, Any] = {
            "brokerDatas": [self._broker(call)],
            "filterServerTable": {},
        }
        order = self.settings.order_of(config)
        if order is not None:
            found["orderTopicConf"] = order
        found["queueDatas"] = [
            {
                "brokerName": name,
                "perm": config.permission & self._permission(),
                "readQueueNums": config.read_queue_count,
                "topicSysFlag": 0,
                "writeQueueNums": config.write_queue_count,
            }
        ]
        return json_answer(found)

    def cluster(self, request: Command, call: ClassicCall) -> Command:
        """Returns the clusters and their brokers: only this broker, and its slaves."""
        rules, broker = self._rules, self._broker(call)
        slaves = self._registry.addresses().items()
        broker["brokerAddrs"] |= {str(number): address for number, address in slaves}
        return json_answer(
            {
                "brokerAddrTable": {rules.broker: broker},
                "clusterAddrTable": {rules.cluster: [rules.broker]},
            }
        )

    def topics(self, request: Command, call: ClassicCall) -> Command:
        """Returns the names of all topics, and of the retry topics of all groups.

        mqadmin derives its list of groups from the retry topics.
        """
        retries = map(retry_topic, self._tables.groups.names())
        return json_answer({"topicList": sorted({*self._tables.topics.names(), *retries})})

    def wipe_write(self, request: Command, call: ClassicCall) -> Command:
        """Removes the write permission from routes, until `add_write` or a restart.

        The broker does not refuse sends. Producers that know another broker send there. The answer
        contains the number of topics, 0 if the request names another broker.

        Errors   MalformedRequest
        """
        return Command(0, {"wipeTopicCount": str(self._set_write(request, is_wiped=True))})

    def add_write(self, request: Command, call: ClassicCall) -> Command:
        """Restores the write permission in routes; answers like `wipe_write`.

        Errors   MalformedRequest
        """
        return Command(0, {"addTopicCount": str(self._set_write(request, is_wiped=False))})

    def _set_write(self, request: Command, *, is_wiped: bool) -> int:
        if text_field(request, "brokerName") != self._rules.broker:
            return 0
        self._is_write_wiped = is_wiped
        return len(self._tables.topics.names())

    def _config(self, topic: str) -> TopicConfig:
        found = topic_or_retry(self._tables, topic)
        if found is not None:
            return found
        if topic in (TRACE_TOPIC, f"{self._rules.cluster}{REPLY_TOPIC_END}"):
            return TopicConfig(topic, 1, 1, PERMISSION_READ | PERMISSION_WRITE)
        if topic in (self._rules.cluster, self._rules.broker):
            return TopicConfig(topic, 1, 1, CREATING)
        if topic != DEFAULT_TOPIC or not self._rules.auto_create_topics():
            raise TopicNotFound(topic=topic)
        count = self._rules.queue_count()
        return TopicConfig(topic, count, count, CREATING)

    def _permission(self) -> int:
        found = self._rules.permission() | PERMISSION_INHERIT
        return found & ~PERMISSION_WRITE if self._is_write_wiped else found

    def _broker(self, call: ClassicCall) -> dict[str, Any]:
        rules = self._rules
        return {
            "brokerAddrs": {MASTER: self._address(call)},
            "brokerName": rules.broker,
            "cluster": rules.cluster,
            "enableActingMaster": False,
        }

    def _address(self, call: ClassicCall) -> str:
        rules = self._rules
        return rules.advertised or call.channel.local or rules.own
