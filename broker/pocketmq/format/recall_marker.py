"""The record that cancels a delayed message, in the same slot of the timer.

Source: RecallMessageProcessor.buildMessage, HookUtils.transformTimerMessage.
"""

from typing import Final

from pocketmq.format.property_codec import encode_properties
from pocketmq.format.recall_handle import RecallHandle
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.message import (
    BORN_TIMESTAMP,
    DELIVER_AT,
    PRODUCER_GROUP,
    RECALL_TAG,
    TAGS,
    TIMER_DELETE,
    UNIQUE_KEY,
)
from pocketmq.model.system_topics import QueuePlace, timed

BODY: Final = b"0"


def recall_marker(handle: RecallHandle, now_ms: int, born_host: bytes, store_host: bytes) -> Run:
    """Returns what is put to recall a message; the hosts are packed."""
    waits = timed(QueuePlace(handle.topic, 0), handle.at_ms)
    properties = {
        # A real broker compares this with the unique key alone, unless appendTopicForTimerDeleteKey
        # is set, which puts the topic before it.
        TIMER_DELETE: handle.unique_key,
        UNIQUE_KEY: handle.unique_key,
        DELIVER_AT: str(handle.at_ms),
        BORN_TIMESTAMP: str(now_ms),
        PRODUCER_GROUP: handle.topic,
        TAGS: RECALL_TAG,
    }
    batch = Batch(
        bodies=[BODY],
        property_blocks=[encode_properties(waits.applied(properties))],
        unique_keys=[handle.unique_key],
        keys=[""],
        tags=[RECALL_TAG],
        born_ms=[now_ms],
        born_hosts=[born_host],
        flags=[0],
        reconsume_times=[0],
    )
    return Destination(*waits.place, store_host), batch
