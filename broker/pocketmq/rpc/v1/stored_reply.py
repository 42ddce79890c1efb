"""Encodes stored messages of a reply with protobuf classes.

rpc/codec/stored_messages.py encodes plain messages without protobuf objects.
"""

from collections.abc import Iterable, Iterator

from pocketmq.format.body_codec import BodyBudget
from pocketmq.format.half_message import shown_half
from pocketmq.format.record import is_shown, message_fields
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.message import StoredMessage
from pocketmq.rpc.codec.stored_messages import BODY_SIZE_MAX
from pocketmq.rpc.pb import broker_pb2 as pb


def proto_message(message: StoredMessage) -> pb.StoredMessage:
    """Returns a stored message as protobuf.

    Errors   UnsupportedFeature: the stored body is too large for a reply
    """
    size_bytes = len(message.body)
    if size_bytes > BODY_SIZE_MAX:
        feature = f"a body of {size_bytes} bytes in a reply; pull it with shape RECORDS"
        raise UnsupportedFeature(feature=feature)
    return pb.StoredMessage(**message_fields(message), body_codec=message.body_codec)


def proto_halves(records: Iterable[bytes]) -> Iterator[pb.StoredMessage]:
    """Yields half messages in the form in which they would be delivered.

    Bodies are decompressed within the budget of one reply; further bodies are sent as stored.

    Errors   UnsupportedFeature: see `proto_message`; BadRecord
    """
    budget = BodyBudget()
    for record in records:
        message = shown_half(record)
        is_shown(message, budget, always=True)
        yield proto_message(message)
