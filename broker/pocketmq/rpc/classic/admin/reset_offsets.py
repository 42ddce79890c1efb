"""Resets of groups' offsets, and the offsets of connected consumers, for operators.

    314  CLONE_GROUP_OFFSET
    222  INVOKE_BROKER_TO_RESET_OFFSET          220  RESET_CONSUMER_CLIENT_OFFSET, to clients
    223  INVOKE_BROKER_TO_GET_CONSUMER_STATUS   221  GET_CONSUMER_STATUS_FROM_CLIENT, to clients

Consumers adopt reset offsets at their next pull (rpc/classic/pull_message.py). Only members of
broadcasting groups, which keep their offsets themselves, get code 220.
Source: AdminBrokerProcessor.resetOffset, Broker2Client.getConsumeStatus.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from pocketmq.model.administration import ResetTarget
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rpc.channel import ClassicCall, RemotingChannel, answer_within
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.object_keys import (
    keyed_answer,
    keyed_text,
    object_keyed,
    object_keyed_in,
    queue_key,
    text_of,
)
from pocketmq.rpc.classic.status import OK, SUCCESS, SYSTEM_ERROR
from pocketmq.rpc.services import Services
from pocketmq.services.admin.positions import clone_offsets, reset_offsets
from pocketmq.services.sessions.classic_groups import ClassicMember
from pocketmq.wire.remoting import Command

TELL_RESET: Final = 220
ASK_STATUS: Final = 221
ANSWER_S: Final = 5.0
"""Upper limit of the consumers' time to answer, as in RocketMQ."""
_TABLE: Final = "messageQueueTable"


class AdminResets:
    """The requests that reset offsets of groups or ask consumers for theirs."""

    __slots__ = ("_broker", "_groups", "_pops", "_pull", "_store")

    def __init__(self, backing: Services, broker: str) -> None:
        self._store = backing.store
        self._pull = backing.pull
        self._groups = backing.sessions.classic.groups
        self._pops = backing.store.tables.modes.pops
        self._broker = broker
        resets = backing.store.tables.offsets.resets
        resets.is_pulling = self._is_pulling
        resets.moved = self._moved

    async def reset(self, request: Command, call: ClassicCall) -> Command:
        """Resets a group's offsets in a topic to a time, or in one queue to an offset.

        A negative time is the end of the queue. `isForce` is ignored, as in RocketMQ 5.

        Errors   MalformedRequest, IllegalNumber, those of `reset_offsets`
        """
        group, topic = text_field(request, "group"), text_field(request, "topic")
        time_ms = number_field(request, "timestamp", lower=-OFFSET_MAX, upper=OFFSET_MAX)
        queue_id = number_field(request, "queueId", lower=-1, absent=-1)
        queue_offset = number_field(request, "offset", lower=-1, upper=OFFSET_MAX, absent=-1)
        if queue_id >= 0 and queue_offset >= 0:
            target = ResetTarget(queue_offset=queue_offset)
        else:
            target = ResetTarget(latest=True) if time_ms < 0 else ResetTarget(time_ms=time_ms)
        queue_ids = () if queue_id < 0 else (queue_id,)
        moved = await reset_offsets(self._store, group, topic, target, queue_ids=queue_ids)
        rows = ((queue_key(self._broker, topic, one.queue_id), one.new_offset) for one in moved)
        return keyed_answer("offsetTable", rows)

    async def clone(self, request: Command, call: ClassicCall) -> Command:
        """Copies a group's offsets to another group, which is created if it is missing.

        Errors   MalformedRequest, those of `clone_offsets`
        """
        source, target = text_field(request, "srcGroup"), text_field(request, "destGroup")
        await clone_offsets(self._store, source, target, request.fields.get("topic", "").strip())
        return OK

    def _is_pulling(self, group: str) -> bool:
        found = self._groups.group(group)
        return found is not None and not found.consumer.is_broadcast and not self._pops(group)

    def _moved(self, group: str, topic: str, queue_offsets: Mapping[int, int]) -> None:
        """Answers waiting pulls of a reset group; sends code 220 to members that broadcast."""
        self._pull.end_waits(group, topic)
        found = self._groups.group(group)
        if found is None or not found.consumer.is_broadcast:
            return
        fields = {"group": group, "topic": topic, "timestamp": "-1", "isForce": "true"}
        for connection, member in found.members.items():
            assert isinstance(connection, RemotingChannel), "a member without a connection"
            body = self._reset_body(member, topic, queue_offsets)
            connection.tell(Command(TELL_RESET, fields, body))

    def _reset_body(
        self, member: ClassicMember, topic: str, queue_offsets: Mapping[int, int]
    ) -> bytes:
        rows = [(queue_key(self._broker, topic, i), at) for i, at in sorted(queue_offsets.items())]
        if member.language == "CPP":  # The C++ client cannot parse maps with objects as keys.
            return text_of({"offsetTable": [{**key, "offset": at} for key, at in rows]}).encode()
        return keyed_text("offsetTable", rows).encode()

    async def status(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offsets that connected consumers report, of one client or of all.

        Consumers that do not answer in time are left out.

        Errors   MalformedRequest
        """
        group, topic = text_field(request, "group"), text_field(request, "topic")
        wanted = request.fields.get("clientAddr", "").strip()
        members = [
            (member.client_id, connection)
            for connection, member in self._groups.consumers(group).items()
            if wanted in ("", member.client_id) and isinstance(connection, RemotingChannel)
        ]
        if not members:
            remark = f"No Any Consumer online in the consumer group: [{group}]"
            return Command(SYSTEM_ERROR, remark=remark)
        asked = Command(ASK_STATUS, {"group": group, "topic": topic})
        waiting = asyncio.gather(*(_status_of(one, asked) for _, one in members))
        waiting.add_done_callback(_retrieve)  # The caller may be gone by then.
        texts = await waiting
        tables = (
            f"{text_of(client_id)}:{text}"
            for (client_id, _), text in zip(members, texts, strict=True)
            if text
        )
        table = ",".join(tables)
        return Command(SUCCESS, body=f'{{"consumerTable":{{{table}}},"{_TABLE}":{{}}}}'.encode())


def _retrieve(done: "asyncio.Future[list[str]]") -> None:
    """Marks an error as retrieved, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


async def _status_of(channel: RemotingChannel, asked: Command) -> str:
    """Returns the text of a consumer's offsets by queue, "" if it does not answer."""
    try:
        reply = await answer_within(channel, asked, ANSWER_S)
    except (TimeoutError, ConnectionResetError):
        return ""
    found = object_keyed_in(reply.body, _TABLE) if reply.code == SUCCESS else None
    return "" if found is None else object_keyed(found)
