"""Parses messages as classic clients encode them: property blocks, and bodies of batches.

    a message of a batch: i32 size · i32 magic · i32 crc · i32 flag · i32 size · body · i16 size ·
    properties

A producer may send a consumed message again, with properties that only a broker sets. These are
dropped from the block. Source: MessageDecoder, HookUtils, SendMessageProcessor.
"""

from collections.abc import Iterator, Mapping
from struct import Struct, error
from typing import Final

from pocketmq.format.properties import NAME_SEPARATOR, PAIR_SEPARATOR
from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.model import message as names
from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.errors import TooManyMessages
from pocketmq.model.message import INT32_MAX
from pocketmq.model.system_topics import DELIVERY_TIMES
from pocketmq.rpc.service import MalformedRequest
from pocketmq.services.produce.drafts import AT_ONCE, DeliveryRequest

SET_BY_BROKER: Final = frozenset(
    {
        names.CLUSTER, names.MSG_REGION, names.TRACE_ON, names.REAL_TOPIC, names.REAL_QUEUE,
        names.TIMER_OUT, names.TIMER_OUT_NOW, names.TIMER_ENQUEUED, names.TIMER_DEQUEUED,
        names.TIMER_ROLLS, names.TIMER_DELETE, names.TRANSACTION_ID, names.FIRST_HALF_OFFSET,
        names.TRANSACTION_CHECK_TIMES, names.PROPERTY_CRC, names.MULTI_DISPATCH,
        names.MULTI_QUEUE_OFFSET, names.BODY_CODEC, names.PRIORITY, names.POP_CHECKPOINT,
    }
)  # fmt: skip
"""Properties that are dropped from a producer's block."""
_HALF: Final = frozenset(
    {names.IS_TRANSACTIONAL, names.PRODUCER_GROUP, names.CHECK_IMMUNITY_SECONDS}
)
_HEAD: Final = Struct(">iiiii")
_NUMBER: Final = Struct(">h")


def batch_rows(body: bytes) -> Iterator[tuple[bytes, int, str]]:
    """Yields (body, flag, properties) of the messages in the body of a batch.

    Errors   MalformedRequest, TooManyMessages
    """
    position = count = 0
    try:
        while position < len(body):
            count += 1
            if count > MESSAGES_MAX:
                raise TooManyMessages(count=count, limit=MESSAGES_MAX)
            size, _, _, flag, body_size = _HEAD.unpack_from(body, position)
            begin = position + _HEAD.size
            end = begin + body_size
            (text_size,) = _NUMBER.unpack_from(body, end)
            position += size
            if min(body_size, text_size) < 0 or end + _NUMBER.size + text_size != position:
                raise MalformedRequest(why=f"message {count} of the batch has another size")
            text = body[end + _NUMBER.size : position]
            if len(text) < text_size:
                raise MalformedRequest(why=f"message {count} of the batch is cut off")
            yield body[begin:end], flag, text.decode()
    except (error, UnicodeDecodeError) as failure:
        raise MalformedRequest(why=f"message {count} of the batch is damaged") from failure


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Returns the pairs of a property block, without those with an empty name or value."""
    pairs = [pair.partition(NAME_SEPARATOR) for pair in text.split(PAIR_SEPARATOR)]
    return [(name, value) for name, _, value in pairs if name and value]


def block_of(text: str, pairs: list[tuple[str, str]], dropped: frozenset[str]) -> str:
    """Returns a producer's block without `dropped` properties; each pair ends with a separator."""
    if any(name in dropped for name, _ in pairs):
        kept = [(name, value) for name, value in pairs if name not in dropped]
        return "".join(f"{name}{NAME_SEPARATOR}{value}{PAIR_SEPARATOR}" for name, value in kept)
    return text if not text or text.endswith(PAIR_SEPARATOR) else text + PAIR_SEPARATOR


def delivery_of(properties: Mapping[str, str], group: str, *, is_half: bool) -> DeliveryRequest:
    """Returns the delivery that a message's properties request.

    The first of these that is set counts: delay level, delay, delivery time, priority. A half
    message has no priority, but its producer group and the delay of its first check.

    Source   HookUtils.handleScheduleMessage
    """

    def number(name: str) -> int:
        return max(number_of(properties.get(name, ""), SUMMABLE_MAX), 0)

    asked = AT_ONCE
    if is_half:
        first_ms = number(names.CHECK_IMMUNITY_SECONDS) * 1_000
        asked = DeliveryRequest(transactional=True, producer_group=group, first_check_ms=first_ms)
    if level := number(names.DELAY):
        return asked._replace(delay_level=min(level, INT32_MAX))
    if delay_ms := number(names.TIMER_DELAY_SECONDS) * 1_000 or number(names.TIMER_DELAY_MS):
        return asked._replace(delay_ms=delay_ms)
    if at_ms := number(names.DELIVER_AT):
        return asked._replace(deliver_at_ms=at_ms)
    if names.PRIORITY in properties and not is_half:
        return DeliveryRequest(priority=min(number(names.PRIORITY), INT32_MAX))
    return asked


def dropped_with(delivery: DeliveryRequest) -> frozenset[str]:
    """Returns the names of properties to drop from a block: the broker sets or ignores them."""
    dropped = SET_BY_BROKER | _HALF if delivery.transactional else SET_BY_BROKER
    if delivery.delay_level:
        return dropped | DELIVERY_TIMES | {names.DELAY}
    if delivery.delay_ms:
        return dropped | {names.TIMER_DELAY_MS}
    return dropped | {names.DELIVER_AT} if delivery.deliver_at_ms else dropped
