"""A stored message by named fields, as faces and commands show it.

Names and meaning are those of pocketmq.v1.StoredMessage; None stands for what a message has not.
"""

from typing import Any

from broker.format.addresses import offset_message_id, text_from_host
from broker.model.message import (
    DELAY,
    DELIVER_AT,
    INT32_MAX,
    OFFSET_MAX,
    SHARDING_KEY,
    StoredMessage,
)


def message_fields(message: StoredMessage) -> dict[str, Any]:
    """Return the fields of a message, in the order of the proto; ids and hosts are texts."""
    properties = message.properties
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size,
        "message_id": message.unique_key,
        "offset_message_id": offset_message_id(message.store_host, message.physical_offset),
        "tag": message.tag,
        "keys": message.keys,
        "message_group": properties.get(SHARDING_KEY),
        "properties": properties,
        "body": message.body,
        "body_crc": message.body_crc,
        "system_flag": message.system_flag,
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        "born_timestamp_ms": message.born_timestamp_ms,
        "born_host": text_from_host(message.born_host),
        "store_timestamp_ms": message.store_timestamp_ms,
        "store_host": text_from_host(message.store_host),
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "delay_level": _number(properties.get(DELAY), INT32_MAX),
        "deliver_at_ms": _number(properties.get(DELIVER_AT), OFFSET_MAX),
    }


def _number(text: str | None, largest: int) -> int | None:
    """Return a property's number, None for none and for what is no number the field can hold."""
    if text is None or len(text) > 20:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -largest - 1 <= value <= largest else None
