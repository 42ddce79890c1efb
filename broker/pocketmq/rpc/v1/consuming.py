"""Receive, Ack, ChangeInvisible, SendBack and ForwardToDeadLetters of pocketmq.v1.Broker.

Receive is declared as a stream of answers, but always sends one. It is served as a unary method,
which costs less: the bytes are the same. Leases of an answer that is not sent are released.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from pocketmq.format.body_codec import BodyBudget
from pocketmq.format.record import decode_record, is_shown
from pocketmq.format.record_heads import split_pieces
from pocketmq.model.consuming import (
    INVISIBLE_MAX_MS,
    INVISIBLE_MIN_MS,
    RECEIVE_MAX,
    Received,
    ReceiveRequest,
    Settled,
    SettleStatus,
)
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.message import INT32_MAX
from pocketmq.model.names import check_group, check_number
from pocketmq.rpc.call import Call, reading_user, turn_user
from pocketmq.rpc.codec.stored_messages import MessageWriter
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import MalformedRequest
from pocketmq.rpc.topic_access import check_client_reads, find_readable, find_received
from pocketmq.rpc.v1.pull_message import (
    REPLY_SIZE_MAX,
    begin_of,
    check_id,
    effective_wait_ms,
    wanted_of,
)
from pocketmq.rpc.v1.stored_reply import proto_message
from pocketmq.services.admin.members import RECEIVE, Members
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.long_poll import handed_over
from pocketmq.services.pull import Pull
from pocketmq.store.message_store import MessageStore

INVISIBLE_MS: Final = 30_000
"""Default invisible duration of a receive."""
SETTLE_MAX: Final = 1_024
"""Upper limit of handles in one call."""
MOVE_MAX: Final = RECEIVE_MAX
"""Upper limit of handles in a call that reads their messages and appends them again."""
STATUSES: Final = {
    SettleStatus.OK: pb.SETTLED,
    SettleStatus.INVALID_RECEIPT_HANDLE: pb.INVALID_RECEIPT_HANDLE,
    SettleStatus.ILLEGAL_INVISIBLE_TIME: pb.ILLEGAL_INVISIBLE_TIME,
}


class ConsumeMethods:
    """The methods for receiving messages under leases, and for settling them."""

    __slots__ = (
        "_check_leasable", "_consume", "_delivered", "_members", "_messages", "_topics", "_turns",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        consume: Consume,
        pull: Pull,
        members: Members,
        check_leasable: Callable[[str], None],
    ) -> None:
        self._check_leasable = check_leasable
        self._members = members
        self._topics = store.tables.topics
        self._turns = store.turns
        self._consume = consume
        self._delivered = pull.delivered
        self._messages = MessageWriter()

    # -- receiving -----------------------------------------------------------------------------
    def receive(self, message: pb.ReceiveRequest, call: Call) -> bytes | Awaitable[bytes]:
        """Returns an encoded ReceiveResponse, at once or when a message arrives.

        Errors   those of `check_group` and `find_readable`; IllegalNumber, IllegalFilter,
                 IllegalBegin, MalformedRequest; GroupInUse: classic clients pull in the group;
                 errors of puts
        """
        if message.filter.kind:
            work = partial(self._receive_now, message, call)
            found: bytes | Awaitable[bytes] = self._turns.run(turn_user(call), work)
            return found
        return self._receive_now(message, call)

    def _receive_now(self, message: pb.ReceiveRequest, call: Call) -> bytes | Awaitable[bytes]:
        request = self._request(message, call)
        self._check_leasable(request.group)
        self._members.saw(request.group, request.topic, request.client_id, call.peer, RECEIVE)
        found = self._consume.receive(request)
        if isinstance(found, Received):
            return self._handed_out(request, found, call)
        return self._receive(request, found, call)

    async def _receive(
        self, request: ReceiveRequest, found: Awaitable[Received], call: Call
    ) -> bytes:
        release = partial(self._consume.release, request.group, request.topic)
        received = await handed_over(found, release)
        return self._handed_out(request, received, call)

    def _request(self, message: pb.ReceiveRequest, call: Call) -> ReceiveRequest:
        check_group(message.group)
        find_readable(self._topics, message.topic, message.group, check_client_reads)
        check_number("max_messages", message.max_messages, upper=RECEIVE_MAX)
        check_number("wait_ms", message.wait_ms)
        invisible_ms = message.invisible_ms or INVISIBLE_MS
        check_number("invisible_ms", invisible_ms, lower=INVISIBLE_MIN_MS, upper=INVISIBLE_MAX_MS)
        client_id, attempt_id = message.client_id, message.attempt_id
        check_id("client_id", client_id)
        check_id("attempt_id", attempt_id)
        if not client_id and (attempt_id or message.auto_renew or message.broadcast):
            why = "attempt_id, auto_renew and broadcast need a client_id"
            raise MalformedRequest(why=why)
        return ReceiveRequest(
            message.group,
            message.topic,
            wanted_of(message.filter),
            message.max_messages or RECEIVE_MAX,
            invisible_ms,
            effective_wait_ms(message.wait_ms, call) if message.wait_ms else 0,
            client_id,
            attempt_id,
            message.auto_renew,
            message.broadcast,
            call.room,
            reading_user(call, is_heavy=bool(message.filter.kind)),
            joined=True,
            begin_ms=begin_of(message.begin),
        )

    def _handed_out(self, request: ReceiveRequest, received: Received, call: Call) -> bytes:
        group, topic = request.group, request.topic
        if not received.records:
            return _head(received)
        if received.handles:
            call.if_lost(partial(self._consume.release, group, topic, received.handles))
        self._count(group, topic, received)
        messages, records = self._messages, b"".join(received.records)
        messages.begin()
        if messages.add(records, 0, REPLY_SIZE_MAX) != len(records):
            received = self._fitting(group, topic, received)
        return _head(received) + messages.out.getvalue()

    def _fitting(self, group: str, topic: str, received: Received) -> Received:
        """Writes messages one by one; returns those that fit the answer, and releases the others.

        A body that would be too large for any answer after decompression is sent as it is stored.
        """
        messages, handles, attempts = self._messages, received.handles, received.attempts
        messages.begin()
        budget = BodyBudget()
        fits = [self._write(record, budget) for record in split_pieces(received.records)]
        if handles and not all(fits):
            left_out = [handle for handle, is_in in zip(handles, fits, strict=True) if not is_in]
            self._consume.release(group, topic, left_out)
            handles = [handle for handle, is_in in zip(handles, fits, strict=True) if is_in]
        attempts = [attempt for attempt, is_in in zip(attempts, fits, strict=True) if is_in]
        assert messages.count == len(attempts)
        return received._replace(handles=handles, attempts=attempts)

    def _write(self, record: bytes, budget: BodyBudget) -> bool:
        messages = self._messages
        if messages.add(record, 0, REPLY_SIZE_MAX) == len(record):
            return True
        message = decode_record(record, 0, decompress=False)
        if not is_shown(message, budget):
            return False
        try:
            encoded = proto_message(message).SerializeToString()
        except UnsupportedFeature:
            return False
        return messages.add_encoded(encoded, REPLY_SIZE_MAX)

    def _count(self, group: str, topic: str, received: Received) -> None:
        attempts = received.attempts
        if max(attempts) == 1:
            size_bytes = sum(map(len, received.records))
            self._delivered.count(topic, group, len(attempts), size_bytes, "false")
            return
        sizes = list(map(len, split_pieces(received.records)))
        for word, is_retry in (("false", False), ("true", True)):
            chosen = [size for size, n in zip(sizes, attempts, strict=True) if (n > 1) is is_retry]
            if chosen:
                self._delivered.count(topic, group, len(chosen), sum(chosen), word)

    # -- settling ------------------------------------------------------------------------------
    async def ack(self, message: pb.AckRequest, call: Call) -> bytes:
        """Acknowledges messages; returns an encoded AckResponse.

        Errors   those of `check_group` and `find_received`; IllegalNumber; errors of puts
        """
        handles = self._handles(message, SETTLE_MAX)
        return _results(await self._consume.ack(message.group, message.topic, handles))

    async def forward_to_dead_letters(
        self, message: pb.ForwardToDeadLettersRequest, call: Call
    ) -> bytes:
        """Moves messages to the group's dead-letter topic; returns an encoded AckResponse.

        Errors   as for `ack`
        """
        handles = self._handles(message, MOVE_MAX)
        consume = self._consume
        return _results(
            await consume.forward_to_dead_letters(message.group, message.topic, handles)
        )

    async def change_invisible(self, message: pb.ChangeInvisibleRequest, call: Call) -> bytes:
        """Changes the invisible duration of messages, counted from now.

        Returns  an encoded AckResponse, which also reports each invalid duration
        Errors   as for `ack`
        """
        self._check_settling(message, "entries", len(message.entries), SETTLE_MAX)
        entries = [(entry.receipt_handle, entry.invisible_ms) for entry in message.entries]
        settled = await self._consume.change_invisible(message.group, message.topic, entries)
        return _results(settled, [entry.handle for entry in settled])

    async def send_back(self, message: pb.SendBackRequest, call: Call) -> bytes:
        """Schedules redelivery of messages after a delay; returns an encoded AckResponse.

        Errors   as for `ack`
        """
        self._check_settling(message, "entries", len(message.entries), MOVE_MAX)
        entries = [(entry.receipt_handle, entry.delay_level) for entry in message.entries]
        for _, level in entries:
            check_number("delay_level", level, upper=INT32_MAX)
        return _results(await self._consume.send_back(message.group, message.topic, entries))

    def _handles(
        self, message: pb.AckRequest | pb.ForwardToDeadLettersRequest, upper: int
    ) -> list[str]:
        handles = list(message.receipt_handles)
        self._check_settling(message, "receipt_handles", len(handles), upper)
        return handles

    def _check_settling(self, message: Any, field: str, count: int, upper: int) -> None:
        check_group(message.group)
        find_received(self._topics, message.topic, message.group)
        check_number(field, count, lower=1, upper=upper)


def _head(received: Received) -> bytes:
    return pb.ReceiveResponse(
        receipt_handles=received.handles,
        attempts=received.attempts,
        invisible_until_ms=received.invisible_until_ms,
        popped_at_ms=received.popped_at_ms,
    ).SerializeToString()


def _results(settled: Sequence[Settled], handles: Sequence[str] = ()) -> bytes:
    if not handles and all(entry.status is SettleStatus.OK for entry in settled):
        return _ALL_SETTLED * len(settled)
    response = pb.AckResponse()
    for number, entry in enumerate(settled):
        is_new = bool(handles) and entry.status is SettleStatus.OK
        handle = handles[number] if is_new else ""
        response.results.add(status=STATUSES[entry.status], receipt_handle=handle)
    return response.SerializeToString()


_ALL_SETTLED: Final = pb.AckResponse(
    results=[pb.SettleResult(status=pb.SETTLED)]
).SerializeToString()
"""Encoded result of one settled handle; repeated, it is the answer for several handles."""
