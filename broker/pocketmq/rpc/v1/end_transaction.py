"""EndTransaction: producers commit or roll back their half messages.

Plain requests take a shortcut (end_shortcut.py).
"""

from typing import Final

from pocketmq.model.errors import TransactionDecided, TransactionUnknown
from pocketmq.model.names import check_producers
from pocketmq.model.transaction import Decided, Decision, Resolution
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pending_reply import Late
from pocketmq.rpc.service import MalformedRequest, Shortcut
from pocketmq.rpc.v1.end_shortcut import EndShortcut
from pocketmq.services.transaction.transactions import Transactions

DECISIONS_MAX: Final = 1_024
"""Upper limit of decisions in one call."""
RESOLUTIONS: Final = {
    pb.COMMIT: Resolution.COMMIT,
    pb.ROLLBACK: Resolution.ROLLBACK,
    pb.UNKNOWN: Resolution.UNKNOWN,
}


class EndTransaction:
    """The method EndTransaction."""

    __slots__ = ("_transactions", "shortcut")

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.shortcut: Shortcut = EndShortcut(
            transactions.plain,
            is_durable=transactions.is_durable,
            late=Late(transactions.flush_group, None),
        ).serve

    async def __call__(
        self, request: pb.EndTransactionRequest, call: Call
    ) -> pb.EndTransactionResponse:
        """Commits or rolls back transactions; durable when this returns.

        Errors   IllegalGroup, MalformedRequest, those of a put
        """
        check_producers(request.group)
        if len(request.decisions) > DECISIONS_MAX:
            count = len(request.decisions)
            raise MalformedRequest(why=f"it has {count} decisions; the limit is {DECISIONS_MAX}")
        decisions = []
        for said in request.decisions:
            resolution = RESOLUTIONS.get(said.resolution)
            if resolution is None:
                raise MalformedRequest(why="a decision is COMMIT, ROLLBACK or UNKNOWN")
            decisions.append(Decision(said.transaction_id, resolution))
        decided = await self._transactions.decide(request.group, decisions)
        return pb.EndTransactionResponse(results=map(_result, decided))


def _result(decided: Decided) -> pb.EndTransactionResponse.Result:
    error = decided.error
    if error is None:
        return pb.EndTransactionResponse.Result(status=pb.ENDED)
    status = pb.CANNOT_COMMIT
    if isinstance(error, TransactionDecided):
        status = pb.ENDED_OTHERWISE
    elif isinstance(error, TransactionUnknown):
        status = pb.NO_TRANSACTION
    return pb.EndTransactionResponse.Result(status=status, why=str(error))
