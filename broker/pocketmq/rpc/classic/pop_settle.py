"""Acknowledges popped messages and changes their invisible durations, by receipt handle.

    200051  ACK_MESSAGE    200151  BATCH_ACK_MESSAGE    200053  CHANGE_MESSAGE_INVISIBLETIME

Clients name the topic, or the retry topic from which the message came.
Source: AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from typing import Final

from pocketmq.format.receipt_handle import read_handle
from pocketmq.model.consuming import INVISIBLE_MAX_MS, SettleStatus
from pocketmq.model.decimal import number_of
from pocketmq.model.errors import IllegalInvisibleTime
from pocketmq.model.message import INT32_MAX
from pocketmq.model.system_topics import leased_topic
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import flag_field, number_field, text_field
from pocketmq.rpc.classic.pop_body import acks_of
from pocketmq.rpc.classic.status import NO_MESSAGE, OK
from pocketmq.rpc.services import Services
from pocketmq.wire.remoting import Command

INVALID: Final = Command(
    NO_MESSAGE,
    remark="the receipt handle is not valid: its message is settled, or was delivered again",
)


_PLACE: Final = slice(6, None)
"""Fields of a handle after the broker: queue id and queue offset."""


class ClassicSettle:
    """The requests that settle popped messages."""

    __slots__ = ("_consume",)

    def __init__(self, backing: Services) -> None:
        self._consume = backing.consume

    async def ack(self, request: Command, call: ClassicCall) -> Command:
        """Acknowledges a message; durable before the answer.

        Errors   MalformedRequest, GroupNotFound; those of a put: the message is not acknowledged
        """
        group, topic, handle = _settled_by(request)
        (settled,) = await self._consume.ack(group, topic, [handle])
        return OK if settled.status is SettleStatus.OK else INVALID

    async def ack_batch(self, request: Command, call: ClassicCall) -> Command:
        """Acknowledges messages of several groups and topics; invalid handles are ignored.

        Errors   MalformedRequest, TooManyElements, GroupNotFound; those of a put: earlier messages
                 of the request are acknowledged
        """
        acks = acks_of(request)
        for one in acks:
            if one.handles:
                topic = leased_topic(one.topic, one.group)
                await self._consume.ack(one.group, topic, one.handles)
        return OK if acks else Command(NO_MESSAGE, remark="the request has no acks")

    async def change_invisible(self, request: Command, call: ClassicCall) -> Command:
        """Changes the invisible duration of a message, counted from now; returns a new handle.

        Errors   MalformedRequest, IllegalNumber, IllegalInvisibleTime, GroupNotFound; those of a
                 put: nothing was changed
        """
        group, topic, handle = _settled_by(request)
        invisible_ms = number_field(request, "invisibleTime", lower=-INT32_MAX)
        (settled,) = await self._consume.change_invisible(
            group, topic, [(handle, invisible_ms)], is_suspended=flag_field(request, "suspend")
        )
        if settled.status is SettleStatus.ILLEGAL_INVISIBLE_TIME:
            raise IllegalInvisibleTime(value_ms=invisible_ms, lower_ms=0, upper_ms=INVISIBLE_MAX_MS)
        made = read_handle(settled.handle)
        if settled.status is not SettleStatus.OK or made is None:
            return INVALID
        place = made[0]
        fields = {
            "popTime": str(place.popped_at_ms), "invisibleTime": str(place.invisible_ms),
            "reviveQid": str(place.revive_queue),
        }  # fmt: skip
        return Command(0, fields)


def _settled_by(request: Command) -> tuple[str, str, str]:
    group = text_field(request, "consumerGroup")
    topic = leased_topic(text_field(request, "topic"), group)
    return group, topic, _own_handle(request)


def _own_handle(request: Command) -> str:
    """Returns the handle without a ninth field, the physical offset that RocketMQ's proxy adds."""
    handle = text_field(request, "extraInfo")
    shorter, _, last = handle.rpartition(" ")
    place = [request.fields.get("queueId"), request.fields.get("offset")]
    is_longer = shorter.split(" ")[_PLACE] == place and number_of(last) >= 0
    return shorter if is_longer else handle
