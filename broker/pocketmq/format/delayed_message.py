"""Reads the properties of a delayed message: target, due time and recall key.

Source: TimerMessageStore, ScheduleMessageService, RecallMessageHandle.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.format.recall_handle import RecallHandle, encode_recall_handle
from pocketmq.model.administration import DelayedMessage
from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.message import (
    DELAY,
    DELIVER_AT,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELETE,
    TIMER_OUT,
    StoredMessage,
)
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.system_topics import TIMER_TOPIC, restored
from pocketmq.model.topic import SCHEDULE_TOPIC, SYSTEM_PREFIXES

WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)
"""Topics of delayed messages: by delay level, with one queue a level; by delivery time."""


def delayed_message(
    message: StoredMessage, levels: DelayLevels, broker: str
) -> DelayedMessage | None:
    """Returns a pending message; None for leases, delete markers, and records without a due time.

    broker   this broker's name, which recall handles contain
    """
    properties = message.properties
    sent = restored(properties)
    if sent is None or sent[0].topic.startswith(SYSTEM_PREFIXES) or TIMER_DELETE in properties:
        return None
    slot_ms, level = _number(properties.get(TIMER_OUT)), _number(properties.get(DELAY))
    handle = ""
    if message.topic == SCHEDULE_TOPIC:
        due_ms = levels.due_ms(properties.get(DELAY, ""), message.store_timestamp_ms)
    else:
        due_ms, level = timed_ms(message), 0
        if slot_ms and message.unique_key and " " not in message.unique_key:
            handle = encode_recall_handle(
                RecallHandle(sent[0].topic, broker, slot_ms + 1, message.unique_key)
            )
    if not due_ms:
        return None
    return DelayedMessage(
        message_id=message.unique_key,
        topic=sent[0].topic,
        queue_id=sent[0].queue_id,
        deliver_at_ms=due_ms,
        delay_level=level or None,
        store_timestamp_ms=message.store_timestamp_ms,
        physical_offset=message.physical_offset,
        tag=message.tag,
        keys=message.keys,
        recall_handle=handle,
    )


def goes_to(message: StoredMessage, topic: str) -> bool:
    """Returns whether a record is for a topic, or recalls a message for the topic."""
    return message.properties.get(REAL_TOPIC) == topic


def timed_ms(message: StoredMessage) -> int:
    """Returns the delivery time of a record of the timer's topic, in ms since 1970; 0: none."""
    return timer_due_ms(message.properties, message.store_timestamp_ms)


def timer_due_ms(properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    """Returns `timed_ms` of a record with these properties and this store time."""
    length_ms = _number(properties.get(TIMER_DELAY_SECONDS)) * 1_000
    length_ms = length_ms or _number(properties.get(TIMER_DELAY_MS))
    slot_ms = _number(properties.get(TIMER_OUT))
    if length_ms:
        # The delay counts from the store time, but the result stays within the slot's second.
        return max(min(store_timestamp_ms + length_ms, slot_ms + 1_000), slot_ms + 1)
    return _number(properties.get(DELIVER_AT)) or slot_ms


def _number(text: str | None) -> int:
    return max(number_of(text or "", SUMMABLE_MAX), 0)
