"""Decides which messages a receive gets; other messages are skipped for the whole group."""

from collections.abc import Callable

from pocketmq.format.receipt_handle import GROUP_RETRY
from pocketmq.format.rewrite import facts_of
from pocketmq.model.consuming import ReceiveRequest
from pocketmq.model.message import RETRY_TOPIC
from pocketmq.model.system_topics import is_of_group
from pocketmq.model.topic import retry_topic
from pocketmq.services.consume.leases import GroupQueue


def judged_by_code(request: ReceiveRequest, queue: GroupQueue) -> Callable[[int], bool] | None:
    """Returns the filter by tags code for a queue, None if no such filter applies."""
    wanted = request.wanted
    is_judged = not wanted.is_everything and queue.retry != GROUP_RETRY
    return wanted.matches_code if is_judged else None


def is_wanted(request: ReceiveRequest, queue: GroupQueue, record: bytes) -> bool:
    """Returns whether a receive gets a message; if not, the message is skipped for the group.

    All topics of a group share the retry topic %RETRY%group. There, the filter applies only to
    messages of the received topic, as skipped messages of other topics would be lost. Messages of
    other groups are skipped: these groups receive them.
    """
    if queue.is_shared:
        _, properties, _ = facts_of(record)
        is_sent_back = queue.topic == retry_topic(queue.group)
        if not is_of_group(queue.group, properties, is_sent_back=is_sent_back):
            return False
    if request.wanted.matches(record):
        return True
    if queue.retry != GROUP_RETRY:
        return False
    _, properties, _ = facts_of(record)
    return properties.get(RETRY_TOPIC, request.topic) != request.topic
