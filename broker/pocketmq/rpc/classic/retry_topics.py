"""Topics as classic clients and operators see them: each group has its retry topic."""

from pocketmq.model.administration import QueueState
from pocketmq.model.topic import PERMISSION_READ, PERMISSION_WRITE, RETRY_PREFIX, TopicConfig
from pocketmq.services.admin.topics import all_queue_states
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.tables import Tables


def topic_or_retry(tables: Tables, topic: str) -> TopicConfig | None:
    """Returns an existing topic, or the retry topic of an existing group; None: neither exists.

    mqadmin and exporter ask for retry topics that they derive from the groups, before a retried
    message or a classic consumer creates the topic.
    """
    found = tables.topics.find(topic)
    if found is not None or not topic.startswith(RETRY_PREFIX):
        return found
    group = tables.groups.find(topic.removeprefix(RETRY_PREFIX))
    if group is None:
        return None
    count = max(group.settings.retry_queue_count or 0, 1)
    return TopicConfig(topic, count, count, PERMISSION_READ | PERMISSION_WRITE)


def existing_topic(tables: Tables, topic: str) -> TopicConfig:
    """Returns what `topic_or_retry` finds.

    Errors   IllegalTopic, TopicNotFound
    """
    return topic_or_retry(tables, topic) or tables.topics.existing(topic)


async def topic_queues(store: MessageStore, topic: str) -> list[QueueState]:
    """Returns the state of each queue of a topic; queues beyond its count, still on disk, are last.

    Errors   IllegalTopic, TopicNotFound, StorageError, DiskSlow
    Cost     two reads of the log a queue
    """
    return await all_queue_states(store, existing_topic(store.tables, topic))
