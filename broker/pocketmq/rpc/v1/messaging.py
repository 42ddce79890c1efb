"""pocketmq.v1.Broker: sending, pulling, receiving, queries, and offsets of groups.

Each method checks the request, calls a service, and converts its result.
"""

from functools import partial
from typing import Final

from pocketmq.model.names import check_group, check_number, check_producers
from pocketmq.model.reading import Bound
from pocketmq.model.transaction import Check
from pocketmq.rpc.call import Call
from pocketmq.rpc.in_turns import in_turns
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.permissions import PUB, group_need, topic_need
from pocketmq.rpc.service import Service
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import (
    check_client_locates,
    check_client_reads,
    find_readable,
)
from pocketmq.rpc.v1.consuming import ConsumeMethods
from pocketmq.rpc.v1.end_transaction import EndTransaction
from pocketmq.rpc.v1.pull_message import PullMessage, check_id, effective_wait_ms
from pocketmq.rpc.v1.query_messages import QueryMessages
from pocketmq.rpc.v1.send_message import SendMessage
from pocketmq.rpc.v1.service_table import BROKER_TABLE
from pocketmq.rpc.v1.stored_reply import proto_halves
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.begins import commit_offset

# -- CheckTransactions -------------------------------------------------------------------------
CHECKS_MAX: Final = 32
"""Upper limit of checks in one answer."""


class CheckTransactions:
    """The method CheckTransactions."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(
        self, request: pb.CheckTransactionsRequest, call: Call
    ) -> pb.CheckTransactionsResponse:
        """Returns transaction checks for a producer group, at once or when one is due.

        Errors   IllegalGroup, IllegalNumber, MalformedRequest
        """
        check_producers(request.group)
        check_number("max", request.max, upper=CHECKS_MAX)
        check_number("wait_ms", request.wait_ms)
        check_id("client_id", request.client_id)
        wait_ms = effective_wait_ms(request.wait_ms, call)
        count_max = request.max or CHECKS_MAX
        needed = group_need(request.group, PUB)

        def takes(check: Check) -> bool:
            return call.may(needed) and (not check.topic or call.may(topic_need(check.topic, PUB)))

        checks = await self._transactions.asked(request.group, count_max, wait_ms, takes)
        messages = proto_halves(check.record for check in checks)
        return pb.CheckTransactionsResponse(checks=map(_check, checks, messages))


def _check(check: Check, message: pb.StoredMessage) -> pb.TransactionCheck:
    return pb.TransactionCheck(
        transaction_id=check.transaction_id, message=message, checks=check.checks
    )


# -- Broker ------------------------------------------------------------------------------------
class Messaging:
    """The methods of pocketmq.v1.Broker."""

    __slots__ = (
        "_query", "_send", "_store", "check_transactions", "consuming", "end_transaction",
        "pull_message", "query_messages", "send_message",
    )  # fmt: skip

    def __init__(self, backing: Services) -> None:
        self._store = store = backing.store
        self._query = query = backing.query
        self._send = send = backing.send
        pull, members = backing.pull, backing.members
        self.end_transaction = EndTransaction(backing.transactions)
        self.check_transactions = CheckTransactions(backing.transactions)
        self.query_messages = QueryMessages(query, store.tables, check=check_client_reads)
        self.send_message = SendMessage(send)
        self.consuming = ConsumeMethods(
            store, backing.consume, pull, members, backing.sessions.classic.check_leasable
        )
        self.pull_message = PullMessage(store, pull, check=check_client_reads, members=members)

    def service(self) -> Service:
        """Returns the service."""
        return BROKER_TABLE.face(self, partial(in_turns, self._store.turns), {"QueryByKey"})

    async def recall(self, request: pb.RecallRequest, call: Call) -> pb.RecallResponse:
        """Recalls a delayed message before its delivery.

        Errors   those of `Recall.recall`
        """
        recall = self._send.recall.recall
        message_id = await recall(request.topic, request.recall_handle, call.peer_host)
        return pb.RecallResponse(message_id=message_id)

    async def query_by_time(
        self, request: pb.QueryByTimeRequest, call: Call
    ) -> pb.QueryByTimeResponse:
        """Returns the queue offset for a store time.

        Errors   those of `find_readable` and `check_queue`; IllegalNumber
        """
        self._locate(request.topic, request.queue_id)
        check_number("bound", request.bound, upper=pb.UPPER)
        queue_offset = await self._query.offset_by_time(
            request.topic, request.queue_id, request.time_ms, Bound(request.bound)
        )
        return pb.QueryByTimeResponse(queue_offset=queue_offset)

    async def query_offsets(
        self, request: pb.QueryOffsetsRequest, call: Call
    ) -> pb.QueryOffsetsResponse:
        """Returns the min and max offset of a queue.

        Errors   those of `find_readable` and `check_queue`
        """
        self._locate(request.topic, request.queue_id)
        fields = (await self._store.reading.span(request.topic, request.queue_id))._asdict()
        del fields["queue_id"]
        return pb.QueryOffsetsResponse(**fields)

    async def commit_offset(
        self, request: pb.CommitOffsetRequest, call: Call
    ) -> pb.CommitOffsetResponse:
        """Commits an offset of a group; durable when this returns.

        Errors   those of `check_group`, `find_readable` and `check_queue`; IllegalNumber,
                 OffsetOutOfRange
        """
        group, topic, queue_id = request.group, request.topic, request.queue_id
        self._find_for_group(group, topic, queue_id)
        check_number("offset", request.offset)
        self._store.reading.check_offset(topic, queue_id, request.offset)
        await commit_offset(self._store, group, topic, queue_id, request.offset)
        return pb.CommitOffsetResponse()

    def fetch_offset(self, request: pb.FetchOffsetRequest, call: Call) -> pb.FetchOffsetResponse:
        """Returns a group's committed offset; absent before the first commit.

        Errors   those of `check_group`, `find_readable` and `check_queue`
        """
        group, topic, queue_id = request.group, request.topic, request.queue_id
        self._find_for_group(group, topic, queue_id)
        offset = self._store.tables.offsets.find(group, topic, queue_id)
        return pb.FetchOffsetResponse(offset=offset)

    def _locate(self, topic: str, queue_id: int) -> None:
        topics = self._store.tables.topics
        find_readable(topics, topic, "", check_client_locates).check_queue(queue_id)

    def _find_for_group(self, group: str, topic: str, queue_id: int) -> None:
        check_group(group)
        topics = self._store.tables.topics
        find_readable(topics, topic, group, check_client_reads).check_queue(queue_id)
