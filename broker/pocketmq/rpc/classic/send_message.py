"""Sends of classic clients.

    310  SEND_MESSAGE_V2     short field names
    10   SEND_MESSAGE        long field names
    320  SEND_BATCH_MESSAGE  the body contains the messages
    370  RECALL_MESSAGE      recalls a delayed message by the handle that its send returned

Property blocks and flags are stored as the producer wrote them, except that properties which the
broker sets itself, or does not need, are dropped.
Source: SendMessageProcessor, SendMessageRequestHeaderV2, RecallMessageProcessor.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from pocketmq.format.addresses import offset_message_id
from pocketmq.model import message as names
from pocketmq.model.message import INT32_MAX, KEY_SEPARATOR, OFFSET_MAX, TRANSACTION_PREPARED
from pocketmq.rpc.call import Call
from pocketmq.rpc.classic.fields import flag_field, number_field, text_field
from pocketmq.rpc.classic.message_text import (
    batch_rows,
    block_of,
    delivery_of,
    dropped_with,
    pairs_of,
)
from pocketmq.rpc.classic.send_shortcut import send_shortcut
from pocketmq.rpc.classic.status import OF_PUT
from pocketmq.rpc.service import Shortcut
from pocketmq.services.produce.drafts import ABSENT_QUEUE, PEER, Drafts, Envelope
from pocketmq.services.produce.rules import REGION
from pocketmq.services.produce.send import Send, Sent
from pocketmq.wire.remoting import Command

SHORT: Final = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch",
    "n": "brokerName",
}  # fmt: skip
"""Field names of SEND_MESSAGE_V2 -> those of SEND_MESSAGE."""
REQUIRED: Final = ("producerGroup", "topic", "queueId", "sysFlag", "bornTimestamp")
KEPT_FLAGS: Final = 0x703
"""Bits of sysFlag that are stored: compressed body, several tags, and type of compression."""

Prepare = Callable[[Command, Drafts, Envelope], Awaitable[tuple[Drafts, Envelope]] | None]
"""Returns a send to a retry topic in the form to store; None for other sends."""


class ClassicSend:
    """The requests that send messages."""

    __slots__ = ("_returned", "_send", "shortcut")

    def __init__(self, send: Send, returned: Prepare) -> None:
        self._send = send
        self.shortcut: Shortcut = send_shortcut(send)
        self._returned = returned

    async def send(self, request: Command, call: Call) -> Command:
        """Stores all messages of a request, or none.

        Errors   MalformedRequest, those of `Send.send` and `Prepare`
        """
        drafts, envelope = drafts_of(request)
        if (prepared := self._returned(request, drafts, envelope)) is not None:
            drafts, envelope = await prepared
        sent = await self._send.send(drafts, call.peer_host, envelope)
        return _answer(sent, _transaction_id(request, sent))

    async def recall(self, request: Command, call: Call) -> Command:
        """Recalls a delayed message; returns its unique key.

        Errors   MalformedRequest, those of `Recall.recall`
        """
        topic, handle = text_field(request, "topic"), text_field(request, "recallHandle")
        recall = self._send.recall.recall
        unique_key = await recall(topic, handle, call.peer_host, of_any_type=True)
        return Command(0, {"MSG_REGION": REGION, "msgId": unique_key})


def long_names(request: Command) -> Command:
    """Returns a send with the long names of its fields; checks the required fields.

    Errors   MalformedRequest
    """
    given = request.fields
    if "b" in given:
        request = request._replace(fields={SHORT.get(name, name): given[name] for name in given})
    for name in REQUIRED:
        text_field(request, name)
    return request


def batch_names(request: Command) -> Command:
    """Returns a request of SEND_BATCH_MESSAGE, marked as a batch.

    Errors   MalformedRequest
    """
    request = long_names(request)
    return request._replace(fields={**request.fields, "batch": "true"})


def drafts_of(request: Command) -> tuple[Drafts, Envelope]:
    """Returns the messages of a request as `Drafts`, and their common fields as an `Envelope`.

    Errors   MalformedRequest, IllegalNumber, TooManyMessages
    """
    system_flag = number_field(request, "sysFlag")
    queue_id = number_field(request, "queueId", lower=-INT32_MAX)
    born_ms = number_field(request, "bornTimestamp", upper=OFFSET_MAX)
    queue_count = number_field(request, "defaultTopicQueueNums", lower=-INT32_MAX, absent=0)
    is_half = bool(system_flag & TRANSACTION_PREPARED)
    if flag_field(request, "batch"):
        rows = [*batch_rows(request.body)]
    else:
        flag = number_field(request, "flag", lower=-INT32_MAX - 1, absent=0)
        rows = [(request.body, flag, request.fields.get("properties", ""))]
    count = len(rows)
    waits = dict(pairs_of(request.fields.get("properties", ""))).get(names.WAIT, "true") == "true"
    drafts = Drafts(
        waits, [text_field(request, "topic")] * count, [], [], [], [],
        [max(queue_id, ABSENT_QUEUE)] * count, [""] * count, [born_ms] * count, [PEER] * count,
        [], [{}] * count, [],
    )  # fmt: skip
    blocks: list[str] = []
    for body, flag, text in rows:
        pairs = pairs_of(text)
        properties = dict(pairs)
        delivery = delivery_of(properties, text_field(request, "producerGroup"), is_half=is_half)
        drafts.bodies.append(body)
        drafts.flags.append(flag)
        drafts.tags.append(properties.get(names.TAGS, ""))
        keys = properties.get(names.KEYS, "").split(KEY_SEPARATOR)
        drafts.keys.append([key for key in keys if key])
        drafts.message_ids.append(properties.get(names.UNIQUE_KEY, ""))
        drafts.deliveries.append(delivery)
        blocks.append(block_of(text, pairs, dropped_with(delivery)))
    return drafts, Envelope((), system_flag & KEPT_FLAGS, blocks, max(queue_count, 0))


def _transaction_id(request: Command, sent: Sent) -> str:
    """Returns the unique key of a message, or of a whole batch; "": the batch has none."""
    if not flag_field(request, "batch"):
        return sent.message_ids[0]
    return dict(pairs_of(request.fields.get("properties", ""))).get(names.UNIQUE_KEY, "")


def _answer(sent: Sent, transaction_id: str) -> Command:
    """Returns the answer to a send, with the offset message ids of its messages."""
    result, destination = sent.result, sent.destination
    ids = [offset_message_id(destination.store_host, one) for one in result.physical_offsets]
    queue_offset = sent.queue_offsets[0] if sent.queue_offsets else result.queue_offset
    fields = {"queueId": str(destination.queue_id)}
    if transaction_id:
        fields["transactionId"] = transaction_id
    fields |= {"msgId": ",".join(ids), "TRACE_ON": "true", "MSG_REGION": REGION}
    if sent.handles and sent.handles[0]:
        fields["recallHandle"] = sent.handles[0]
    fields["queueOffset"] = str(queue_offset)
    return Command(OF_PUT[result.status], fields)
