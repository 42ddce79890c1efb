"""Restores a dead letter to the message that its producer sent."""

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
    """Returns a group's dead letter as a message to put again; its reconsume times are 0.

    topic            target; "": the original topic
    queue_count_of   returns the number of a topic's writable queues
    Queue            chosen by the hash of the message group; without a group, by the queue offset
    Errors           OriginUnknown, those of `queue_count_of`, BadRecord
    """
    message = decode_record(record, decompress=False)
    origin = sent_first(group, message.properties)
    if origin is None:
        raise OriginUnknown(group=group, queue_offset=message.queue_offset)
    came_from, disguise = origin
    target = topic or came_from
    count = queue_count_of(target)
    assert count > 0, "topic has no writable queue"
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
