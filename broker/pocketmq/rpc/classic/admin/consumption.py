"""Operators' requests about the progress of consumer groups.

    303  QUERY_CONSUME_TIME_SPAN         345  QUERY_SUBSCRIPTION_BY_CONSUMER
    317  GET_BROKER_CONSUME_STATS

Source: AdminBrokerProcessor, ConsumeStatsList, QueueTimeSpan.
"""

from typing import Any

from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.clients import subscription_row
from pocketmq.rpc.classic.admin.offset_rows import offset_rows
from pocketmq.rpc.classic.fields import flag_field, text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.object_keys import keyed_text, queue_key, text_of
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.permissions import LOOK, SEE, group_need, topic_need
from pocketmq.rpc.services import Services
from pocketmq.services.admin.rates import Rates
from pocketmq.store.read.cold_read import value_of
from pocketmq.wire.remoting import Command


class AdminConsumption:
    """The requests about what groups have consumed."""

    __slots__ = ("_groups", "_rates", "_rules", "_store")

    def __init__(self, backing: Services, rules: ClassicRules, rates: Rates) -> None:
        self._store = backing.store
        self._groups = backing.sessions.classic.groups
        self._rules = rules
        self._rates = rates

    async def time_span(self, request: Command, call: ClassicCall) -> Command:
        """Returns a group's delay in each queue of a topic, and store times of messages.

        The messages are the first and last of the queue and the last that the group consumed. The
        delay is the age in ms of the next message to consume.

        Errors   MalformedRequest, IllegalTopic, TopicNotFound, StorageError, DiskSlow
        Cost     up to four reads of the log a queue
        """
        group, topic = text_field(request, "group"), text_field(request, "topic")
        config = self._store.tables.topics.existing(topic)
        spans = [
            await self._span(group, topic, queue_id) for queue_id in range(config.write_queue_count)
        ]
        return json_answer({"consumeTimeSpanSet": spans})

    async def _span(self, group: str, topic: str, queue_id: int) -> dict[str, Any]:
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        committed = self._store.tables.offsets.find(group, topic, queue_id) or 0

        async def time_at(queue_offset: int) -> int:
            if not lower <= queue_offset < upper:
                return -1
            found = self._store.reading.store_timestamp_at(topic, queue_id, queue_offset)
            return await value_of(found) or -1

        first_ms, next_ms = await time_at(lower), await time_at(committed)
        return {
            "consumeTimeStamp": await time_at(committed - 1) if committed else first_ms,
            "delayTime": self._store.clock.wall_ms() - next_ms if next_ms > 0 else 0,
            "maxTimeStamp": await time_at(upper - 1),
            "messageQueue": queue_key(self._rules.broker, topic, queue_id),
            "minTimeStamp": first_ms,
        }

    async def of_all_groups(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offsets of all groups in all topics; with isOrder, only in ordered topics.

        Groups and topics that the caller may not see are left out.

        Errors   StorageError, DiskSlow
        Cost     a read of the log for each queue with an offset
        """
        is_order = flag_field(request, "isOrder")
        texts, total = [], 0
        for group in self._store.tables.groups.names():
            if not call.may(group_need(group, LOOK)):
                continue
            found, behind = await self._of_group(group, call, is_order=is_order)
            texts.append("{" + f"{text_of(group)}:[{','.join(found)}]" + "}")
            total += behind
        rules = self._rules
        address = rules.advertised or call.channel.local or rules.own
        members = (
            f'"brokerAddr":{text_of(address)}', f'"consumeStatsList":[{",".join(texts)}]',
            f'"totalDiff":{total}', '"totalInflightDiff":0',
        )  # fmt: skip
        return Command(0, body=("{" + ",".join(members) + "}").encode())

    async def _of_group(
        self, group: str, call: ClassicCall, *, is_order: bool
    ) -> tuple[list[str], int]:
        """Returns JSON texts of a group's offsets, one for each topic, and its total lag."""
        texts, behind = [], 0
        for topic in sorted(self._store.tables.offsets.all_of(group)):
            config = self._store.tables.topics.find(topic)
            if config is None or not call.may(topic_need(topic, SEE)):
                continue
            if is_order and not config.order:
                continue
            rows = await offset_rows(self._store, self._rules.broker, group, config)
            behind += sum(row["brokerOffset"] - row["consumerOffset"] for _, row in rows)
            tps = self._rates.delivered_tps(topic, group)
            texts.append(keyed_text("offsetTable", rows, consumeTps=tps))
        return texts, behind

    def subscription(self, request: Command, call: ClassicCall) -> Command:
        """Returns a group's subscription to a topic; null if no connected consumer has one.

        Errors   MalformedRequest
        """
        name, topic = text_field(request, "group"), text_field(request, "topic")
        group = self._groups.group(name)
        found = None if group is None else group.subscriptions.get(topic)
        row = None if found is None else subscription_row(found)
        return json_answer({"group": name, "subscriptionData": row, "topic": topic})
