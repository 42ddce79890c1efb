"""Registrations of slave brokers, whose name server and master this broker is.

    103  REGISTER_BROKER    104  UNREGISTER_BROKER    322  QUERY_DATA_VERSION

Only slaves of this broker's own name and cluster are accepted: from loopback, or from any address
if requests are signed. A slave learns its master's addresses from the answer.
Source: DefaultRequestProcessor and RouteInfoManager of the name server, BrokerOuterAPI.
"""

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple
from zlib import crc32

from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.message import INT32_MAX
from pocketmq.model.page import is_loopback_peer
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import flag_field, number_field, text_field
from pocketmq.rpc.classic.json_body import body_of, whole_in
from pocketmq.rpc.classic.name_settings import ORDER_NAMESPACE, ClassicNameSettings
from pocketmq.rpc.classic.slave_tables import SlaveTables
from pocketmq.rpc.classic.status import NO_PERMISSION, OK
from pocketmq.rpc.service import MalformedRequest
from pocketmq.services.sessions.slaves import Slave, SlaveRegistry
from pocketmq.wire.remoting import Command

ADDRESS_SIZE_MAX: Final = 255
"""Upper limit of characters of a slave's address."""
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([1-9]\d{0,4})", re.ASCII)
_PORT_MAX: Final = 65_535
_VERSION: Final = ("counter", "stateVersion", "timestamp")
_CRC_MASK: Final = 0x7FFF_FFFF
_NOT_LOCAL: Final = Command(
    NO_PERMISSION,
    remark="without signatures, brokers register only from this machine (loopback); let this "
    "broker check signatures, and give the slave the access key of a user with update",
)


class SlaveRules(NamedTuple):
    """Names and addresses for the checks and answers of registrations.

    broker, cluster   names of this broker
    is_signed         whether only signed requests arrive
    ha_port           returns the port of replication; 0: replication is not served
    own_address       returns the master's address for a call
    """

    broker: str
    cluster: str
    is_signed: bool
    ha_port: Callable[[], int]
    own_address: Callable[[ClassicCall], str]


class ClassicSlaves:
    """The requests of slave brokers.

    registry   the registered slaves
    copy       handlers of the tables that slaves copy
    settings   contains the queues of ordered topics, which slaves get
    now_ms     returns the monotonic time
    """

    __slots__ = ("_now_ms", "_registry", "_rules", "_settings", "copy")

    def __init__(
        self,
        registry: SlaveRegistry,
        rules: SlaveRules,
        settings: ClassicNameSettings,
        now_ms: Callable[[], int],
        copy: SlaveTables,
    ) -> None:
        self.copy = copy
        self._registry = registry
        self._rules = rules
        self._settings = settings
        self._now_ms = now_ms
        assert rules.broker, "a broker without a name"

    def register(self, request: Command, call: ClassicCall) -> Command:
        """Registers a slave, and returns its master's addresses and the queues of ordered topics.

        Errors   MalformedRequest, IllegalNumber, UnsupportedFeature: a foreign broker;
                 CapacityReached
        """
        if not self._is_allowed(call):
            return _NOT_LOCAL
        broker_id, address = self._slave_of(request)
        expected = number_field(request, "bodyCrc32", lower=-INT32_MAX - 1, absent=0)
        if expected and expected != crc32(request.body) & _CRC_MASK:
            raise MalformedRequest(why="its body does not match bodyCrc32")
        version = "" if flag_field(request, "compressed") else _version_of(request)
        channel, registry = call.channel, self._registry
        if channel.is_open:
            slave = Slave(broker_id, address, version, channel, self._now_ms())
            if registry.register(slave):
                channel.when_gone(lambda: registry.gone(channel))
        address = self._rules.own_address(call)
        fields, ha_port = {"masterAddr": address}, self._rules.ha_port()
        if ha_port:
            fields["haServerAddr"] = f"{address.rpartition(':')[0]}:{ha_port}"
        asked = Command(request.code, {"namespace": ORDER_NAMESPACE})
        return Command(0, fields, self._settings.all_of(asked, call).body)

    def unregister(self, request: Command, call: ClassicCall) -> Command:
        """Removes a slave, if it is registered.

        Errors   MalformedRequest, IllegalNumber, UnsupportedFeature: a foreign broker
        """
        if not self._is_allowed(call):
            return _NOT_LOCAL
        self._registry.unregister(*self._slave_of(request))
        return OK

    def version(self, request: Command, call: ClassicCall) -> Command:
        """Returns whether a slave's topics differ from those it registered.

        If they do not differ, the registration is refreshed.

        Errors   MalformedRequest, IllegalNumber, UnsupportedFeature: a foreign broker;
                 CapacityReached
        """
        if not self._is_allowed(call):
            return _NOT_LOCAL
        known = self._registry.find(*self._slave_of(request))
        version = _version_in(body_of(request))
        is_same = known is not None and known.version == version
        if known is not None and is_same:
            self._registry.register(known._replace(seen_ms=self._now_ms()))
        body = b"" if known is None else known.version.encode()
        return Command(0, {"changed": "false" if is_same else "true"}, body)

    def _is_allowed(self, call: ClassicCall) -> bool:
        return self._rules.is_signed or is_loopback_peer(call.peer)

    def _slave_of(self, request: Command) -> tuple[int, str]:
        """Returns id and address of a slave of this broker."""
        name, cluster = text_field(request, "brokerName"), text_field(request, "clusterName")
        broker_id = number_field(request, "brokerId", upper=INT32_MAX)
        own = (self._rules.broker, self._rules.cluster)
        if (name, cluster) != own or not broker_id:
            role = "slave" if broker_id else "master"
            feature = (
                f"the {role} {name!r} of cluster {cluster!r}: this name server serves only the "
                f"master {own[0]!r} of cluster {own[1]!r} and its slaves (brokerId from 1 on); "
                "start a name server of RocketMQ for other brokers"
            )
            raise UnsupportedFeature(feature=feature)
        address = text_field(request, "brokerAddr")
        found = _ADDRESS.fullmatch(address) if len(address) <= ADDRESS_SIZE_MAX else None
        if found is None or int(found[2]) > _PORT_MAX:
            raise MalformedRequest(why="its brokerAddr is no HOST:PORT")
        return broker_id, address


def _version_of(request: Command) -> str:
    """Returns the version of the topics in a registration, "" without topics."""
    if not request.body:
        return ""
    topics = body_of(request).get("topicConfigSerializeWrapper")
    found = topics.get("dataVersion") if type(topics) is dict else None
    return _version_in(found) if type(found) is dict else ""


def _version_in(body: dict[str, object]) -> str:
    return json.dumps({name: whole_in(body, name) for name in _VERSION}, separators=(",", ":"))
