"""Transactions of classic producers: decisions, and checks of undecided ones.

    37  END_TRANSACTION            commitOrRollback: 8 commits, 12 rolls back, 0 is unknown
    39  CHECK_TRANSACTION_STATE    from the broker, one-way: a half message; the producer sends 37

A producer gets checks of its groups from its first heartbeat until it unregisters or disconnects.
Source: EndTransactionProcessor, AbstractTransactionalMessageCheckListener.
"""

from collections.abc import Callable, Iterable
from typing import Final

from pocketmq.format.half_message import shown_record
from pocketmq.format.transaction_id import HalfPlace, read_transaction_id, transaction_id
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.model.transaction import Check, Decision, Resolution
from pocketmq.rpc.call import May
from pocketmq.rpc.channel import ClassicCall, RemotingChannel
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.permissions import PUB, group_need
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.wire.remoting import Command

CHECK: Final = 39
RESOLUTIONS: Final = {8: Resolution.COMMIT, 12: Resolution.ROLLBACK}
"""Values of commitOrRollback (MessageSysFlag)."""

Leave = Callable[[], None]


class ClassicTransactions:
    """The request END_TRANSACTION, and the producers that get checks."""

    __slots__ = ("_joined", "_transactions")

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._joined: dict[RemotingChannel, dict[str, tuple[str, Leave]]] = {}
        """Connection -> producer group -> user of its last heartbeat, and how it leaves."""

    async def end(self, request: Command, call: ClassicCall) -> Command:
        """Commits or rolls back a transaction; a repeated decision gets the result of the first.

        UNKNOWN changes nothing, and the broker checks the transaction again later.

        Errors   MalformedRequest, IllegalNumber, TransactionUnknown, TransactionDecided; those of
                 puts and reads
        """
        place = HalfPlace(
            number_field(request, "tranStateTableOffset", upper=OFFSET_MAX),
            number_field(request, "commitLogOffset", upper=OFFSET_MAX),
            request.fields.get("transactionId") or text_field(request, "msgId"),
        )
        resolution = RESOLUTIONS.get(number_field(request, "commitOrRollback"), Resolution.UNKNOWN)
        decision = Decision(transaction_id(place), resolution)
        group = text_field(request, "producerGroup")
        (decided,) = await self._transactions.decide(group, [decision])
        if decided.error is not None:
            raise decided.error
        return OK

    def join(self, channel: RemotingChannel, groups: Iterable[str], user: str, may: May) -> None:
        """Sends checks of these producer groups to a client, until it leaves or disconnects.

        user  signer of the heartbeat; replaces an earlier signer of the same connection
        may   returns whether the user has a permission now
        """
        if channel not in self._joined:
            self._joined[channel] = {}
            channel.when_gone(lambda: self._gone(channel))
        joined = self._joined[channel]
        for group in groups:
            if group in joined and joined[group][0] != user:
                self.leave(channel, group)
            if group not in joined:
                leave = self._transactions.join(group, _offer(channel, group, may))
                joined[group] = user, leave

    def leave(self, channel: RemotingChannel, group: str) -> None:
        """Stops sending checks of a producer group to a client."""
        found = self._joined.get(channel, {}).pop(group, None)
        if found is not None:
            found[1]()

    def _gone(self, channel: RemotingChannel) -> None:
        for _, leave in self._joined.pop(channel).values():
            leave()


def _offer(channel: RemotingChannel, group: str, may: May) -> Callable[[Check], bool]:
    need = group_need(group, PUB)
    return lambda check: may(need) and channel.tell(question_of(check))


def question_of(check: Check) -> Command:
    """Returns the request that asks a producer for the outcome of a transaction."""
    place = read_transaction_id(check.transaction_id)
    assert place is not None, "the broker made an invalid transaction id"
    fields = {
        "commitLogOffset": str(place.physical_offset),
        "topic": HALF_TOPIC,
        "msgId": place.unique_key,
        "tranStateTableOffset": str(place.queue_offset),
        "transactionId": place.unique_key,
    }
    return Command(CHECK, fields, shown_record(check.record))
