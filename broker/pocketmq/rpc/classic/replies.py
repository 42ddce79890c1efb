"""Replies to requests between classic clients.

    324  SEND_REPLY_MESSAGE            325  SEND_REPLY_MESSAGE_V2, with short field names
    326  PUSH_REPLY_MESSAGE_TO_CLIENT, from the broker

A request is a message whose producer waits for a reply. The consumer sends the reply with the
producer's client id. The broker passes the reply on over that client's connection, and does not
store it (storeReplyMessageEnable=false).
Source: ReplyMessageProcessor, RequestResponseFuture, MessageUtil.
"""

from typing import Final

from pocketmq.format.properties import NAME_SEPARATOR, PAIR_SEPARATOR
from pocketmq.model import message as names
from pocketmq.rpc.channel import ClassicCall, RemotingChannel, answer_within
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.message_text import pairs_of
from pocketmq.rpc.classic.status import SUCCESS, SYSTEM_ERROR
from pocketmq.rpc.services import Services
from pocketmq.services.produce.rules import REGION
from pocketmq.wire.remoting import Command

PUSH: Final = 326
ANSWER_S: Final = 10.0
"""Time in seconds that a client has to confirm a reply, as in RocketMQ."""
PUSH_TIME: Final = "PUSH_REPLY_TIME"
REPLY_TO: Final = "REPLY_TO_CLIENT"
PASSED_ON: Final = {
    "producerGroup": "", "topic": "", "defaultTopic": "", "defaultTopicQueueNums": "0",
    "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0", "reconsumeTimes": "0",
    "unitMode": "false",
}  # fmt: skip
"""Field that is passed on to the producer -> its value if the consumer's reply lacks the field."""


class ClassicReplies:
    """The requests that send replies."""

    __slots__ = ("_clock", "_groups")

    def __init__(self, backing: Services) -> None:
        self._clock = backing.store.clock
        self._groups = backing.sessions.classic.groups

    async def reply(self, request: Command, call: ClassicCall) -> Command:
        """Passes a reply on to the client that waits for it; the answer reports whether it arrived.

        Errors   MalformedRequest
        """
        properties = dict(pairs_of(request.fields.get("properties", "")))
        fields = {
            "queueId": text_field(request, "queueId"), "msgId": "0", "TRACE_ON": "true",
            "MSG_REGION": REGION, "queueOffset": "0",
        }  # fmt: skip
        why = await self._pushed(request, properties, call)
        return Command(SYSTEM_ERROR if why else SUCCESS, fields, remark=why)

    async def _pushed(self, request: Command, properties: dict[str, str], call: ClassicCall) -> str:
        """Returns why a reply did not arrive, "" if it did; the texts are RocketMQ's."""
        client_id = properties.get(REPLY_TO)
        if client_id is None:
            return f"reply message properties[{REPLY_TO}] is null"
        channel = self._groups.producer_connection(client_id)
        if not isinstance(channel, RemotingChannel):
            return f"push reply message fail, channel of <{client_id}> not found."
        try:
            done = await answer_within(channel, self._push(request, properties, call), ANSWER_S)
        except (TimeoutError, ConnectionResetError):
            done = None
        if done is None or done.code != SUCCESS:
            return f"push reply message to {client_id}fail."
        return ""

    def _push(self, request: Command, properties: dict[str, str], call: ClassicCall) -> Command:
        now_ms = str(self._clock.wall_ms())
        host = call.peer.partition(":")[2]
        own = {PUSH_TIME: now_ms, names.MSG_REGION: REGION, names.TRACE_ON: "true"}
        block = "".join(
            f"{name}{NAME_SEPARATOR}{value}{PAIR_SEPARATOR}"
            for name, value in {**properties, **own}.items()
        )
        given = request.fields
        fields = {name: given.get(name, absent) for name, absent in PASSED_ON.items()}
        fields |= {
            "bornHost": host,
            "storeHost": call.channel.local or host,
            "storeTimestamp": now_ms,
            "properties": block,
        }
        return Command(PUSH, fields, request.body)
