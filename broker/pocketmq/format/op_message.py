"""Op messages, which list the queue offsets of ended half messages, each followed by a comma.

    RMQ_SYS_TRANS_OP_HALF_TOPIC, queue id of the half messages, TAGS d      b"12,13,"

Op messages of brokers before 5.0 contain one offset without a comma. Op messages do not show
whether a half message was committed or rolled back.
Source: TransactionalMessageBridge.putOpMessage, TransactionalOpBatchService.
"""

from collections.abc import Sequence
from typing import Final

from pocketmq.format.layout import Buffer
from pocketmq.format.record import split_record
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.decimal import number_of_bytes
from pocketmq.model.message import TAGS, WAIT
from pocketmq.model.topic import OP_HALF_TOPIC

OP_BODY_SIZE_MAX: Final = 4_096
"""Upper limit of the bytes of one body (transactionOpMsgMaxSize)."""
OP_TAG: Final = "d"
OP_BLOCK: Final = f"{WAIT}\x01true\x02{TAGS}\x01{OP_TAG}\x02".encode()


def op_run(queue_offsets: Sequence[int], *, store_host: bytes, now_ms: int) -> Run:
    """Returns a run of the fewest op messages that mark half messages as ended."""
    bodies = op_bodies(queue_offsets)
    count = len(bodies)
    batch = Batch(
        bodies=bodies,
        property_blocks=[OP_BLOCK] * count,
        unique_keys=[""] * count,
        keys=[""] * count,
        tags=[OP_TAG] * count,
        born_ms=[now_ms] * count,
        born_hosts=[store_host] * count,
        flags=[0] * count,
        reconsume_times=[0] * count,
    )
    return Destination(OP_HALF_TOPIC, 0, store_host), batch


def op_bodies(queue_offsets: Sequence[int]) -> list[bytes]:
    """Returns the bodies that list these offsets, in their order."""
    assert queue_offsets
    bodies: list[bytes] = []
    body = ""
    for queue_offset in queue_offsets:
        text = f"{queue_offset},"
        if len(body) + len(text) > OP_BODY_SIZE_MAX:
            bodies.append(body.encode())
            body = ""
        body += text
    return [*bodies, body.encode()]


def read_op(record: Buffer) -> list[int]:
    """Returns the queue offsets that a record lists; ignores invalid numbers.

    Errors   BadRecord
    """
    return read_op_body(op_body(record))


def op_body(record: Buffer) -> bytes:
    """Returns the body of a record, as it is stored.

    Errors   BadRecord
    """
    head, body_begin, _, _, _, _ = split_record(record, 0)
    return bytes(record[body_begin : body_begin + head[14]])


def read_op_body(body: bytes) -> list[int]:
    """Returns the queue offsets of a body, parsed as RocketMQ does: each part by itself.

    Source   TransactionalMessageServiceImpl.fillOpRemoveMap, getLong
    """
    found = map(_queue_offset, body.split(b","))
    return [queue_offset for queue_offset in found if queue_offset is not None]


def is_op_body(body: bytes) -> bool:
    """Returns whether a body contains only queue offsets, separated or followed by commas.

    Brokers also read the valid offsets of other bodies.
    """
    parts = body.removesuffix(b",").split(b",")
    return all(_queue_offset(part) is not None for part in parts)


def _queue_offset(text: bytes) -> int | None:
    number = number_of_bytes(text.removeprefix(b"+"))
    return number if number >= 0 else None
