"""A dead letter as the message it was when its producer sent it."""

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.format.java_hash import java_hash
from pocketmq.format.record import decode_record
from pocketmq.format.rewrite import put_again
from pocketmq.model.batch import Run
from pocketmq.model.errors import OriginUnknown
from pocketmq.model.message import SHARDING_KEY
from pocketmq.model.system_topics import sent_first


class Revealed(NamedTuple):
    """A dead letter, and the run that sends it again."""

    message_id: str
    dead_queue_offset: int
    run: Run


def reveal(
    record: bytes,
    group: str,
    *,
    topic: str,
    store_host: bytes,
    queue_count_of: Callable[[str], int],
) -> Revealed:
    """Returns a dead letter of a group as a message to put, never retried.

    topic            where to; "" for where it came from
    queue_count_of   how many queues a topic takes messages in
    Queue            that of its message group, where it has one; else they take turns
    Errors           OriginUnknown, those of `queue_count_of`, BadRecord
    """
    message = decode_record(record, decompress=False)
    origin = sent_first(group, message.properties)
    if origin is None:
        raise OriginUnknown(group=group, queue_offset=message.queue_offset)
    came_from, disguise = origin
    target = topic or came_from
    count = queue_count_of(target)
    assert count > 0, "a topic that takes messages has a queue"
    message_group = message.properties.get(SHARDING_KEY, "")
    number = java_hash(message_group) & 0x7FFFFFFF if message_group else message.queue_offset
    run = put_again(
        record,
        topic=target,
        queue_id=number % count,
        store_host=store_host,
        changed=disguise.changed,
        dropped=disguise.dropped,
        reconsume_times=0,
    )
    return Revealed(message.unique_key, message.queue_offset, run)
