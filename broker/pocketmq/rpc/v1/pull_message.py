"""PullMessage, a method of both Broker and Admin.

With shape MESSAGES the answer contains as many messages as fit, and the queue offset of the next
message.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from pocketmq.filter.owned import owned_by, owned_where
from pocketmq.filter.parsing import parse_filter
from pocketmq.format.body_codec import BodyBudget
from pocketmq.format.record import decode_record, is_shown
from pocketmq.model.begin import BEGIN_MAX, BEGIN_UNSET, begin_from_text
from pocketmq.model.filter import Filter
from pocketmq.model.message import INT32_MAX
from pocketmq.model.names import check_group, check_number
from pocketmq.model.ownership import is_ambiguous
from pocketmq.model.reading import PULL_COUNT_MAX, PullResult, PullStatus, ReadRange
from pocketmq.rpc.call import Call, reading_user, turn_user
from pocketmq.rpc.codec.stored_messages import MessageWriter
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import MalformedRequest
from pocketmq.rpc.topic_access import TopicCheck, check_client_reads, find_readable, may_see
from pocketmq.rpc.v1.send_reply import varint
from pocketmq.rpc.v1.stored_reply import proto_message
from pocketmq.services.admin.members import PULL, Members
from pocketmq.services.consume.position import begin_offset
from pocketmq.services.pull import Pull, PullRequest
from pocketmq.store.begins import begin_at_ends, commit_offset
from pocketmq.store.message_store import MessageStore

MAX_MESSAGES_DEFAULT: Final = 32
MAX_MESSAGES_MAX: Final = PULL_COUNT_MAX
MAX_BYTES_DEFAULT: Final = 4 * 1024 * 1024
MAX_BYTES_MAX: Final = 15 * 1024 * 1024
"""Upper bound of `max_bytes`, so that a reply fits 16 MiB; larger values are reduced to it."""
REPLY_SIZE_MAX: Final = 15 * 1024 * 1024 + 512 * 1024
WAIT_MS_MAX: Final = 30_000
"""Upper bound of `wait_ms`, as proxies close silent connections; longer waits are reduced to it."""
DEADLINE_RESERVE_MS: Final = 200
"""Part of a client's deadline reserved for sending the answer."""

ID_SIZE_MAX: Final = 255
"""Upper limit of bytes of a client id or an attempt id."""
RECORDS_TAG: Final = bytes([pb.PullMessageResponse.RECORDS_FIELD_NUMBER << 3 | 2])
"""Encoded tag of the field `records`."""
PULL_STATUSES: Final = {status: status.name for status in PullStatus}

_NO_SUCH_QUEUE: Final = PullResult(PullStatus.NO_SUCH_QUEUE, 0, 0, 0, [], 0)


class PullMessage:
    """The method PullMessage.

    check     decides which topics callers may read
    members   records the pulling clients of groups; None: they are not recorded
    """

    __slots__ = ("_check", "_members", "_messages", "_pull", "_replies", "_store")

    def __init__(
        self, store: MessageStore, pull: Pull, *, check: TopicCheck, members: Members | None = None
    ) -> None:
        self._members = members
        self._store = store
        self._pull = pull
        self._check = check
        self._messages = MessageWriter()
        self._replies = [partial(encode, messages=self._messages, joined=j) for j in (False, True)]

    def __call__(self, message: pb.PullMessageRequest, call: Call) -> bytes | Awaitable[bytes]:
        """Returns an encoded PullMessageResponse, at once or when a message arrives.

        Errors   those of `find_readable`, `request_from_message` and `encode`; OffsetOutOfRange,
                 DiskFull, TooManyRequests, Corruption
        """
        if message.filter.kind:
            work = partial(self._pulled, message, call)
            found: bytes | Awaitable[bytes] = self._store.turns.run(turn_user(call), work)
            return found
        return self._pulled(message, call)

    def _pulled(self, message: pb.PullMessageRequest, call: Call) -> bytes | Awaitable[bytes]:
        config = find_readable(self._store.tables.topics, message.topic, message.group, self._check)
        request = request_from_message(message, call)
        if is_ambiguous(message.topic):
            request = request._replace(wanted=self._owned(request, call))
        if request.group and self._members is not None:
            self._members.saw(request.group, message.topic, message.client_id, call.peer, PULL)
        joined = message.shape == pb.RECORDS
        if not 0 <= message.queue_id < config.read_queue_count:
            return encode(_NO_SUCH_QUEUE, self._messages, joined=joined)
        if message.HasField("commit_offset") or message.begin:
            return self._commit_and_pull(request, message, joined=joined)
        found = self._pull.pull(request, joined=True)
        if not isinstance(found, PullResult):
            return self._wait(request, found, joined=joined)
        if self._pull.should_wait(request, found):
            return self._pull.park(request, found, self._replies[joined], joined=True)
        return encode(found, self._messages, joined=joined)

    def _owned(self, request: PullRequest, call: Call) -> Filter:
        topic, tables = request.range.topic, self._store.tables
        if self._check is check_client_reads:
            return owned_by(request.group, topic, request.wanted)
        return owned_where(topic, request.wanted, lambda read: may_see(call, tables, topic, read))

    async def _wait(
        self, request: PullRequest, found: PullResult | Awaitable[PullResult], *, joined: bool
    ) -> bytes:
        result = found if isinstance(found, PullResult) else await found
        result = await self._pull.wait(request, result, joined=True)
        return encode(result, self._messages, joined=joined)

    async def _commit_and_pull(
        self, request: PullRequest, message: pb.PullMessageRequest, *, joined: bool
    ) -> bytes:
        topic, queue_id = request.range.topic, request.range.queue_id
        if message.HasField("commit_offset"):
            committed = message.commit_offset
            self._store.reading.check_offset(topic, queue_id, committed)
            await commit_offset(self._store, request.group, topic, queue_id, committed)
        if message.begin:
            request = request.from_offset(await self._begun(request, begin_of(message.begin)))
        return await self._wait(request, self._pull.pull(request, joined=True), joined=joined)

    async def _begun(self, request: PullRequest, begin_ms: int) -> int:
        """Returns the group's offset; a group without an offset begins at `begin_ms`."""
        topic, queue_id, tables = request.range.topic, request.range.queue_id, self._store.tables
        found = tables.offsets.find(request.group, topic, queue_id)
        if found is None and begin_ms == BEGIN_MAX:
            await tables.groups.ensure(request.group)
            begin_at_ends(self._store, request.group, topic)
            await tables.offsets.saved()
            found = tables.offsets.find(request.group, topic, queue_id)
            # A topic that was removed meanwhile has no queue to begin in.
            return self._store.reading.queue_range(topic, queue_id)[1] if found is None else found
        if found is None:
            found = await begin_offset(self._store, topic, queue_id, begin_ms)
            await tables.commit(request.group, topic, queue_id, found)
        return found


def request_from_message(message: pb.PullMessageRequest, call: Call) -> PullRequest:
    """Returns the request for the service, checked and with defaults.

    Errors   IllegalGroup, IllegalNumber, IllegalBegin, IllegalFilter, MalformedRequest
    """
    has_commit = message.HasField("commit_offset")
    group = message.group
    if group or has_commit or message.begin:
        check_group(group)
    begin_of(message.begin)
    if has_commit:
        check_number("commit_offset", message.commit_offset)
    check_number("offset", message.offset)
    check_number("max_messages", message.max_messages, upper=MAX_MESSAGES_MAX)
    check_number("max_bytes", message.max_bytes, upper=INT32_MAX)
    check_number("wait_ms", message.wait_ms)
    check_id("client_id", message.client_id)
    check_number("shape", message.shape, upper=pb.RECORDS)
    return PullRequest(
        range=ReadRange(
            message.topic,
            message.queue_id,
            message.offset,
            message.max_messages or MAX_MESSAGES_DEFAULT,
            min(message.max_bytes or MAX_BYTES_DEFAULT, MAX_BYTES_MAX),
        ),
        wanted=wanted_of(message.filter),
        wait_ms=effective_wait_ms(message.wait_ms, call) if message.wait_ms else 0,
        group=group,
        room=call.room,
        check_room=call.check_room,
        user=reading_user(call, is_heavy=bool(message.filter.kind)),
    )


def encode(result: PullResult, messages: MessageWriter, *, joined: bool) -> bytes:
    """Returns a result as an encoded PullMessageResponse.

    messages  a writer, which is overwritten
    joined    shape RECORDS instead of MESSAGES
    Errors    UnsupportedFeature (see stored_reply.proto_message)
    Cost      RECORDS: one copy of the records; MESSAGES: two copies, and about 1.5 µs a message,
              8 µs uncompiled
    """
    if joined and result.records:
        records = result.records
        size = varint(sum(map(len, records)))
        return b"".join((_head(result, result.next_begin_offset), RECORDS_TAG, size, *records))
    if not result.records:
        return _head(result, result.next_begin_offset)
    messages.begin()
    following = _write_messages(result, messages)
    messages.out.write(_head(result, following))
    reply = messages.out.getvalue()
    messages.begin()
    return reply


def _head(result: PullResult, following: int) -> bytes:
    head = pb.PullMessageResponse(
        status=PULL_STATUSES[result.status],
        next_begin_offset=following,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
    )
    return head.SerializeToString()


def _write_messages(result: PullResult, messages: MessageWriter) -> int:
    """Writes as many messages as fit a reply; returns the queue offset of the next one."""
    budget = BodyBudget()
    for records in result.records:
        position = 0
        while True:
            position = messages.add(records, position, REPLY_SIZE_MAX)
            if position == len(records):
                break
            message = decode_record(records, position, decompress=False)
            if not is_shown(message, budget):
                return message.queue_offset
            encoded = proto_message(message).SerializeToString()
            if not messages.add_encoded(encoded, REPLY_SIZE_MAX):
                return message.queue_offset
            position += message.store_size
    return result.next_begin_offset


def check_id(field: str, text: str) -> None:
    """Raises MalformedRequest for an invalid id of a client or an attempt."""
    size = len(text.encode())
    if size > ID_SIZE_MAX:
        raise MalformedRequest(why=f"{field} has {size} bytes; the limit is {ID_SIZE_MAX}")
    if not text.isprintable():
        raise MalformedRequest(why=f"{field} contains a character that is not printable")


def begin_of(text: str) -> int:
    """Parses where a request lets a new group begin; returns BEGIN_UNSET for an empty text.

    Errors   IllegalBegin
    """
    return begin_from_text(text) if text else BEGIN_UNSET


def wanted_of(wanted: pb.Filter) -> Filter:
    """Parses a request's filter.

    Errors   IllegalNumber, IllegalFilter
    """
    check_number("filter.kind", wanted.kind, upper=pb.Filter.SQL)
    return parse_filter(wanted.expression, is_sql=wanted.kind == pb.Filter.SQL)


def effective_wait_ms(asked_ms: int, call: Call) -> int:
    """Returns the wait of a call: as requested, limited by its deadline and WAIT_MS_MAX."""
    left_ms = call.time_left_ms()
    bound_ms = WAIT_MS_MAX if left_ms is None else min(left_ms - DEADLINE_RESERVE_MS, WAIT_MS_MAX)
    return max(min(asked_ms, bound_ms), 0)
