"""ReceiveMessage: streams a status, leased messages and the delivery time.

Without messages the status is "no new message".
A poll waits until a message arrives, the requested wait ends, or the call's deadline is near.
Leases of an answer that is not sent are released.
Source: ReceiveMessageActivity, ReceiveMessageResponseStreamWriter.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Final

from pocketmq.filter.parsing import parse_filter
from pocketmq.format.body_codec import BodyBudget
from pocketmq.format.record_heads import split_pieces
from pocketmq.model.consuming import (
    INVISIBLE_MAX_MS,
    INVISIBLE_MIN_MS,
    RECEIVE_MAX,
    RENEWED_MS,
    Received,
    ReceiveRequest,
)
from pocketmq.model.delivered import Delivered
from pocketmq.model.errors import IllegalFilter, IllegalInvisibleTime
from pocketmq.model.filter import Filter
from pocketmq.rpc.call import Call, reading_user, turn_user
from pocketmq.rpc.codec.v2_messages import V2Messages
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.topic_access import check_client_reads, find_readable
from pocketmq.rpc.v2.caller import SIZE_MAX, Caller, caller_of
from pocketmq.rpc.v2.delivered import message_within
from pocketmq.rpc.v2.durations import ms_of, timestamp_of
from pocketmq.rpc.v2.resources import group_of, topic_of
from pocketmq.rpc.v2.routes import EnsureGroup, MakeTopic
from pocketmq.rpc.v2.status import OK
from pocketmq.services.admin.members import OWN, RECEIVE, Dialect, Members
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.long_poll import handed_over
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.store.message_store import MessageStore

FILTER_TYPES: Final = frozenset(pb.FilterType.values())
POLL_MAX_MS: Final = 30_000
POLL_MS: Final = 20_000
"""Wait of a client that sends neither a wait nor a deadline."""
RESERVE_MS: Final = 200
"""Part of a call's deadline reserved for sending the answer."""
UNSAID_RESERVE_MS: Final = 3_000
"""Reserved part of a deadline if the client sends no wait: its deadline is its wait plus this."""
TOGETHER_SIZE: Final = 65_536
"""Approximate bytes of records that are encoded and sent together."""
DECOMPRESSED_MAX: Final = 128 * 1024 * 1024
"""Upper limit of decompressed bytes of one receive: 32 bodies of 4 MiB, the usual limit."""
NOTHING: Final = pb.ReceiveMessageResponse(
    status=pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message")
).SerializeToString()
FOUND: Final = pb.ReceiveMessageResponse(status=OK).SerializeToString()


class ReceiveMessage:
    """The method ReceiveMessage."""

    __slots__ = (
        "_consume", "_delivered", "_ensure_group", "_make_topic", "_members", "_messages",
        "_sessions", "_topics", "_turns",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        consume: Consume,
        sessions: Sessions,
        members: Members,
        delivered: Delivered,
        make_topic: MakeTopic,
        ensure_group: EnsureGroup,
    ) -> None:
        self._topics = store.tables.topics
        self._turns = store.turns
        self._consume = consume
        self._delivered = delivered
        self._make_topic = make_topic
        self._sessions = sessions
        self._members = members
        self._ensure_group = ensure_group
        self._messages = V2Messages()

    async def __call__(
        self, message: pb.ReceiveMessageRequest, call: Call
    ) -> AsyncIterator[list[bytes]]:
        """Yields the encoded answers, the status first.

        Errors   ClientIdRequired, those of `group_of`, `topic_of`, `find_readable`,
                 `EnsureGroup` and `MakeTopic`, IllegalInvisibleTime, IllegalFilter; GroupInUse:
                 classic clients pull in the group; errors of puts
        """
        caller = caller_of(call)
        if message.filter_expression.type == pb.SQL:
            await self._turns.turn(turn_user(call))
        topic = topic_of(message.message_queue.topic, call)
        if self._topics.find(topic) is None:
            await self._make_topic(topic)
        request = self._request(message, topic, caller, call)
        await self._ensure_group(request.group)
        self._join(request, caller, call)
        found = self._consume.receive(request)
        release = partial(self._consume.release, request.group, request.topic)
        received = found if isinstance(found, Received) else await handed_over(found, release)
        if received.handles:
            call.if_lost(partial(release, received.handles))
        answers = [FOUND if received.records else NOTHING]
        records, budget = split_pieces(received.records), BodyBudget(DECOMPRESSED_MAX)
        sent_count, left_bytes = 0, budget.left_bytes
        for together in self._messages_of(records, received, message.message_queue.topic, budget):
            if sent_count:
                yield answers
                answers = []
            answers += together
            sent_count += len(together)
            if budget.left_bytes < left_bytes:
                left_bytes = budget.left_bytes
                await asyncio.sleep(0)
        if sent_count < len(records):
            release(received.handles[sent_count:])
        self._count(request, records[:sent_count], received.attempts)
        popped = timestamp_of(received.popped_at_ms)
        end = pb.ReceiveMessageResponse(delivery_timestamp=popped).SerializeToString()
        yield [*answers, end]

    def _messages_of(
        self, records: list[bytes], received: Received, topic: pb.Resource, budget: BodyBudget
    ) -> Iterator[list[bytes]]:
        """Yields lists of encoded messages, until the budget of decompressed bytes is used up.

        A list ends at TOGETHER_SIZE, or after a large body was decompressed.
        """
        handles, attempts = received.handles, received.attempts
        encoded_topic, begin = topic.SerializeToString(), 0
        while begin < len(records):
            end, size_bytes = begin, 0
            while end < len(records) and size_bytes < TOGETHER_SIZE:
                size_bytes += len(records[end])
                end += 1
            there = slice(begin, end)
            answers = self._messages.answers(
                records[there], handles[there], attempts[there], encoded_topic
            )
            together: list[bytes] = []
            for place, plain in enumerate(answers, begin):
                left_bytes = budget.left_bytes
                answer = plain or _answer(
                    budget, records[place], topic, attempts[place], handles[place]
                )
                if not answer:
                    yield from [together] if together else []
                    return
                together.append(answer)
                if left_bytes - budget.left_bytes >= TOGETHER_SIZE:
                    yield together
                    together = []
            yield from [together] if together else []
            begin = end

    def _request(
        self, message: pb.ReceiveMessageRequest, topic: str, caller: Caller, call: Call
    ) -> ReceiveRequest:
        group = group_of(message.group, call)
        find_readable(self._topics, topic, group, check_client_reads)
        invisible_ms = RENEWED_MS if message.auto_renew else ms_of(message.invisible_duration)
        if not INVISIBLE_MIN_MS <= invisible_ms <= INVISIBLE_MAX_MS:
            raise IllegalInvisibleTime(
                value_ms=invisible_ms, lower_ms=INVISIBLE_MIN_MS, upper_ms=INVISIBLE_MAX_MS
            )
        return ReceiveRequest(
            group,
            topic,
            filter_of(message.filter_expression),
            min(max(message.batch_size, 1), RECEIVE_MAX),
            invisible_ms,
            poll_ms(message, call),
            caller.session_id,
            message.attempt_id if len(message.attempt_id) <= SIZE_MAX else "",
            message.auto_renew,
            room=call.room,
            user=reading_user(call, is_heavy=message.filter_expression.type == pb.SQL),
            joined=True,
        )

    def _join(self, request: ReceiveRequest, caller: Caller, call: Call) -> None:
        """Registers the caller as a member of the group.

        Errors   GroupInUse: classic clients pull in the group
        """
        group = request.group
        self._sessions.classic.check_leasable(group)
        self._sessions.heard(caller.session_id)
        dialect = Dialect(caller.language or OWN.language, caller.version or OWN.version)
        self._members.saw(group, request.topic, caller.client_id, call.peer, RECEIVE, dialect)

    def _count(self, request: ReceiveRequest, records: list[bytes], attempts: list[int]) -> None:
        sizes = list(map(len, records))
        for word, is_retry in (("false", False), ("true", True)):
            chosen = [
                size
                for size, attempt in zip(sizes, attempts, strict=False)
                if (attempt > 1) is is_retry
            ]
            if chosen:
                self._delivered.count(request.topic, request.group, len(chosen), sum(chosen), word)


def _answer(
    budget: BodyBudget, record: bytes, topic: pb.Resource, attempt: int, handle: str
) -> bytes:
    """Encodes the answer for a record; b"" if the budget of decompressed bytes is used up."""
    message = message_within(budget, record, topic, attempt=attempt, handle=handle)
    if message is None:
        return b""
    return pb.ReceiveMessageResponse(message=message).SerializeToString()


def filter_of(expression: pb.FilterExpression) -> Filter:
    """Parses the filter of a request; a filter without a type is a tag expression.

    Errors   IllegalFilter, also for an unknown type
    """
    if expression.type not in FILTER_TYPES:
        raise IllegalFilter(
            expression=expression.expression,
            why=f"its type {expression.type} is unknown; use {pb.TAG} for tags, {pb.SQL} for SQL",
        )
    return parse_filter(expression.expression, is_sql=expression.type == pb.SQL)


def poll_ms(message: pb.ReceiveMessageRequest | pb.PullMessageRequest, call: Call) -> int:
    """Returns the time for which a call waits for messages, in ms."""
    left_ms = call.time_left_ms()
    if message.HasField("long_polling_timeout"):
        asked_ms = ms_of(message.long_polling_timeout)
    elif left_ms is None:
        asked_ms = POLL_MS
    else:
        asked_ms = left_ms - UNSAID_RESERVE_MS if left_ms > UNSAID_RESERVE_MS else left_ms // 2
    bound_ms = POLL_MAX_MS if left_ms is None else min(left_ms - RESERVE_MS, POLL_MAX_MS)
    return max(min(asked_ms, bound_ms), 0)
