"""Operators' requests about topics.

     21  GET_ALL_TOPIC_CONFIG      300  QUERY_TOPIC_CONSUME_BY_WHO
    202  GET_TOPIC_STATS_INFO      304  GET_SYSTEM_TOPIC_LIST_FROM_NS
    224  GET_TOPICS_BY_CLUSTER     305  GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    351  GET_TOPIC_CONFIG          311  GET_UNIT_TOPIC_LIST, 312 and 313: there are no units

Source: AdminBrokerProcessor, DefaultRequestProcessor of the name server.
"""

from typing import Any

from pocketmq.model.message import INT32_MAX
from pocketmq.model.topic import TopicConfig, is_system_topic
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.object_keys import VERSION, keyed_answer, queue_key
from pocketmq.rpc.classic.retry_topics import existing_topic, topic_queues
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.permissions import SEE, group_need
from pocketmq.rpc.services import Services
from pocketmq.services.admin.rates import Rates
from pocketmq.wire.remoting import Command


class AdminTopics:
    """The requests about topics."""

    __slots__ = ("_backing", "_rates", "_rules")

    def __init__(self, backing: Services, rules: ClassicRules, rates: Rates) -> None:
        self._backing = backing
        self._rules = rules
        self._rates = rates

    def all_configs(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings of up to `maxTopicNum` topics, by name, from index `topicSeq` on.

        Errors   MalformedRequest, IllegalNumber
        """
        topics = self._backing.store.tables.topics
        names = [*topics.names()]
        begin = number_field(request, "topicSeq", absent=0)
        count = number_field(request, "maxTopicNum", absent=INT32_MAX)
        table = {name: config_row(topics.existing(name)) for name in names[begin : begin + count]}
        answer = json_answer(
            {
                "dataVersion": topics.version,
                "mappingDataVersion": VERSION,
                "topicConfigTable": table,
            }
        )
        return answer._replace(fields={"totalTopicNum": str(len(names))})

    def config(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings of a topic.

        Errors   MalformedRequest, IllegalTopic, TopicNotFound
        """
        tables = self._backing.store.tables
        return json_answer(config_row(existing_topic(tables, text_field(request, "topic"))))

    async def stats(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offsets of each queue of a topic, and the store time of its last message.

        Errors   MalformedRequest, IllegalTopic, TopicNotFound, StorageError, DiskSlow
        Cost     two reads of the log a queue
        """
        topic = text_field(request, "topic")
        queues = await topic_queues(self._backing.store, topic)
        rows = [
            (
                queue_key(self._rules.broker, topic, queue.queue_id),
                {
                    "lastUpdateTimestamp": queue.max_store_timestamp_ms,
                    "maxOffset": queue.max_offset,
                    "minOffset": queue.min_offset,
                },
            )
            for queue in queues
        ]
        return keyed_answer("offsetTable", rows, topicPutTps=self._rates.stored_tps(topic))

    def consumers(self, request: Command, call: ClassicCall) -> Command:
        """Returns the groups that subscribe to a topic or have offsets in it.

        Groups that the caller may not see are left out.

        Errors   MalformedRequest
        """
        topic = text_field(request, "topic")
        classic = self._backing.sessions.classic.groups
        found = {
            group
            for group in classic.consumer_groups
            if (known := classic.group(group)) is not None and topic in known.subscriptions
        }
        consumed = self._backing.store.tables.offsets.topics_by_group()
        found |= {group for group, topics in consumed.items() if topic in topics}
        seen = sorted(group for group in found if call.may(group_need(group, SEE)))
        return json_answer({"groupList": seen})

    def of_cluster(self, request: Command, call: ClassicCall) -> Command:
        """Returns the names of all topics, or none if the request names another cluster."""
        is_ours = request.fields.get("cluster", self._rules.cluster) == self._rules.cluster
        names = [*self._backing.store.tables.topics.names()] if is_ours else []
        return json_answer({"topicList": names})

    def system_of_cluster(self, request: Command, call: ClassicCall) -> Command:
        """Returns the names that a name server reserves: the cluster's and the broker's."""
        rules = self._rules
        address = rules.advertised or call.channel.local or rules.own
        return json_answer({"brokerAddr": address, "topicList": [rules.broker, rules.cluster]})

    def system(self, request: Command, call: ClassicCall) -> Command:
        """Returns the names of system topics."""
        names = self._backing.store.tables.topics.names()
        return json_answer({"topicList": [name for name in names if is_system_topic(name)]})

    def units(self, request: Command, call: ClassicCall) -> Command:
        """Returns an empty list: a topic belongs to no unit."""
        return json_answer({"topicList": []})


def config_row(config: TopicConfig) -> dict[str, Any]:
    """Returns a topic's settings as RocketMQ writes them (TopicConfig)."""
    return {
        "attributes": config.attributes,
        "order": config.order,
        "perm": config.permission,
        "readQueueNums": config.read_queue_count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": config.name,
        "topicSysFlag": 0,
        "writeQueueNums": config.write_queue_count,
    }
