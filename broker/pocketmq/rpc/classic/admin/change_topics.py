"""Changes of topics by classic programs.

    17   UPDATE_AND_CREATE_TOPIC         215  DELETE_TOPIC_IN_BROKER
    18   UPDATE_AND_CREATE_TOPIC_LIST    216  DELETE_TOPIC_IN_NAMESRV

Source: AdminBrokerProcessor, TopicConfigManager, AttributeParser.
"""

from pocketmq.model.administration import TopicChange
from pocketmq.model.names import check_topic
from pocketmq.model.topic import is_system_topic
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.topic_request import (
    change_of,
    changes_of,
    check_name,
    check_new,
    check_numbers,
)
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.permissions import CREATE, UPDATE, topic_need
from pocketmq.rpc.topic_access import check_may
from pocketmq.services.admin.topics import create_topic, delete_topic, update_topic
from pocketmq.store.message_store import MessageStore
from pocketmq.wire.remoting import Command


class ChangeTopics:
    """The requests that create, change and delete topics."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def update(self, request: Command, call: ClassicCall) -> Command:
        """Creates a topic, or changes the settings of an existing one.

        Errors   MalformedRequest, AccessDenied, those of `create_topic` and `update_topic`
        """
        await self._put(*change_of(request), call)
        return OK

    async def update_all(self, request: Command, call: ClassicCall) -> Command:
        """Creates or changes the topics of a list in order, until one is refused.

        An illegal name anywhere in the list refuses the request before any change.

        Errors   those of `update`
        """
        changes = changes_of(request)
        for topic, _ in changes:
            check_name(topic)
        for topic, change in changes:
            await self._put(topic, change, call)
        return OK

    async def _put(self, topic: str, change: TopicChange, call: ClassicCall) -> None:
        check_name(topic)
        check_numbers(change)
        is_new = self._store.tables.topics.find(topic) is None
        check_may(call, topic_need(topic, CREATE if is_new else UPDATE))
        if is_new:
            check_new(change)
            await create_topic(
                self._store,
                topic,
                queue_count=change.write_queue_count or 0,
                attributes=change.set_attributes or {},
                permission=change.permission or 0,
            )
            # `create_topic` wrote all settings at once; a crash could lose a second write.
            if change.read_queue_count == change.write_queue_count and not change.order:
                return
        await update_topic(self._store, topic, change)

    async def delete(self, request: Command, call: ClassicCall) -> Command:
        """Deletes a topic and its retry topics; succeeds for a missing topic.

        Errors   MalformedRequest, those of `delete_topic`
        """
        topic = text_field(request, "topic")
        check_topic(topic)
        if is_system_topic(topic) or self._store.tables.topics.find(topic) is not None:
            await delete_topic(self._store, topic)
        return OK

    def forget(self, request: Command, call: ClassicCall) -> Command:
        """Does nothing: the broker is its own name server, so a deleted topic has no route."""
        return OK
