"""Messages for later delivery: their system topics and properties.

    delay level     SCHEDULE_TOPIC_XXXX, queue level - 1
    time, delay     rmq_sys_wheel_timer, queue 0; if already due: the target topic
    transaction     RMQ_SYS_TRANS_HALF_TOPIC, queue 0; a delay follows the commit

Source: HookUtils.handleScheduleMessage, TransactionalMessageBridge.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.format.recall_handle import RecallHandle, encode_recall_handle
from pocketmq.model.batch import Batch, Destination, PutResult, Run
from pocketmq.model.errors import IllegalDeliveryTime
from pocketmq.model.message import (
    CHECK_IMMUNITY_SECONDS,
    DELAY,
    DELIVER_AT,
    PRIORITY,
    PRODUCER_GROUP,
    TIMER_DELAY_MS,
    TIMER_OUT,
)
from pocketmq.model.system_topics import ParkedMessage, QueuePlace, delayed, half, timed
from pocketmq.services.produce.drafts import DeliveryRequest


class DelayLimits(NamedTuple):
    """The number of delay levels, and the longest delay in ms."""

    level_count: int
    delay_max_ms: int


class Parting(NamedTuple):
    """The messages of a request, grouped by queue.

    runs      one run for each queue
    numbers   for each run: the indexes of the run's messages in the request, ascending
    """

    runs: list[Run]
    numbers: list[list[int]]

    def joined(self, results: Sequence[PutResult]) -> tuple[PutResult, list[int]]:
        """Returns the physical and queue offsets of all messages, in the order of the request.

        results   the put's result for each run
        """
        assert len(results) == len(self.runs)
        count = sum(map(len, self.numbers))
        places, queue_offsets = [0] * count, [0] * count
        for result, numbers in zip(results, self.numbers, strict=True):
            for index, number in enumerate(numbers):
                places[number] = result.physical_offsets[index]
                queue_offsets[number] = result.queue_offset + index
        last = results[-1]
        return last._replace(physical_offsets=places, queue_offset=queue_offsets[0]), queue_offsets


def disguise(
    place: QueuePlace, delivery: DeliveryRequest, message_id: str, now_ms: int, waiting: DelayLimits
) -> ParkedMessage:
    """Returns the queue in which a message for `place` is stored, and the properties to add.

    Errors   IllegalDeliveryTime
    """
    at_ms, said = now_ms, dict[str, str]()
    if delivery.delay_ms > 0:
        at_ms, said = now_ms + delivery.delay_ms, {TIMER_DELAY_MS: str(delivery.delay_ms)}
    elif delivery.deliver_at_ms > 0:
        at_ms, said = delivery.deliver_at_ms, {DELIVER_AT: str(delivery.deliver_at_ms)}
    if at_ms - now_ms > waiting.delay_max_ms:
        raise IllegalDeliveryTime(ahead_ms=at_ms - now_ms, limit_ms=waiting.delay_max_ms)
    if delivery.transactional:
        return _half(place, delivery, message_id, said)
    if delivery.delay_level > 0:
        return delayed(place, delivery.delay_level, waiting.level_count)
    if delivery.priority is not None:
        return ParkedMessage(place, {PRIORITY: str(delivery.priority)})
    if at_ms <= now_ms:
        return ParkedMessage(place, said)
    waits = timed(place, at_ms)
    return waits._replace(changed=said | waits.changed)


def _half(
    place: QueuePlace, delivery: DeliveryRequest, message_id: str, said: dict[str, str]
) -> ParkedMessage:
    """Returns the queue and properties of a half message; `said` has its delay after the commit."""
    waits = half(place, message_id)
    said = said | {PRODUCER_GROUP: delivery.producer_group or place.topic}
    if delivery.delay_level > 0:
        said[DELAY] = str(delivery.delay_level)
    if delivery.first_check_ms > 0:
        said[CHECK_IMMUNITY_SECONDS] = str(-(-delivery.first_check_ms // 1_000))
    return waits._replace(changed=said | waits.changed)


def recall_handle(disguise: ParkedMessage, place: QueuePlace, broker: str, message_id: str) -> str:
    """Returns the recall handle of a message for `place`; "" if the message cannot be recalled."""
    slot_text = disguise.changed.get(TIMER_OUT)
    if slot_text is None or " " in message_id:
        return ""
    handle = RecallHandle(place.topic, broker, int(slot_text) + 1, message_id)
    return encode_recall_handle(handle)


def parted(places: Sequence[QueuePlace], batch: Batch, destination: Destination) -> Parting:
    """Groups messages by the queues in which they are stored.

    places        for each message: the queue in which it is stored
    destination   the fields that all messages share; its queue is replaced
    """
    assert len(places) == len(batch)
    numbers: dict[QueuePlace, list[int]] = {}
    for number, place in enumerate(places):
        numbers.setdefault(place, []).append(number)
    runs = [
        (
            destination._replace(topic=place.topic, queue_id=place.queue_id),
            batch.part(members) if len(numbers) > 1 else batch,
        )
        for place, members in numbers.items()
    ]
    return Parting(runs, list(numbers.values()))
