"""Data that all records and replies of one topic share, encoded once."""

from typing import Final, final

from pocketmq.format.addresses import IPV6_HOST_SIZE, offset_message_id
from pocketmq.format.java_hash import WRAP, java_hash
from pocketmq.format.record import TOPIC_LENGTH_MAX_V1, topic_field
from pocketmq.format.send_request import TEXT_SIZE_MAX
from pocketmq.model.batch import Destination
from pocketmq.model.message import FLAG_STORE_HOST_V6, QueueKey
from pocketmq.native.machine import i64, vec

PLACE_DIGITS: Final = 16
"""Hexadecimal digits of the physical offset at the end of an offset message id."""


@final
class TopicFrame:
    """Data shared by all records and replies of one topic.

    destinations, queues   for each queue, its destination and its key in tables
    before_id              bytes before the id in a half message's property block, else empty
    before_queue           bytes between that id and the target queue
    digits_max             upper limit of digits of the target queue's number
    flags                  system flag of each record, except the bit for the sender's address
    """

    __slots__ = (
        "before_id", "before_queue", "destinations", "digits_max", "field", "flags", "is_tagged",
        "key_prefix", "powers", "queues", "reply_head", "reply_host", "store_flags", "store_host",
        "tag_prefix", "tail", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        queue_count: int,
        *,
        store_host: bytes,
        tail: bytes,
        is_tagged: bool,
        real: QueueKey | None = None,
        group: str = "",
        system_flag: int = 0,
    ) -> None:
        """Encodes the shared fields.

        real          for half messages: target topic and its number of queues
        group         producer group of half messages
        system_flag   system flag of the messages, as views receive it
        """
        assert topic.isascii()
        assert len(topic) <= TOPIC_LENGTH_MAX_V1
        assert (real is not None) == bool(group)
        asked = topic if real is None else real[0]
        self.reply_head = b"\x0a" + _sized(asked.encode()) + b"\x12"
        self.before_id = self.before_queue = b""
        self.digits_max: i64 = 0
        if real is not None:
            said = f"PGROUP\x01{group}\x02TRAN_MSG\x01true\x02__transactionId__\x01"
            self.before_id = said.encode()
            self.before_queue = f"\x02REAL_TOPIC\x01{asked}\x02REAL_QID\x01".encode()
            self.digits_max = len(str(real[1] - 1))
            tail = b"\x02" + tail
        self.topic = topic
        self.destinations = [
            Destination(topic, n, store_host, system_flag) for n in range(queue_count)
        ]
        self.queues: list[QueueKey] = [(topic, n) for n in range(queue_count)]
        self.store_host = store_host
        self.store_flags: i64 = FLAG_STORE_HOST_V6 if len(store_host) == IPV6_HOST_SIZE else 0
        self.flags: i64 = self.store_flags | system_flag
        self.field = topic_field(topic) + bytes(2)
        self.tail = tail
        self.is_tagged = is_tagged
        self.key_prefix: i64 = java_hash(f"{topic}#") & WRAP
        self.tag_prefix: i64 = java_hash(f"{topic}#T#") & WRAP
        self.powers = vec[i64]([pow(31, size, 1 << 32) for size in range(TEXT_SIZE_MAX + 1)])
        offset_id = offset_message_id(store_host, 0).encode()
        self.reply_host = b"\x1a" + bytes((len(offset_id),)) + offset_id[:-PLACE_DIGITS]


def _sized(text: bytes) -> bytes:
    assert len(text) < 0x80
    return bytes((len(text),)) + text
