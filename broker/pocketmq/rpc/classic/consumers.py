"""The requests of classic consumers."""

from collections.abc import Callable

from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.offsets import ClassicOffsets
from pocketmq.rpc.classic.pull_message import ClassicPull
from pocketmq.rpc.classic.query_message import ClassicQuery
from pocketmq.rpc.classic.queue_locks import ClassicLocks
from pocketmq.rpc.classic.send_back import ClassicSendBack
from pocketmq.rpc.classic.transactions import ClassicTransactions
from pocketmq.rpc.services import Services


class ClassicConsuming:
    """The handlers of consumers' request codes.

    creates_groups   returns whether groups are created on demand
    """

    __slots__ = ("clients", "locks", "messages", "offsets", "pulls", "returns")

    def __init__(
        self,
        backing: Services,
        creates_groups: Callable[[], bool],
        producers: ClassicTransactions,
    ) -> None:
        self.clients = ClassicClients(backing, creates_groups, producers)
        self.locks = ClassicLocks(backing)
        self.pulls = ClassicPull(backing, self.clients)
        self.offsets = ClassicOffsets(backing, self.clients)
        self.returns = ClassicSendBack(backing, self.clients)
        self.messages = ClassicQuery(backing)
