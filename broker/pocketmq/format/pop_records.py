"""Leases as RocketMQ stores them: checkpoints of delivered messages, and their acks.

    checkpoint  messages of one queue were leased until a time         TAGS ck
    ack         one of these messages is settled                    TAGS ack
    batch ack   several messages of one checkpoint are settled      TAGS bAck

    {"bm":0,"bn":"b","c":"G","d":[0,1],"it":60000,"n":2,"pt":1700000000000,"q":1,
     "reviveTime":1700000060000,"ro":0,"so":10,"sp":false,"t":"T"}
    {"ao":11,"bn":"b","c":"G","pt":1700000000000,"q":1,"so":10,"t":"T"}   batch acks add "aol"

RocketMQ sends them through its timer to the revive topic, so the timer topic holds them with
REAL_TOPIC and REAL_QID set: checkpoints due a second before the lease ends, acks due at its end.
Source: PopMessageProcessor.buildCkMsg, AckMessageProcessor, PopCheckPoint, AckMsg, BatchAckMsg.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pocketmq.format.layout import Buffer
from pocketmq.format.properties import decode_properties
from pocketmq.format.record import BadRecord, split_record
from pocketmq.model.message import INT32_MAX, OFFSET_MAX, REAL_QUEUE, REAL_TOPIC, TAGS
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX

CHECKPOINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
CHECKPOINT_LEAD_MS: Final = 1_000
"""Time from a checkpoint's due time to the end of its lease (PopAckConstants.ackTimeInterval)."""
_FIRST: Final = "pocketmqFirst"
"""PocketMQ's member of a lease that continues an earlier lease: the time in its receipt handles."""
PRECISION_MS: Final = 1_000
CHECKPOINT_COUNT_MAX: Final = 32
"""Upper limit of messages of one checkpoint: RocketMQ has a bit of an int for each message."""
_COUNT_MAX: Final = 127
"""Upper limit of offsets in one stored entry: RocketMQ counts them in a byte."""


class Batched(NamedTuple):
    """The identity of a checkpoint: messages of one queue that one receive leased."""

    group: str
    topic: str
    queue_id: int
    start_offset: int
    popped_at_ms: int
    broker: str


class PopCheckpoint(NamedTuple):
    """Leased messages: their queue offsets, and the duration of their lease.

    first_popped_ms   time of the receive whose lease this lease continues; 0: this lease is the
                      first of its receive, and advances the group's offset
    """

    batched: Batched
    queue_offsets: list[int]
    invisible_ms: int
    revive_queue: int
    first_popped_ms: int = 0


class Ack(NamedTuple):
    """Settled queue offsets of a checkpoint."""

    batched: Batched
    queue_offsets: list[int]


class Entry(NamedTuple):
    """A checkpoint or an ack, as a message to put; these messages are the lease journal."""

    body: bytes
    property_block: bytes
    unique_key: str
    tag: str


def checkpoint_entry(checkpoint: PopCheckpoint, revive_topic: str) -> Entry:
    """Returns the journal message of a checkpoint.

    Cost     about 4 µs for 32 messages
    """
    batched, offsets, invisible_ms, revive_queue, first_ms = checkpoint
    group, topic, queue_id, start, popped_ms, broker = batched
    # RocketMQ ignores fields that it does not know.
    first = f'"{_FIRST}":{first_ms},' if 0 < first_ms <= popped_ms else ""
    assert 0 < len(offsets) <= CHECKPOINT_COUNT_MAX
    assert offsets[0] >= start
    diffs = ",".join([str(at - start) for at in offsets])
    due_ms = popped_ms + invisible_ms
    body = (
        f'{{"bm":0,"bn":{_quoted(broker)},"c":{_quoted(group)},"d":[{diffs}],"it":{invisible_ms},'
        f'"n":{len(offsets)},{first}"pt":{popped_ms},"q":{queue_id},"reviveTime":{due_ms},"ro":0,'
        f'"so":{start},"sp":false,"t":{_quoted(topic)}}}'
    ).encode()
    key = f"{topic}@{queue_id}@{start}@{group}@{popped_ms}@{broker}@{CHECKPOINT_TAG}"
    due_ms -= CHECKPOINT_LEAD_MS
    block = _block(revive_topic, revive_queue, max(due_ms, 1), key, CHECKPOINT_TAG)
    return Entry(body, block, key, CHECKPOINT_TAG)


def ack_entry(ack: Ack, due_ms: int, revive_queue: int, revive_topic: str) -> Entry:
    """Returns the journal message of an ack, due when the lease ends; a batch ack for several."""
    (group, topic, queue_id, start, popped_ms, broker), offsets = ack
    assert offsets
    rest = (
        f'"bn":{_quoted(broker)},"c":{_quoted(group)},"pt":{popped_ms},"q":{queue_id},'
        f'"so":{start},"t":{_quoted(topic)}}}'
    )
    if len(offsets) == 1:
        tag = ACK_TAG
        body = f'{{"ao":{offsets[0]},{rest}'
        key = f"{topic}@{queue_id}@{offsets[0]}@{group}@{popped_ms}@{broker}@{tag}"
    else:
        tag = BATCH_ACK_TAG
        listed = ",".join(map(str, offsets))
        body = f'{{"ao":0,"aol":[{listed}],{rest}'
        key = f"{topic}@{queue_id}@[{listed}]@{group}@{popped_ms}@{tag}"
    block = _block(revive_topic, revive_queue, due_ms, key, tag)
    return Entry(body.encode(), block, key, tag)


def _block(topic: str, queue_id: int, deliver_ms: int, key: str, tag: str) -> bytes:
    out_ms = (deliver_ms - 1) // PRECISION_MS * PRECISION_MS
    return (
        f"REAL_TOPIC\x01{topic}\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02UNIQ_KEY\x01{key}\x02"
        f"TAGS\x01{tag}\x02TIMER_OUT_MS\x01{out_ms}\x02REAL_QID\x01{queue_id}\x02"
    ).encode()


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def read_entry(record: Buffer) -> tuple[PopCheckpoint | Ack, Mapping[str, str]] | None:
    """Parses a stored record.

    Returns  the entry and the record's properties; None: a client sent the record, which may have
             the tag of an entry
    Shape    a valid record; entries written by RocketMQ are accepted
    Cost     about 10 µs
    Errors   BadRecord: a broker wrote the record, but its body is not an entry
    """
    head, body_begin, _, _, block_begin, block_end = split_record(record, 0)
    properties = decode_properties(record[block_begin:block_end])
    # Clients can neither set REAL_TOPIC nor send to a topic of this prefix.
    if not properties.get(REAL_TOPIC, "").startswith(REVIVE_TOPIC_PREFIX):
        return None
    tag = properties.get(TAGS, "")
    if tag not in (CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG):
        return None
    try:
        body = json.loads(bytes(record[body_begin : body_begin + head[14]]))
        entry = _checkpoint(body, properties) if tag == CHECKPOINT_TAG else _ack(body, tag)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise BadRecord(f"not an entry of the lease journal: {error!r:.100}") from error
    return entry, properties


def _checkpoint(body: dict[str, Any], properties: Mapping[str, str]) -> PopCheckpoint:
    batched = _batched(body)
    done = body.get("bm") or 0
    if not isinstance(done, int):
        raise ValueError("bm is not a number")
    diffs = body.get("d") or range(_count(body["n"], _COUNT_MAX))
    offsets = [_count(batched.start_offset + diff) for diff in _limited(diffs)]
    if offsets != sorted(set(offsets)):
        raise ValueError("its offsets are not ascending")
    pending = [at for i, at in enumerate(offsets) if not done >> i & 1]
    revive_queue = _count(int(properties.get(REAL_QUEUE) or 0), INT32_MAX)
    return PopCheckpoint(
        batched, pending, _count(body["it"]), revive_queue, _count(body.get(_FIRST, 0))
    )


def _ack(body: dict[str, Any], tag: str) -> Ack:
    offsets = body["aol"] if tag == BATCH_ACK_TAG else [body["ao"]]
    return Ack(_batched(body), [_count(at) for at in _limited(offsets)])


def _limited(numbers: Any) -> Any:
    if len(numbers) > _COUNT_MAX:
        raise ValueError(f"it names {len(numbers)} offsets, at most {_COUNT_MAX} are allowed")
    return numbers


def _batched(body: dict[str, Any]) -> Batched:
    names = body["c"], body["t"], body.get("bn") or ""
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a name is not a text")
    group, topic, broker = names
    queue_id, start = _count(body["q"], INT32_MAX), _count(body["so"])
    return Batched(group, topic, queue_id, start, _count(body["pt"]), broker)


def _count(value: Any, upper: int = OFFSET_MAX) -> int:
    if not isinstance(value, int) or not 0 <= value <= upper:
        raise ValueError(f"a number is not in 0 to {upper}")
    return value
