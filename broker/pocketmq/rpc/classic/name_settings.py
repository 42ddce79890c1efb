"""Requests for settings of the name server (KV config), such as the queues of ordered topics.

    100  PUT_KV_CONFIG    102  DELETE_KV_CONFIG
    101  GET_KV_CONFIG    219  GET_KVLIST_BY_NAMESPACE

The namespace ORDER_TOPIC_CONFIG contains the queues of each ordered topic as "broker:count". The
topic's route repeats this text. For a topic with `order` but no entry, the route names all queues.
Source: DefaultRequestProcessor of the name server, KVConfigManager.
"""

import re
from typing import Final

from pocketmq.model.topic import TopicConfig
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.json_body import TEXT_SIZE_MAX, json_answer
from pocketmq.rpc.classic.status import OK, QUERY_NOT_FOUND
from pocketmq.rpc.service import MalformedRequest
from pocketmq.store.tables.tables import Tables
from pocketmq.wire.remoting import Command

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
NAME_LENGTH_MAX: Final = 255
"""Upper limit of characters of a namespace and of a key."""
_ORDER: Final = re.compile(r"[^:;]+:[1-9]\d{0,4}(;[^:;]+:[1-9]\d{0,4})*", re.ASCII)


class ClassicNameSettings:
    """The requests for settings of the name server."""

    __slots__ = ("_broker", "_tables")

    def __init__(self, tables: Tables, broker: str) -> None:
        self._tables = tables
        self._broker = broker

    def order_of(self, config: TopicConfig) -> str | None:
        """Returns the order setting of a topic, None for a topic that is not ordered."""
        found = self._tables.name_settings.find(ORDER_NAMESPACE, config.name)
        if found is None and config.order:
            return f"{self._broker}:{config.write_queue_count}"
        return found

    def get(self, request: Command, call: ClassicCall) -> Command:
        """Returns a setting.

        Errors   MalformedRequest
        """
        namespace, key = text_field(request, "namespace"), text_field(request, "key")
        config = self._tables.topics.find(key) if namespace == ORDER_NAMESPACE else None
        found = self._tables.name_settings.find(namespace, key)
        if config is not None:
            found = self.order_of(config)
        if found is None:
            remark = f"No config item, Namespace: {namespace} Key: {key}"
            return Command(QUERY_NOT_FOUND, remark=remark)
        return Command(0, {"value": found})

    def all_of(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings of a namespace.

        Errors   MalformedRequest
        """
        namespace = text_field(request, "namespace")
        table = self._tables.name_settings.all_of(namespace)
        if namespace == ORDER_NAMESPACE:
            topics = self._tables.topics
            ordered = {name: self.order_of(topics.existing(name)) for name in topics.names()}
            table |= {name: order for name, order in ordered.items() if order is not None}
        if not table:
            remark = f"No config item, Namespace: {namespace}"
            return Command(QUERY_NOT_FOUND, remark=remark)
        return json_answer({"table": table})

    async def put(self, request: Command, call: ClassicCall) -> Command:
        """Sets a setting; durable before the answer.

        Errors   MalformedRequest, CapacityReached, DiskFull
        """
        namespace, key = _name(request, "namespace"), _name(request, "key")
        value = text_field(request, "value")
        if len(value) > TEXT_SIZE_MAX:
            raise MalformedRequest(why=f"its value has more than {TEXT_SIZE_MAX} characters")
        if namespace == ORDER_NAMESPACE and not _ORDER.fullmatch(value):
            # Any other text makes all clients of the topic fail.
            raise MalformedRequest(why="write the queues of an ordered topic as broker:queues")
        await self._tables.name_settings.put(namespace, key, value)
        return OK

    async def delete(self, request: Command, call: ClassicCall) -> Command:
        """Removes a setting, if it exists; durable before the answer.

        Errors   MalformedRequest, DiskFull
        """
        namespace, key = text_field(request, "namespace"), text_field(request, "key")
        await self._tables.name_settings.remove(namespace, key)
        return OK


def _name(request: Command, field: str) -> str:
    found = text_field(request, field)
    if not 0 < len(found) <= NAME_LENGTH_MAX or not found.isprintable():
        why = f"its {field} is not 1 to {NAME_LENGTH_MAX} printable characters"
        raise MalformedRequest(why=why)
    return found
