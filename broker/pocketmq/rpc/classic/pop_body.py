"""Parses the JSON body of BATCH_ACK_MESSAGE: leases, each with a bit set of messages.

    {"brokerName":"b","acks":[{"c":group,"t":topic,"r":"0","so":start,"q":queueId,"rq":reviveQid,
     "pt":popTime,"it":invisibleTime,"b":base64}]}

Bit n of the set, from the lowest bit of the first byte on, stands for queue offset start + n.
Source: BatchAckMessageRequestBody, BatchAck, BitSet.
"""

from base64 import b64decode
from typing import Final, NamedTuple

from pocketmq.format.receipt_handle import LeasePlace
from pocketmq.model.decimal import number_of
from pocketmq.model.errors import TooManyElements
from pocketmq.rpc.classic.json_body import Body, body_of, objects_in, text_in, whole_in
from pocketmq.rpc.service import MalformedRequest
from pocketmq.services.consume.handles import handles_of
from pocketmq.wire.remoting import Command

BYTES_MAX: Final = 128
"""Upper limit of a bit set's bytes: 1,024 queue offsets; a pop leases at most 32 messages."""
HANDLES_MAX: Final = 4_096
"""Upper limit of the handles in one request."""


class BatchAck(NamedTuple):
    """Receipt handles of messages of one group and topic."""

    group: str
    topic: str
    handles: list[str]


def acks_of(request: Command) -> list[BatchAck]:
    """Returns the content of a request to acknowledge batches.

    Errors   MalformedRequest, TooManyElements
    """
    body = body_of(request)
    broker = text_in(body, "brokerName")
    found = [_ack_of(one, broker) for one in objects_in(body, "acks")]
    if sum(len(one.handles) for one in found) > HANDLES_MAX:
        raise TooManyElements(field="acks", limit=HANDLES_MAX)
    return found


def _ack_of(body: Body, broker: str) -> BatchAck:
    start, bits = whole_in(body, "so"), _bits_of(text_in(body, "b"))
    place = LeasePlace(
        start, whole_in(body, "pt"), whole_in(body, "it"), whole_in(body, "rq"),
        max(number_of(text_in(body, "r")), 0), broker, whole_in(body, "q"),
    )  # fmt: skip
    offsets = [start + n for n in range(bits.bit_length()) if bits >> n & 1]
    return BatchAck(text_in(body, "c"), text_in(body, "t"), handles_of(place, offsets))


def _bits_of(text: str) -> int:
    try:
        found = b64decode(text, validate=True)
    except ValueError as failure:
        raise MalformedRequest(why="a bit set is no base64") from failure
    if len(found) > BYTES_MAX:
        raise MalformedRequest(why=f"a bit set has {len(found)} bytes, the limit is {BYTES_MAX}")
    return int.from_bytes(found, "little")
