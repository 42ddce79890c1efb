"""Errors for clients of the protocol: a status inside an answer, while gRPC's own is OK.

A failed receive also has the time, like an empty one, unless the client or its user is unknown.
"""

from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.model.errors import BrokerError, ClientIdRequired, Unauthenticated
from pocketmq.rpc.error_text import public_text
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import Method

OK: Final = pb.Status(code=pb.OK, message="OK")
"""The status of nearly every answer."""


def status_of(error: BrokerError) -> pb.Status:
    """Returns the status of an error for clients."""
    return pb.Status(code=error.code.name, message=public_text(error))


def refuse(error: BrokerError, method: Method) -> Any:
    """Returns the answers, of the method's type, that report an error to a client."""
    first = method.response(status=status_of(error))
    if method.response is not pb.ReceiveMessageResponse or isinstance(
        error, ClientIdRequired | Unauthenticated
    ):
        return first
    now = Timestamp()
    now.GetCurrentTime()
    return [first, pb.ReceiveMessageResponse(delivery_timestamp=now)]
