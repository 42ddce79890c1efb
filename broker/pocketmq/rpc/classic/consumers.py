"""The requests of classic consumers."""

from collections.abc import Callable

from pocketmq.rpc.classic.assignments import ClassicAssignments
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.offsets import ClassicOffsets
from pocketmq.rpc.classic.pop_message import ClassicPop
from pocketmq.rpc.classic.pop_settle import ClassicSettle
from pocketmq.rpc.classic.pull_message import ClassicPull
from pocketmq.rpc.classic.pull_shortcut import ClassicPullShortcut
from pocketmq.rpc.classic.query_message import ClassicQuery
from pocketmq.rpc.classic.queue_locks import ClassicLocks
from pocketmq.rpc.classic.send_back import ClassicSendBack
from pocketmq.rpc.classic.transactions import ClassicTransactions
from pocketmq.rpc.services import Services


class ClassicConsuming:
    """The handlers of consumers' request codes.

    creates_groups   returns whether groups are created on demand
    broker           the broker's name
    """

    __slots__ = (
        "assignments", "clients", "locks", "messages", "offsets", "pops", "pull_shortcut", "pulls",
        "returns", "settled",
    )  # fmt: skip

    def __init__(
        self,
        backing: Services,
        creates_groups: Callable[[], bool],
        producers: ClassicTransactions,
        broker: str,
    ) -> None:
        self.clients = ClassicClients(backing, creates_groups, producers)
        self.locks = ClassicLocks(backing)
        self.pulls = ClassicPull(backing, self.clients)
        self.pull_shortcut = ClassicPullShortcut(backing, self.clients).serve
        self.offsets = ClassicOffsets(backing, self.clients)
        self.returns = ClassicSendBack(backing, self.clients)
        self.messages = ClassicQuery(backing)
        self.assignments = ClassicAssignments(backing, self.clients, broker)
        self.pops = ClassicPop(backing, self.clients)
        self.settled = ClassicSettle(backing)
