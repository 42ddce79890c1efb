"""CheckTransactions: producers wait for checks of their transactions.

It answers with a stream of one message, as Receive does. To a client this looks like one answer,
and the cost is that of one answer.
"""

from typing import Final

from pocketmq.model.names import check_number, check_producers
from pocketmq.model.transaction import Check
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.permissions import PUB, group_need, topic_need
from pocketmq.rpc.v1.pull_message import check_id, effective_wait_ms
from pocketmq.rpc.v1.stored_reply import proto_halves
from pocketmq.services.transaction.transactions import Transactions

CHECKS_MAX: Final = 32
"""Of one answer."""


class CheckTransactions:
    """The method."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(
        self, request: pb.CheckTransactionsRequest, call: Call
    ) -> pb.CheckTransactionsResponse:
        """Waits to be asked about transactions of a producer group.

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
