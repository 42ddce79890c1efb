"""Stored messages in a reply, as objects of protobuf.

Plain ones are written without: format/stored_messages.py.
"""

from broker.format.record import message_fields
from broker.format.stored_messages import BODY_SIZE_MAX
from broker.model.errors import UnsupportedFeature
from broker.model.message import StoredMessage
from broker.rpc.pb import broker_pb2 as pb


def proto_message(message: StoredMessage) -> pb.StoredMessage:
    """Return a stored message as it is sent to clients.

    Errors   UnsupportedFeature for a body that unfolds to more than a reply can hold
    """
    size_bytes = len(message.body)
    if size_bytes > BODY_SIZE_MAX:
        feature = f"a body that unfolds to {size_bytes} bytes here; pull it with shape RECORDS"
        raise UnsupportedFeature(feature=feature)
    return pb.StoredMessage(**message_fields(message))
