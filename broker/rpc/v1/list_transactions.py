"""ListTransactions and DescribeTransaction: half messages, for operators."""

from typing import Final

from broker.format.content import BodyBudget
from broker.format.half_message import Half
from broker.format.transaction_id import read_transaction_id, transaction_id
from broker.model.errors import TransactionUnknown
from broker.model.names import check_number
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.v1.stored_reply import proto_half
from broker.services.transaction.halves import HalfState
from broker.services.transaction.transactions import Transactions

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


class ListTransactions:
    """The methods."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def page(
        self, request: pb.ListTransactionsRequest, call: Call
    ) -> pb.ListTransactionsResponse:
        """Return transactions that nobody decided, the oldest first.

        Errors   IllegalNumber, StorageError, DiskSlow
        """
        check_number("max", request.max, upper=LISTED_MAX)
        check_number("offset", request.offset)
        count_max, at, looked_at = request.max or LISTED, request.offset, 0
        rows: list[pb.TransactionRow] = []
        while True:
            page = await self._transactions.page(at, count_max - len(rows))
            rows += [self._row(half) for half in page.halves if _is_wanted(half, request)]
            at, looked_at = page.next_offset, looked_at + len(page.halves)
            if not at or len(rows) >= count_max or looked_at >= LOOKED_AT_MAX:
                break
        return pb.ListTransactionsResponse(
            transactions=rows, next_offset=at, open_count=self._transactions.open_count
        )

    async def describe(
        self, request: pb.DescribeTransactionRequest, call: Call
    ) -> pb.DescribeTransactionResponse:
        """Return one transaction, decided or not.

        Errors   TransactionUnknown, StorageError, DiskSlow
        """
        place = read_transaction_id(request.transaction_id)
        if place is None:
            why = "that is no transaction id"
            raise TransactionUnknown(transaction_id=request.transaction_id, group="", why=why)
        half, state = await self._transactions.state_of(place)
        return pb.DescribeTransactionResponse(
            transaction=self._row(half, STATES.get(state, "open")),
            message=proto_half(half.record, BodyBudget()),
        )

    def _row(self, half: Half, state: str = "open") -> pb.TransactionRow:
        return pb.TransactionRow(
            transaction_id=transaction_id(half.place),
            group=half.group,
            topic=half.real.topic if half.real is not None else "",
            message_id=half.place.unique_key,
            checks=half.checks,
            store_timestamp_ms=half.store_ms,
            state=state,
            producer_count=self._transactions.producer_count(half.group),
        )


def _is_wanted(half: Half, request: pb.ListTransactionsRequest) -> bool:
    topic = half.real.topic if half.real is not None else ""
    return request.group in ("", half.group) and request.topic in ("", topic)
