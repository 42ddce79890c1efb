"""Half messages: their parsed fields, and the records that replace a half message.

    committed   in its real queue, without the properties that name the queue; the record's system
                flag marks a commit, and the record contains the prepared transaction offset. With a
                delay, which classic producers may request, it is parked like other delayed messages
    checked     put again at the end of the half topic when its producer is asked
    given up    in TRANS_CHECK_MAX_TIME_TOPIC: its producer never decided

Bodies, born times and hosts, and message flags stay as they are stored.
Source: EndTransactionProcessor.endMessageTransaction, HookUtils.handleScheduleMessage,
AbstractTransactionalMessageCheckListener, TransactionalMessageServiceImpl.putBackHalfMsgQueue.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from pocketmq.format.properties import NAME_END, PAIR_END, PROPERTIES_SIZE_MAX, property_pairs
from pocketmq.format.record import HOSTS_V6_MASK, decode_record, split_record
from pocketmq.format.rewrite import put_again
from pocketmq.format.transaction_id import HalfPlace
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.decimal import SUMMABLE_MAX, number_of_bytes
from pocketmq.model.errors import PropertiesTooLarge
from pocketmq.model.message import (
    CHECK_IMMUNITY_SECONDS,
    DELAY,
    DELIVER_AT,
    FIRST_HALF_OFFSET,
    FLAG_TRANSACTION_MASK,
    INT32_MAX,
    IS_TRANSACTIONAL,
    KEYS,
    OFFSET_MAX,
    PRODUCER_GROUP,
    PROPERTY_CRC,
    REAL_QUEUE,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_COMMIT,
    TRANSACTION_ID,
    UNIQUE_KEY,
    StoredMessage,
)
from pocketmq.model.system_topics import ParkedMessage, QueuePlace, delayed, real_place, timed
from pocketmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC

_NOT_DELIVERED: Final = frozenset(
    name.encode() for name in (REAL_TOPIC, REAL_QUEUE, FIRST_HALF_OFFSET, PROPERTY_CRC)
)
_OWN_NAMES: Final = frozenset(
    {
        REAL_TOPIC, REAL_QUEUE, FIRST_HALF_OFFSET, TRANSACTION_CHECK_TIMES, TRANSACTION_ID,
        CHECK_IMMUNITY_SECONDS, IS_TRANSACTIONAL, PRODUCER_GROUP,
    }
)  # fmt: skip
"""Properties that only messages of a transaction have."""
_QUEUE_ID: Final = slice(12, 16)
_TOPIC_SIZE_MAX: Final = 255
"""Longest topic in a record of version 1."""
DELAYING: Final = frozenset({DELAY, DELIVER_AT, TIMER_DELAY_MS, TIMER_DELAY_SECONDS})
"""Properties that delay a committed message."""
_AHEAD_MAX_MS: Final = 366 * 24 * 3_600_000
"""Longest delay of a committed message: a transaction must not fail at its commit."""
_SECONDS_MAX: Final = SUMMABLE_MAX // 1_000


class Half(NamedTuple):
    """A parsed half message.

    real          target queue; None if the half message names none
    group         producer group
    checks        number of checks that were sent to its producers
    immunity_ms   delay before the first check, as the producer requested it; None: the default
    first_offset  queue offset at which it was first stored, before checks put it again
    """

    record: bytes
    place: HalfPlace
    real: QueuePlace | None
    group: str
    checks: int
    immunity_ms: int | None
    first_offset: int
    born_ms: int
    store_ms: int
    pairs: dict[bytes, bytes]

    def text(self, name: str) -> str:
        """Returns a property as text; "" if it is absent."""
        return self.pairs.get(name.encode(), b"").decode("utf-8", "replace")


def read_half(record: bytes) -> Half:
    """Parses a record of the half topic.

    Errors   BadRecord
    Cost     about 6 µs
    """
    head, _, _, _, block_begin, block_end = split_record(record, 0)
    pairs = dict(property_pairs(record[block_begin:block_end]))
    unique_key = pairs.get(b"UNIQ_KEY", b"").decode("utf-8", "replace")
    immunity = _number(pairs, CHECK_IMMUNITY_SECONDS, _SECONDS_MAX)
    first = _number(pairs, FIRST_HALF_OFFSET, OFFSET_MAX)
    real = {
        REAL_TOPIC: pairs.get(b"REAL_TOPIC", b"").decode("utf-8", "replace"),
        REAL_QUEUE: pairs.get(b"REAL_QID", b"").decode("utf-8", "replace"),
    }
    return Half(
        record,
        HalfPlace(head[5], head[6], unique_key),
        real_place(real),
        pairs.get(b"PGROUP", b"").decode("utf-8", "replace"),
        max(_number(pairs, TRANSACTION_CHECK_TIMES, INT32_MAX), 0),
        None if immunity < 0 else immunity * 1_000,
        head[5] if first < 0 else first,
        head[8],
        head[10],
        pairs,
    )


def _number(pairs: dict[bytes, bytes], name: str, largest: int) -> int:
    return number_of_bytes(pairs.get(name.encode(), b""), largest)


def shown_half(record: bytes) -> StoredMessage:
    """Returns a half message as its producer gets it, with its current offsets.

    Shape    the body is as it is stored, perhaps compressed
    Errors   BadRecord
    """
    message = decode_record(record, decompress=False)
    place = real_place(message.properties)
    message.properties = {
        name: text for name, text in message.properties.items() if name not in _OWN_NAMES
    }
    if place is not None:
        message.topic, message.queue_id = place
    return message


def shown_record(record: bytes) -> bytes:
    """Returns the record of a half message with its target topic and queue.

    Errors   BadRecord
    """
    shown = shown_half(record)
    topic = shown.topic.encode()
    _, _, begin, end, _, _ = split_record(record, 0)
    if record[begin - 1] != end - begin or len(topic) > _TOPIC_SIZE_MAX:
        return record  # A record of version 2 is left as it is.
    made = bytearray(record[: begin - 1]) + bytes((len(topic),)) + topic + record[end:]
    made[:4] = len(made).to_bytes(4)
    made[_QUEUE_ID] = shown.queue_id.to_bytes(4)
    return bytes(made)


def committed(half: Half, queue_count: int = 0, now_ms: int = 0, level_count: int = 1) -> Run:
    """Returns the record of a committed half message, for its real topic or to wait for its delay.

    queue_count   current number of queues of its topic; 0: unknown. If the target queue no longer
                  exists, the message is put into queue number queue_id % queue_count
    now_ms        wall time, from which on a delay is counted
    level_count   number of delay levels
    """
    assert half.real is not None
    record = half.record
    topic, queue_id = half.real
    if queue_count and queue_id >= queue_count:
        queue_id %= queue_count
    parked = _parked(half, QueuePlace(topic, queue_id), now_ms, level_count)
    topic, queue_id = parked.place
    head, body_begin, _, _, _, _ = split_record(record, 0)
    dropped = _NOT_DELIVERED.union(name.encode() for name in parked.dropped)
    pairs = {name: value for name, value in half.pairs.items() if name not in dropped}
    pairs |= {name.encode(): value.encode() for name, value in parked.changed.items()}
    block = b"".join(name + NAME_END + value + PAIR_END for name, value in pairs.items())
    batch = Batch(
        bodies=[record[body_begin : body_begin + head[14]]],
        property_blocks=[block],
        unique_keys=[half.text(UNIQUE_KEY)],
        keys=[half.text(KEYS)],
        tags=[half.text(TAGS)],
        born_ms=[head[8]],
        born_hosts=[head[9]],
        flags=[head[4]],
        reconsume_times=[head[12]],
    )
    flag = head[7] & ~HOSTS_V6_MASK & ~FLAG_TRANSACTION_MASK | TRANSACTION_COMMIT
    return Destination(topic, queue_id, head[11], flag, half.place.physical_offset), batch


def _parked(half: Half, place: QueuePlace, now_ms: int, level_count: int) -> ParkedMessage:
    """Returns where a committed message is put; with a delay, parked until it is over."""
    level = _number(half.pairs, DELAY, SUMMABLE_MAX)
    if level > 0:
        return delayed(place, level, level_count)
    ahead_ms = _number(half.pairs, TIMER_DELAY_SECONDS, _SECONDS_MAX) * 1_000
    if ahead_ms <= 0:
        ahead_ms = _number(half.pairs, TIMER_DELAY_MS, SUMMABLE_MAX)
    if ahead_ms <= 0:
        ahead_ms = _number(half.pairs, DELIVER_AT, SUMMABLE_MAX) - now_ms
    if ahead_ms <= 0:
        return ParkedMessage(place, {})
    return timed(place, now_ms + min(ahead_ms, _AHEAD_MAX_MS))


def has_delay(names: Collection[str]) -> bool:
    """Returns whether a half message with properties of these names may be delayed."""
    return not DELAYING.isdisjoint(names)


def checked(half: Half, *, store_host: bytes) -> Run:
    """Returns the record that replaces a half message when it is checked.

    The record contains the queue offset at which the half message was first stored.

    Errors   PropertiesTooLarge: no room for the number of checks
    """
    changed = {
        TRANSACTION_CHECK_TIMES: str(min(half.checks + 1, INT32_MAX)),
        FIRST_HALF_OFFSET: str(half.first_offset),
    }
    run = put_again(
        half.record, topic=HALF_TOPIC, queue_id=0, store_host=store_host, changed=changed
    )
    for name in changed:
        if name.encode() + NAME_END not in run[1].property_blocks[0]:
            size_bytes = sum(len(part) for pair in half.pairs.items() for part in pair)
            raise PropertiesTooLarge(size_bytes=size_bytes, limit_bytes=PROPERTIES_SIZE_MAX)
    return run


def resumed(half: Half, *, store_host: bytes) -> Run:
    """Returns the record of a half message that expired undecided, as if newly sent.

    Source   AdminBrokerProcessor.resumeCheckHalfMessage
    """
    return put_again(
        half.record, topic=HALF_TOPIC, queue_id=0, store_host=store_host,
        changed={TRANSACTION_CHECK_TIMES: "0"}, dropped=(FIRST_HALF_OFFSET,),
    )  # fmt: skip


def given_up(half: Half, *, store_host: bytes) -> Run:
    """Returns the record of a half message that expires undecided."""
    return put_again(
        half.record, topic=GIVEN_UP_TOPIC, queue_id=0, store_host=store_host, changed={}
    )
