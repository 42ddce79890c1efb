"""Encodes errors of v2 as a status in the answer, with the gRPC status OK.

The answer to a failed receive also contains the delivery time, as an empty receive does, unless
the client id is missing or the user is not authenticated.
"""

from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.model.errors import BrokerError, ClientIdRequired, Unauthenticated
from pocketmq.rpc.error_text import public_text
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import Method

OK: Final = pb.Status(code=pb.OK, message="OK")
"""Status of successful answers."""


def status_of(error: BrokerError) -> pb.Status:
    """Returns the status of an error for clients."""
    return pb.Status(code=error.code.name, message=public_text(error))


def refuse(error: BrokerError, method: Method) -> Any:
    """Returns the method's answer, or answers, that report an error to a client."""
    first = method.response(status=status_of(error))
    if method.response is not pb.ReceiveMessageResponse or isinstance(
        error, ClientIdRequired | Unauthenticated
    ):
        return first
    now = Timestamp()
    now.GetCurrentTime()
    return [first, pb.ReceiveMessageResponse(delivery_timestamp=now)]
