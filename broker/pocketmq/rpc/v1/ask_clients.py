"""PrintClientStack and VerifyMessage: operators query clients through their telemetry streams."""

from collections.abc import Callable
from typing import Final

from pocketmq.model.errors import MessageNotFound
from pocketmq.model.names import check_number
from pocketmq.model.reading import ReadRange
from pocketmq.rpc.call import Call, turn_user
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_operator_reads, find_readable
from pocketmq.services.sessions.questions import Command, PrintStack, Verify
from pocketmq.store.read.cold_read import value_of

WAIT_MS: Final = 5_000
"""Default timeout of a client's answer, as in RocketMQ's proxy."""
WAIT_MS_MAX: Final = 30_000
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024

_Asks = pb.PrintClientStackRequest | pb.VerifyMessageRequest


class AskClients:
    """The methods PrintClientStack and VerifyMessage."""

    __slots__ = ("_query", "_sessions", "_store")

    def __init__(self, backing: Services) -> None:
        self._query = backing.query
        self._sessions = backing.sessions
        self._store = backing.store

    async def print_stack(
        self, request: pb.PrintClientStackRequest, call: Call
    ) -> pb.AskClientResponse:
        """Returns the stack of each thread of a consumer, as the consumer reports it.

        Errors   GroupNotFound, ClientNotFound, ClientSilent, IllegalNumber
        """
        return await self._asked(request, lambda nonce: PrintStack(nonce, request.group))

    async def verify_message(
        self, request: pb.VerifyMessageRequest, call: Call
    ) -> pb.AskClientResponse:
        """Makes a consumer consume a stored message directly; returns the consumer's result.

        The message is not leased, and the group's offsets do not change.

        Errors   those of `print_stack`, `find_readable` and `Query.place_of`; TooManyRequests
        """
        find_readable(self._store.tables.topics, request.topic, "", check_operator_reads)
        found = await self._query.place_of(request.topic, request.message_id)
        place = ReadRange(found.topic, found.queue_id, found.queue_offset, 1, RECORD_BYTES_MAX)
        await self._store.turns.turn(turn_user(call))
        size = self._store.reading.size_of(found.topic, found.queue_id, found.queue_offset)
        call.check_room(size)
        call.room(size)
        records = (await value_of(self._store.reading.pull(place))).records
        if not records:
            raise MessageNotFound(topic=request.topic, message_id=request.message_id)
        record = bytes(records[0])
        topic, group = request.topic, request.group
        return await self._asked(request, lambda nonce: Verify(nonce, record, topic, group))

    async def _asked(self, request: _Asks, make: Callable[[str], Command]) -> pb.AskClientResponse:
        check_number("wait_ms", request.wait_ms, upper=WAIT_MS_MAX)
        self._store.tables.groups.existing(request.group)
        answer = await self._sessions.ask(
            request.client_id, request.group, make, request.wait_ms or WAIT_MS
        )
        return pb.AskClientResponse(**answer._asdict())
