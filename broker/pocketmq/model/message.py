"""A stored message, and the names and bits of its format.

A physical offset counts bytes from the start of the whole commit log; a queue offset counts
messages of one queue; a file position counts bytes in one file.
"""

from dataclasses import dataclass
from typing import Final

from pocketmq.model.decimal import SUMMABLE_MAX, number_of

QueueKey = tuple[str, int]

INT32_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1
"""Largest value of an i64 field on disk or on the wire."""

# Property names (MessageConst).
KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
UNIQUE_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
CLUSTER: Final = "CLUSTER"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
SHARDING_KEY: Final = "__SHARDINGKEY"
DELIVER_AT: Final = "TIMER_DELIVER_MS"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SECONDS: Final = "TIMER_DELAY_SEC"
TIMER_OUT: Final = "TIMER_OUT_MS"
TIMER_ENQUEUED: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUED: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLLS: Final = "TIMER_ROLL_TIMES"
TIMER_OUT_NOW: Final = "PMQ_TIMER_OUT_MS"
"""PocketMQ's property: TIMER_OUT converted to the present wall clock. A message has it only if the
wall clock was changed before the timer last stored the message in its topic.
"""
TIMER_DELETE: Final = "TIMER_DEL_UNIQKEY"
RECALL_TAG: Final = "_RECALL_TAG_"
"""Tag of the delete marker that a recall puts."""
RECALL_SEPARATOR: Final = "\x01"
"""Separator of topic and key in the id of a recalled message."""
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
IS_TRANSACTIONAL: Final = "TRAN_MSG"
TRANSACTION_ID: Final = "__transactionId__"
PRODUCER_GROUP: Final = "PGROUP"
REAL_TOPIC: Final = "REAL_TOPIC"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
FIRST_HALF_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
REAL_QUEUE: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
POP_CHECKPOINT: Final = "POP_CK"
PROPERTY_CRC: Final = "__CRC32#"
BORN_HOST: Final = "__BORNHOST"
RECONSUME_TIME: Final = "RECONSUME_TIME"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
BODY_CODEC: Final = "PMQ_BODY_CODEC"
"""PocketMQ's property: informs version 5 clients that a body is too large to be decompressed."""

KEY_SEPARATOR: Final = " "

RESERVED_PROPERTIES: Final = frozenset(
    """KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION
    TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME DUP_INFO POP_CK
    POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET INSTANCE_ID CORRELATION_ID
    REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_NUM INNER_BASE
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID __CRC32# __SHARDINGKEY __transactionId__ TRANSACTION_CHECK_TIMES
    CHECK_IMMUNITY_TIME_IN_SECONDS ORIGIN_GROUP _SYS_MSG_PRIORITY_""".split()
)
"""Property names that clients may not set, as they have a meaning for brokers."""

# System flag bits (MessageSysFlag).
FLAG_COMPRESSED: Final = 0x1
FLAG_TRANSACTION_MASK: Final = 0xC
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
FLAG_BORN_HOST_V6: Final = 0x10
FLAG_STORE_HOST_V6: Final = 0x20


def has_queue_offset(system_flag: int) -> bool:
    """Returns whether records with this system flag have a queue offset and a consume unit."""
    return system_flag & FLAG_TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)


def first_unread(committed: int, lower: int, upper: int) -> int:
    """Returns the first offset in [lower, upper) that a group has not consumed; `upper` if none.

    Messages that expired before they were read count as consumed.
    """
    return min(max(committed, lower), upper)


@dataclass(slots=True, kw_only=True)
class StoredMessage:
    """A decoded record of the commit log; equal if all fields are.

    body         decompressed, unless it is too large or the reader did not request decompression
    body_codec   compression of a body that is too large to be decompressed; "": any other body
    body_crc     CRC of the stored bytes
    born_host, store_host
                 packed address and port (see `format/addresses.py`)
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    body: bytes
    body_crc: int
    properties: dict[str, str]
    system_flag: int
    flag: int
    reconsume_times: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    prepared_transaction_offset: int
    body_codec: str = ""

    def __hash__(self) -> int:
        return hash(self.physical_offset)

    @property
    def unique_key(self) -> str:
        """The id that the producer or the broker assigned; "" if there is none."""
        return self.properties.get(UNIQUE_KEY, "")

    @property
    def keys(self) -> list[str]:
        """Keys for queries, split at single spaces; empty pieces are dropped."""
        return [key for key in self.properties.get(KEYS, "").split(KEY_SEPARATOR) if key]

    def number(self, name: str, largest: int = SUMMABLE_MAX) -> int:
        """Returns a property's number; -1 if it is not a number from 0 to `largest`."""
        return number_of(self.properties.get(name, ""), largest)

    @property
    def tag(self) -> str | None:
        """The tag; None if there is none."""
        return self.properties.get(TAGS)
