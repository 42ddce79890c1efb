"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue.

A receipt handle without a lease gets INVALID_RECEIPT_HANDLE, at which clients stop retrying. After
any other error they retry forever.
Source: AckMessageActivity, ChangeInvisibleDurationActivity, ForwardMessageToDLQActivity.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pocketmq.model.consuming import INVISIBLE_MAX_MS, Settled, SettleStatus
from pocketmq.model.errors import BrokerError, IllegalInvisibleTime, InvalidReceiptHandle
from pocketmq.model.names import check_number
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.v2_ack import PlainAck, read_ack
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.topic_access import find_received
from pocketmq.rpc.v2.caller import Caller, caller_of
from pocketmq.rpc.v2.durations import ms_of
from pocketmq.rpc.v2.resources import group_of, topic_of
from pocketmq.rpc.v2.status import OK, status_of
from pocketmq.services.consume.consume import Consume
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.store.message_store import MessageStore

HANDLES_MAX: Final = 1_024
"""Upper limit of receipt handles in one ack."""
AGAIN_MIN_MS: Final = 1_000
"""Shortest delay before a push consumer gets a failed message again: some clients request no delay,
and would receive the message in a loop."""
FORWARDED_MAX: Final = 10_000
MIXED: Final = pb.Status(code=pb.MULTIPLE_RESULTS, message="see the entries")


class Acks(NamedTuple):
    """A parsed AckMessageRequest; `plain` is None if the request has no plain form (`PlainAck`)."""

    raw: bytes
    group: pb.Resource
    topic: pb.Resource
    handles: Sequence[str]
    plain: PlainAck | None


class AckMethods:
    """The methods that settle leases."""

    __slots__ = ("_consume", "_forwarded", "_sessions", "_topics")

    def __init__(self, store: MessageStore, consume: Consume, sessions: Sessions) -> None:
        self._topics = store.tables.topics
        self._consume = consume
        self._sessions = sessions
        self._forwarded: dict[tuple[str, str, str], None] = {}
        """Messages recently moved to dead letters, for clients that retry after a lost answer."""

    async def ack_message(self, request: Acks, call: Call) -> bytes:
        """Acknowledges messages; each entry of the answer has a status.

        Errors   ClientIdRequired, IllegalNumber, errors of `group_of`, `topic_of`,
                 `find_received` and of puts
        """
        _, group, topic = self._place(request.group, request.topic, call)
        check_number("entries", len(request.handles), lower=1, upper=HANDLES_MAX)
        settled = await self._consume.ack(group, topic, request.handles)
        plain = request.plain
        if plain is not None and all(one.status is SettleStatus.OK for one in settled):
            return plain.all_settled()
        return acked(pb.AckMessageRequest.FromString(request.raw), settled).SerializeToString()

    async def change_invisible_duration(
        self, request: pb.ChangeInvisibleDurationRequest, call: Call
    ) -> pb.ChangeInvisibleDurationResponse:
        """Changes the invisible duration of a message, counted from now.

        The old handle stays valid. A delivery that its consumer suspends does not count as an
        attempt.

        Errors   as for `ack_message`, and IllegalInvisibleTime, InvalidReceiptHandle
        """
        caller, group, topic = self._place(request.group, request.topic, call)
        invisible_ms = ms_of(request.invisible_duration)
        if not 0 <= invisible_ms <= INVISIBLE_MAX_MS:
            raise IllegalInvisibleTime(value_ms=invisible_ms, lower_ms=0, upper_ms=INVISIBLE_MAX_MS)
        if caller.is_node or self._sessions.is_push_consumer(caller.session_id):
            invisible_ms = max(invisible_ms, AGAIN_MIN_MS)
        handle = request.receipt_handle
        (settled,) = await self._consume.change_invisible(
            group, topic, [(handle, invisible_ms)], is_suspended=request.suspend
        )
        if settled.status is not SettleStatus.OK:
            raise InvalidReceiptHandle(handle=handle)
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=settled.handle)

    async def forward(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, call: Call
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Moves a message to the group's dead-letter topic; a second call soon after also succeeds.

        Errors   as for `ack_message`, and InvalidReceiptHandle
        """
        _, group, topic = self._place(request.group, request.topic, call)
        handle = request.receipt_handle
        key = (group, topic, handle)
        if key not in self._forwarded:
            (settled,) = await self._consume.forward_to_dead_letters(group, topic, [handle])
            if settled.status is not SettleStatus.OK:
                raise InvalidReceiptHandle(handle=handle)
            if len(self._forwarded) >= FORWARDED_MAX:
                del self._forwarded[next(iter(self._forwarded))]
            self._forwarded[key] = None
            assert len(self._forwarded) <= FORWARDED_MAX
        return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)

    def _place(self, group: pb.Resource, topic: pb.Resource, call: Call) -> tuple[Caller, str, str]:
        caller = caller_of(call)
        group_name, topic_name = group_of(group, call), topic_of(topic, call)
        find_received(self._topics, topic_name, group_name)
        self._sessions.heard(caller.session_id, group=group_name)
        return caller, group_name, topic_name


def read_acks(raw: bytes) -> Acks:
    """Parses an AckMessageRequest.

    Errors   DecodeError
    """
    plain = read_ack(raw)
    if plain is None:
        message = pb.AckMessageRequest.FromString(raw)
        handles = [entry.receipt_handle for entry in message.entries]
        return Acks(raw, message.group, message.topic, handles, None)
    group, topic = map(pb.Resource.FromString, (plain.group, plain.topic))
    return Acks(raw, group, topic, plain.handles, plain)


def acked(request: pb.AckMessageRequest, settled: Sequence[Settled]) -> pb.AckMessageResponse:
    """Returns the result of each entry."""
    entries = [
        pb.AckMessageResultEntry(
            message_id=entry.message_id,
            receipt_handle=entry.receipt_handle,
            status=_told(one, entry.receipt_handle),
        )
        for entry, one in zip(request.entries, settled, strict=True)
    ]
    first = entries[0].status
    is_one = all(entry.status.code == first.code for entry in entries)
    return pb.AckMessageResponse(status=first if is_one else MIXED, entries=entries)


def _told(settled: Settled, handle: str) -> pb.Status:
    if settled.status is SettleStatus.OK:
        return OK
    error: BrokerError = InvalidReceiptHandle(handle=handle)
    return status_of(error)
