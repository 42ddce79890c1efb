"""Connects the handlers of classic requests with the broker's services."""

from pocketmq.rpc.call import Call
from pocketmq.rpc.classic.admin.methods import ClassicAdmin
from pocketmq.rpc.classic.consumers import ClassicConsuming
from pocketmq.rpc.classic.replies import ClassicReplies
from pocketmq.rpc.classic.routes import ClassicRoutes, ClassicRules
from pocketmq.rpc.classic.send_message import ClassicSend
from pocketmq.rpc.classic.service_table import TABLE
from pocketmq.rpc.classic.transactions import ClassicTransactions
from pocketmq.rpc.classic.unsupported import refusal_of
from pocketmq.rpc.service import Service
from pocketmq.rpc.services import Services
from pocketmq.wire.remoting import Command


class ClassicMethods:
    """The handlers of all request codes."""

    __slots__ = ("admin", "consume", "replies", "routes", "sending", "transactions")

    def __init__(
        self,
        backing: Services,
        rules: ClassicRules,
        admin: ClassicAdmin,
    ) -> None:
        self.admin = admin
        self.routes = ClassicRoutes(
            backing.store.tables, rules, backing.sessions.slaves, backing.store.clock.monotonic_ms
        )
        self.replies = ClassicReplies(backing)
        self.transactions = ClassicTransactions(backing.transactions)
        self.consume = ClassicConsuming(
            backing, rules.auto_create_groups, self.transactions, rules.broker
        )
        self.sending = ClassicSend(backing.send, self.consume.returns.prepared)

    def service(self) -> Service:
        """Returns the service."""
        return TABLE.face(self)

    def unsupported(self, request: Command, call: Call) -> Command:
        """Refuses a request code that has no row in the table.

        Errors   UnsupportedFeature
        """
        raise refusal_of(request.code)
