"""Finds the queues, besides its own queue, that contain a unit of a record.

The record's properties name these queues:

    record of topic Mq     INNER_MULTI_DISPATCH      = %LMQ%one,%LMQ%two
                           INNER_MULTI_QUEUE_OFFSET  = 7,3
    so it also has         unit 7 of %LMQ%one queue 0, and unit 3 of %LMQ%two queue 0

A broker with enableMultiDispatch adds the offsets when it appends the record. So a record has these
units only if it has both properties. Names that are no valid names of queues are ignored.
Source: MultiDispatchUtils, ConsumeQueue.multiDispatchLmqQueue.
"""

from typing import Final

from pocketmq.format.properties import decode_properties
from pocketmq.format.record import BadRecord, split_record
from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.errors import IllegalTopic
from pocketmq.model.message import MULTI_DISPATCH, MULTI_QUEUE_OFFSET, QueueKey
from pocketmq.model.names import check_queue_topic
from pocketmq.model.topic import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC

_SEPARATOR: Final = ","


def further_places(
    topic: str, queue_id: int, properties: dict[str, str]
) -> list[tuple[QueueKey, int]]:
    """Returns (queue, queue offset) of each further unit of a record."""
    names = properties.get(MULTI_DISPATCH, "").split(_SEPARATOR)
    texts = properties.get(MULTI_QUEUE_OFFSET, "").split(_SEPARATOR)
    if topic == SCHEDULE_TOPIC or topic.startswith((RETRY_PREFIX, "rmq_sys_")):
        return []
    numbers = [number_of(text, SUMMABLE_MAX) for text in texts]
    if len(names) != len(numbers) or min(numbers) < 0:
        return []
    return [
        ((name, 0 if name.startswith(LMQ_PREFIX) else queue_id), number)
        for name, number in zip(names, numbers, strict=True)
        if _is_name(name)
    ]


def offset_in_queue(record: bytes, place: int, key: QueueKey) -> int | None:
    """Returns the queue offset of a record in a queue: its own queue or a further one.

    place    physical offset that the record must contain
    Returns  None if the bytes are not a record of the queue
    """
    try:
        head, _, topic_begin, topic_end, block_begin, block_end = split_record(record, 0)
    except BadRecord:
        return None
    topic, queue_id = record[topic_begin:topic_end].decode("utf-8", "replace"), head[3]
    if head[6] != place:
        return None
    if (topic, queue_id) == key:
        return int(head[5])
    properties = decode_properties(record[block_begin:block_end])
    places = further_places(topic, queue_id, properties)
    return next((number for queue, number in places if queue == key), None)


def _is_name(name: str) -> bool:
    try:
        check_queue_topic(name)
    except IllegalTopic:
        return False
    return True
