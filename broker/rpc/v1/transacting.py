"""Transactions: what producers are asked, and what Admin shows of them.

CheckTransactions answers with one message of a stream, as Receive does: to a client that is the
same as one answer, and it costs what one costs.
"""

from typing import Final

from broker.format.half_message import Half, shown_half
from broker.format.transaction_id import read_transaction_id, transaction_id
from broker.model.errors import TransactionUnknown
from broker.model.names import check_number, check_producers
from broker.model.transaction import Check
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import Handler
from broker.rpc.v1.end_transaction import EndTransaction
from broker.rpc.v1.pull_message import check_id, effective_wait_ms
from broker.rpc.v1.stored_reply import proto_message
from broker.services.transaction.halves import HalfState
from broker.services.transaction.transactions import Transactions

CHECKS_MAX: Final = 32
"""Of one answer."""
LISTED: Final = 100
LISTED_MAX: Final = 1_000
LOOKED_AT_MAX: Final = 10_000
"""Half messages of one listing that are looked at for a group or a topic."""
STATES: Final = {
    HalfState.COMMITTED: "committed",
    HalfState.ROLLED_BACK: "rolled back",
    HalfState.GIVEN_UP: "given up",
    HalfState.LOST: "given up",
}


class Transacting:
    """The methods."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def handlers(self) -> dict[str, Handler]:
        """Return those of Broker by their names."""
        return {
            "EndTransaction": EndTransaction(self._transactions),
            "CheckTransactions": self.check_transactions,
        }

    def admin_handlers(self) -> dict[str, Handler]:
        """Return those of Admin by their names."""
        return {
            "ListTransactions": self.list_transactions,
            "DescribeTransaction": self.describe_transaction,
        }

    # -- producers -----------------------------------------------------------------------------
    async def check_transactions(
        self, request: pb.CheckTransactionsRequest, call: Call
    ) -> pb.CheckTransactionsResponse:
        """Wait to be asked about transactions of a producer group.

        Errors   IllegalGroup, IllegalNumber, MalformedRequest
        """
        check_producers(request.group)
        check_number("max", request.max, upper=CHECKS_MAX)
        check_number("wait_ms", request.wait_ms)
        check_id("client_id", request.client_id)
        wait_ms = effective_wait_ms(request.wait_ms, call)
        checks = await self._transactions.asked(request.group, request.max or CHECKS_MAX, wait_ms)
        return pb.CheckTransactionsResponse(checks=map(_check, checks))

    # -- operators -----------------------------------------------------------------------------
    async def list_transactions(
        self, request: admin_pb2.ListTransactionsRequest, call: Call
    ) -> admin_pb2.ListTransactionsResponse:
        """Return transactions that nobody decided, the oldest first.

        Errors   IllegalNumber, StorageError, DiskSlow
        """
        check_number("max", request.max, upper=LISTED_MAX)
        check_number("offset", request.offset)
        count_max, at, looked_at = request.max or LISTED, request.offset, 0
        rows: list[admin_pb2.TransactionRow] = []
        while True:
            page = await self._transactions.page(at, count_max - len(rows))
            rows += [self._row(half) for half in page.halves if _is_wanted(half, request)]
            at, looked_at = page.next_offset, looked_at + len(page.halves)
            if not at or len(rows) >= count_max or looked_at >= LOOKED_AT_MAX:
                break
        return admin_pb2.ListTransactionsResponse(
            transactions=rows, next_offset=at, open_count=self._transactions.open_count
        )

    async def describe_transaction(
        self, request: admin_pb2.DescribeTransactionRequest, call: Call
    ) -> admin_pb2.DescribeTransactionResponse:
        """Return one transaction, decided or not.

        Errors   TransactionUnknown, StorageError, DiskSlow
        """
        place = read_transaction_id(request.transaction_id)
        if place is None:
            why = "that is no transaction id"
            raise TransactionUnknown(transaction_id=request.transaction_id, group="", why=why)
        half, state = await self._transactions.state_of(place)
        return admin_pb2.DescribeTransactionResponse(
            transaction=self._row(half, STATES.get(state, "open")),
            message=proto_message(shown_half(half.record)),
        )

    def _row(self, half: Half, state: str = "open") -> admin_pb2.TransactionRow:
        return admin_pb2.TransactionRow(
            transaction_id=transaction_id(half.place),
            group=half.group,
            topic=half.real.topic if half.real is not None else "",
            message_id=half.place.unique_key,
            checks=half.checks,
            store_timestamp_ms=half.store_ms,
            state=state,
            producer_count=self._transactions.producer_count(half.group),
        )


def _is_wanted(half: Half, request: admin_pb2.ListTransactionsRequest) -> bool:
    topic = half.real.topic if half.real is not None else ""
    return request.group in ("", half.group) and request.topic in ("", topic)


def _check(check: Check) -> pb.TransactionCheck:
    return pb.TransactionCheck(
        transaction_id=check.transaction_id,
        message=proto_message(shown_half(check.record)),
        checks=check.checks,
    )
