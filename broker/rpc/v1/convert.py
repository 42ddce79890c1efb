"""Stored messages into protobuf, whatever form their records have."""

from typing import Final

from broker.format.record import message_fields
from broker.model.errors import UnsupportedFeature
from broker.model.message import StoredMessage
from broker.rpc.pb import broker_pb2 as pb

REPLY_BODY_SIZE_MAX: Final = 15 * 1024 * 1024
"""A reply of 16 MiB holds a body of this size and everything else of its message."""


def proto_message(message: StoredMessage) -> pb.StoredMessage:
    """Return a stored message as it is sent to clients.

    Errors   UnsupportedFeature for a body that unfolds to more than a reply can hold
    """
    size_bytes = len(message.body)
    if size_bytes > REPLY_BODY_SIZE_MAX:
        feature = f"a body that unfolds to {size_bytes} bytes here; pull it with shape RECORDS"
        raise UnsupportedFeature(feature=feature)
    return pb.StoredMessage(**message_fields(message))
