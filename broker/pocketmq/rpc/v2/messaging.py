"""apache.rocketmq.v2.MessagingService: its methods on the broker's services."""

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.rpc.service import Service
from pocketmq.rpc.services import Services, ensure_group
from pocketmq.rpc.v2.ack import AckMethods
from pocketmq.rpc.v2.offsets import Offsets
from pocketmq.rpc.v2.receive_message import ReceiveMessage
from pocketmq.rpc.v2.routes import Routes
from pocketmq.rpc.v2.send_message import SendMessageV2
from pocketmq.rpc.v2.service_table import TABLE
from pocketmq.rpc.v2.telemetry import Telemetry
from pocketmq.rpc.v2.transactions import EndTransactionV2


class OfficialRules(NamedTuple):
    """Broker settings for official clients.

    broker              name of the broker
    advertised          "address:port" for clients that do not send the address they dialled
    body_size_max       returns the largest body accepted now
    auto_create_groups  returns whether a client's request creates a missing group
    """

    broker: str
    advertised: str
    body_size_max: Callable[[], int]
    auto_create_groups: Callable[[], bool]


class MessagingV2:
    """The methods of MessagingService."""

    __slots__ = (
        "_rules", "_store", "acks", "offsets", "receive_message", "routes", "sending", "sessions",
        "transactions",
    )  # fmt: skip

    def __init__(self, backing: Services, rules: OfficialRules) -> None:
        store, send, pull, query, consume, members, sessions, transactions, _ = backing
        self._store = store
        self._rules = rules
        ensure = self.ensure_group
        self.routes = Routes(
            rules.broker, rules.advertised, send.planned_topic, send.topic, ensure, sessions
        )
        self.sending = SendMessageV2(send)
        self.receive_message = ReceiveMessage(
            store, consume, sessions, members, pull.delivered, send.topic, ensure
        )
        self.acks = AckMethods(store, consume, sessions)
        self.sessions = Telemetry(store, sessions, rules.body_size_max, ensure, transactions)
        self.transactions = EndTransactionV2(transactions)
        self.offsets = Offsets(store, pull, query)

    def service(self) -> Service:
        """Returns the service."""
        return TABLE.face(self)

    async def ensure_group(self, group: str) -> None:
        """Creates a group, if it does not exist and groups are created on demand.

        Errors   GroupNotFound: groups are not created on demand; those of `GroupTable.ensure`
        """
        await ensure_group(self._store.tables.groups, group, self._rules.auto_create_groups)
