"""Operators' requests about files of the store.

    321  QUERY_CONSUME_QUEUE           316  CLEAN_UNUSED_TOPIC
    306  CLEAN_EXPIRED_CONSUMEQUEUE    329  DELETE_EXPIRED_COMMITLOG

Source: AdminBrokerProcessor, QueryConsumeQueueResponseBody.
"""

from typing import Any, Final

from pocketmq.model.message import OFFSET_MAX
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.clients import subscription_row
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.status import OK, SYSTEM_ERROR
from pocketmq.rpc.services import Services
from pocketmq.store.read.cold_read import value_of
from pocketmq.wire.remoting import Command

UNITS_MAX: Final = 1_024
"""Upper limit of the units in one answer."""


class AdminUpkeep:
    """The requests about files of the store."""

    __slots__ = ("_controls", "_groups", "_store")

    def __init__(self, backing: Services, controls: Controls) -> None:
        self._store = backing.store
        self._groups = backing.sessions.classic.groups
        self._controls = controls

    async def queue_units(self, request: Command, call: ClassicCall) -> Command:
        """Returns units of a consume queue: physical offsets, sizes and tags codes of records.

        Errors   MalformedRequest, IllegalNumber, IllegalTopic, TopicNotFound, QueueOutOfRange,
                 DiskSlow
        """
        topic, queue_id = text_field(request, "topic"), number_field(request, "queueId")
        self._store.tables.topics.existing(topic).check_queue(queue_id)
        begin = number_field(request, "index", upper=OFFSET_MAX)
        count = min(number_field(request, "count", lower=1), UNITS_MAX)
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        shown: dict[str, Any] = {"maxQueueIndex": upper, "minQueueIndex": lower, "queueData": []}
        group = self._groups.group(request.fields.get("consumerGroup", ""))
        known = None if group is None else group.subscriptions.get(topic)
        if known is not None:
            shown["subscriptionData"] = subscription_row(known)
        if not lower <= begin < upper:
            remark = f"Index {begin} of {queue_id}@{topic} is not exist!"
            return json_answer(shown)._replace(remark=remark)
        reading = self._store.reading
        places = await value_of(reading.unit_places(topic, queue_id, begin, count))
        codes = await value_of(reading.tags_codes(topic, queue_id, begin, count))
        # The second read may return more units than the first.
        shown["queueData"] = [
            {"eval": False, "physicOffset": at, "physicSize": size, "tagsCode": code}
            for (at, size), code in zip(places, codes, strict=False)
        ]
        return json_answer(shown)

    def clean_queues(self, request: Command, call: ClassicCall) -> Command:
        """Does nothing: retention deletes the units of a queue when it deletes the messages."""
        return OK

    def clean_topics(self, request: Command, call: ClassicCall) -> Command:
        """Does nothing: the deletion of a topic removes the topic's queues."""
        return OK

    def expire(self, request: Command, call: ClassicCall) -> Command:
        """Makes retention delete expired files of the log within seconds, at any hour."""
        if self._controls.expire_soon():
            return OK
        return Command(SYSTEM_ERROR, remark="retention is off; set retention.mode to on")
