"""ListTransactions, DescribeTransaction, ResumeTransaction: half messages, for operators."""

from typing import Final

from pocketmq.format.half_message import Half
from pocketmq.format.transaction_id import HalfPlace, read_transaction_id, transaction_id
from pocketmq.model.access import Action, ResourceKind
from pocketmq.model.errors import TransactionUnknown
from pocketmq.model.names import check_number
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.permissions import FIND, GET, LIST, group_need, listed, topic_need
from pocketmq.rpc.v1.stored_reply import proto_halves
from pocketmq.services.transaction.halves import HalfState
from pocketmq.services.transaction.transactions import Transactions, no_half

LISTED: Final = 100
LISTED_MAX: Final = 1_000
LOOKED_AT_MAX: Final = 10_000
"""Upper limit of half messages that one call examines to find those of a group or a topic."""
STATES: Final = {
    HalfState.COMMITTED: "committed",
    HalfState.ROLLED_BACK: "rolled back",
    HalfState.GIVEN_UP: "given up",
    HalfState.LOST: "given up",
}


class ListTransactions:
    """The methods that show and resume transactions."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def page(
        self, request: pb.ListTransactionsRequest, call: Call
    ) -> pb.ListTransactionsResponse:
        """Returns undecided transactions that the caller may see, the oldest first.

        Errors   IllegalNumber, StorageError, DiskSlow
        """
        check_number("max", request.max, upper=LISTED_MAX)
        check_number("offset", request.offset)
        count_max, at, looked_at = request.max or LISTED, request.offset, 0
        rows: list[pb.TransactionRow] = []
        sees_all = all(map(call.may, listed(ResourceKind.TOPIC)))
        while True:
            page = await self._transactions.page(at, count_max - len(rows))
            rows += [
                self._row(half, call)
                for half in page.halves
                if _is_wanted(half, request) and _may(half, call, (*FIND, *LIST))
            ]
            at, looked_at = page.next_offset, looked_at + len(page.halves)
            if not at or len(rows) >= count_max or looked_at >= LOOKED_AT_MAX:
                break
        return pb.ListTransactionsResponse(
            transactions=rows,
            next_offset=at,
            open_count=self._transactions.open_count if sees_all else 0,
        )

    async def describe(
        self, request: pb.DescribeTransactionRequest, call: Call
    ) -> pb.DescribeTransactionResponse:
        """Returns one transaction, whether decided or not.

        Errors   TransactionUnknown, StorageError, DiskSlow
        """
        place = _place_of(request.transaction_id)
        half, state = await self._transactions.state_of(place)
        if not _may(half, call, GET):
            raise no_half(place)
        return pb.DescribeTransactionResponse(
            transaction=self._row(half, call, STATES.get(state, "open")),
            message=next(proto_halves([half.record])),
        )

    async def resume(
        self, request: pb.ResumeTransactionRequest, call: Call
    ) -> pb.ResumeTransactionResponse:
        """Reopens a transaction that expired undecided.

        Errors   those of `Transactions.resume`
        """
        place = await self._transactions.resume(_place_of(request.transaction_id))
        return pb.ResumeTransactionResponse(transaction_id=transaction_id(place))

    def _row(self, half: Half, call: Call, state: str = "open") -> pb.TransactionRow:
        """Returns a row; group and producer count are empty if the caller may not see the group."""
        is_seen = call.may(group_need(half.group, (*FIND, *LIST)))
        return pb.TransactionRow(
            transaction_id=transaction_id(half.place),
            group=half.group if is_seen else "",
            topic=_topic_of(half),
            message_id=half.place.unique_key,
            checks=half.checks,
            store_timestamp_ms=half.store_ms,
            state=state,
            producer_count=self._transactions.producer_count(half.group) if is_seen else 0,
        )


def _place_of(text: str) -> HalfPlace:
    """Parses a transaction id.

    Errors   TransactionUnknown
    """
    place = read_transaction_id(text)
    if place is None:
        why = "that is no transaction id"
        raise TransactionUnknown(transaction_id=text, group="", why=why)
    return place


def _is_wanted(half: Half, request: pb.ListTransactionsRequest) -> bool:
    return request.group in ("", half.group) and request.topic in ("", _topic_of(half))


def _may(half: Half, call: Call, actions: tuple[Action, ...]) -> bool:
    return call.may(topic_need(_topic_of(half), actions))


def _topic_of(half: Half) -> str:
    return half.real.topic if half.real is not None else ""
