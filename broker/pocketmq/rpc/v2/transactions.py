"""EndTransaction, and checks of producers by Telemetry: half messages and their decisions.

Clients of this protocol name no producer group. So any client that publishes to a topic may be
asked about its transactions, and decide them: the topic is the group, as in a real proxy.
Source: EndTransactionActivity, ProducerManager.
"""

from typing import Final

from pocketmq.model.transaction import Check, Decision, Resolution
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.caller import client_id_of
from pocketmq.rpc.v2.delivered import message_of
from pocketmq.rpc.v2.resources import topic_of
from pocketmq.rpc.v2.status import OK
from pocketmq.services.transaction.transactions import Transactions

RESOLUTIONS: Final = {pb.COMMIT: Resolution.COMMIT, pb.ROLLBACK: Resolution.ROLLBACK}


class EndTransactionV2:
    """The method."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def end_transaction(
        self, request: pb.EndTransactionRequest, call: Call
    ) -> pb.EndTransactionResponse:
        """Ends a half message, once; a repeated decision has the result of the first.

        Without a decision it stays as it is, and its producers are asked again.
        Errors   ClientIdRequired, IllegalTopic, SystemTopic, TransactionUnknown,
                 TransactionDecided; those of puts and reads
        """
        client_id_of(call)
        topic = topic_of(request.topic, call)
        resolution = RESOLUTIONS.get(request.resolution, Resolution.UNKNOWN)
        decision = Decision(request.transaction_id, resolution)
        if self._transactions.plain.decide(topic, [decision]):
            await self._transactions.durable()
            return pb.EndTransactionResponse(status=OK)
        (decided,) = await self._transactions.decide(topic, [decision])
        if decided.error is not None:
            raise decided.error
        return pb.EndTransactionResponse(status=OK)


def question_of(check: Check, topic: pb.Resource) -> pb.TelemetryCommand:
    """Returns the check of a transaction for its producer.

    topic   as the producer calls it
    """
    return pb.TelemetryCommand(
        recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
            message=message_of(check.record, topic), transaction_id=check.transaction_id
        )
    )
