"""Recall handles, with which clients recall delayed messages.

    v1 orders broker-a 1795221285201 0102FC000000014F600B1281BC00000000      base64, URL-safe
       topic  broker   time in ms    unique key

The time is 1 ms after the message's slot, so that a delete marker for this time gets the same
slot. Parts after the unique key are ignored: later versions may add some.
Source: RecallMessageHandle.HandleV1, SendMessageProcessor.attachRecallHandle.
"""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final, NamedTuple

from pocketmq.format.properties import encode_properties
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.decimal import SUMMABLE_MAX, number_of
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

VERSION: Final = "v1"
SIZE_MAX: Final = 4_096
_PARTS_MIN: Final = 5
MARKER_BODY: Final = b"0"


class RecallHandle(NamedTuple):
    """The parts of a handle; no text contains a space."""

    topic: str
    broker: str
    at_ms: int
    unique_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """Returns a handle as clients get it."""
    assert not any(" " in part for part in (handle.topic, handle.broker, handle.unique_key))
    parts = (VERSION, handle.topic, handle.broker, str(handle.at_ms), handle.unique_key)
    return urlsafe_b64encode(" ".join(parts).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Parses a handle.

    Errors   ValueError: the handle is invalid
    """
    if len(text) > SIZE_MAX:
        raise ValueError(f"it has {len(text)} characters")
    padding = "=" * (-len(text) % 4)
    try:
        raw = b64decode(text + padding, altchars=b"-_", validate=True)
        parts = raw.decode().split(" ")
    except (Error, UnicodeError) as error:
        raise ValueError("it is not base64 of a text") from error
    if parts[0] != VERSION or len(parts) < _PARTS_MIN:
        raise ValueError("its parts are not those of a handle")
    topic, broker, time_text, unique_key = parts[1:_PARTS_MIN]
    time_ms = number_of(time_text, SUMMABLE_MAX)
    if time_ms < 0 or not unique_key:
        raise ValueError("its time or its message is missing")
    return RecallHandle(topic, broker, time_ms, unique_key)


def recall_marker(handle: RecallHandle, now_ms: int, born_host: bytes, store_host: bytes) -> Run:
    """Returns the delete marker that cancels a delayed message.

    The marker waits in the timer slot of the message. Hosts are packed addresses and ports.

    Source   RecallMessageProcessor.buildMessage, HookUtils.transformTimerMessage
    """
    waits = timed(QueuePlace(handle.topic, 0), handle.at_ms)
    properties = {
        # RocketMQ compares this with the unique key alone, or with topic and unique key if
        # appendTopicForTimerDeleteKey is set.
        TIMER_DELETE: handle.unique_key,
        UNIQUE_KEY: handle.unique_key,
        DELIVER_AT: str(handle.at_ms),
        BORN_TIMESTAMP: str(now_ms),
        PRODUCER_GROUP: handle.topic,
        TAGS: RECALL_TAG,
    }
    batch = Batch(
        bodies=[MARKER_BODY],
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
