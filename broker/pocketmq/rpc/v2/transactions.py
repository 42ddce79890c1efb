"""EndTransaction, and transaction checks sent by Telemetry.

Clients of this protocol have no producer group. As in RocketMQ's proxy, the topic is the group: any
client that publishes to a topic may receive checks of its transactions, and may decide them.
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
    """The method EndTransaction."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def end_transaction(
        self, request: pb.EndTransactionRequest, call: Call
    ) -> pb.EndTransactionResponse:
        """Commits or rolls back a transaction; a repeated decision gets the result of the first.

        The resolution UNKNOWN changes nothing, and the transaction is checked again.

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
    """Returns the transaction check for a producer.

    topic   the topic as the producer names it, with its namespace
    """
    return pb.TelemetryCommand(
        recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
            message=message_of(check.record, topic), transaction_id=check.transaction_id
        )
    )
