"""Recall handles: what a message that waits for its time is called back by.

    v1 orders broker-a 1795221285201 0102FC000000014F600B1281BC00000000      base64, URL-safe
       topic  broker   time in ms    unique key

The time is 1 ms behind the slot that the message waits in, so that a marker for this time falls
into the same slot. Bytes behind the unique key are for later versions.
Source: RecallMessageHandle.HandleV1, SendMessageProcessor.attachRecallHandle.
"""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final, NamedTuple

from pocketmq.model.message import OFFSET_MAX

VERSION: Final = "v1"
SIZE_MAX: Final = 4_096
_PARTS_MIN: Final = 5


class RecallHandle(NamedTuple):
    """The parts of a handle; none of the texts holds a space."""

    topic: str
    broker: str
    at_ms: int
    unique_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """Returns a handle as clients have it."""
    assert not any(" " in part for part in (handle.topic, handle.broker, handle.unique_key))
    parts = (VERSION, handle.topic, handle.broker, str(handle.at_ms), handle.unique_key)
    return urlsafe_b64encode(" ".join(parts).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Returns the parts of a handle.

    Errors   ValueError: it is none
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
        raise ValueError("its parts are none of a handle")
    topic, broker, time_text, unique_key = parts[1:_PARTS_MIN]
    is_time = time_text.isascii() and time_text.isdigit() and len(time_text) < len(str(OFFSET_MAX))
    if not is_time or not unique_key:
        raise ValueError("it names no time or no message")
    return RecallHandle(topic, broker, int(time_text), unique_key)
