"""The v2 service: its methods, the class of each, and RocketMQ's request code.

Messages are in a package of ours, so that an official client can run in the same process. Clients
call the service by the name below.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from pocketmq.model.errors import UnsupportedFeature
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import SEND_SIZE_MAX, Handler, Method, Service, Shortcut, closed, method
from pocketmq.rpc.v2.ack import read_acks
from pocketmq.rpc.v2.status import refuse

NAME: Final = "apache.rocketmq.v2.MessagingService"
MESSAGING: Final = pb.DESCRIPTOR.services_by_name["MessagingService"]
ACK_SIZE_MAX: Final = 512 * 1024
"""Bytes of an ack with as many entries as it may have, of the usual length."""
CLASSES: Final[Mapping[str, CallClass]] = {
    "QueryRoute": CallClass.SESSION,
    "Heartbeat": CallClass.SESSION,
    "SendMessage": CallClass.SEND,
    "QueryAssignment": CallClass.SESSION,
    "ReceiveMessage": CallClass.POLL,
    "AckMessage": CallClass.SETTLE,
    "ForwardMessageToDeadLetterQueue": CallClass.SETTLE,
    "PullMessage": CallClass.POLL,
    "UpdateOffset": CallClass.QUERY,
    "GetOffset": CallClass.QUERY,
    "QueryOffset": CallClass.QUERY,
    "EndTransaction": CallClass.SETTLE,
    "Telemetry": CallClass.STREAM,
    "NotifyClientTermination": CallClass.SESSION,
    "ChangeInvisibleDuration": CallClass.SETTLE,
    "RecallMessage": CallClass.SETTLE,
    "SyncLiteSubscription": CallClass.SESSION,
}
REQUEST_CODES: Final[Mapping[str, str]] = {
    "QueryRoute": "get_routeinfo_by_topic",
    "Heartbeat": "heart_beat",
    "SendMessage": "send_message_v2",
    "ReceiveMessage": "pop_message",
    "ForwardMessageToDeadLetterQueue": "consumer_send_msg_back",
    "UpdateOffset": "update_consumer_offset",
    "GetOffset": "query_consumer_offset",
    "QueryOffset": "search_offset_by_timestamp",
    "NotifyClientTermination": "unregister_client",
    "ChangeInvisibleDuration": "change_message_invisibletime",
}
"""Method -> the name of RocketMQ's request code, in lower case; others go by their own name."""
COMMAND_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of a client's command: its threads' activity, or all its subscriptions."""
COMMAND_ELEMENTS_MAX: Final = 2_048
"""Elements of each field of a command; with more than 1,024 topics it is answered by an error, with
more than these the stream ends."""
SIZES: Final[Mapping[str, int]] = {
    "SendMessage": SEND_SIZE_MAX, "AckMessage": ACK_SIZE_MAX, "Telemetry": COMMAND_SIZE_MAX
}  # fmt: skip
"""Bytes a request may have where it is more than the usual."""


ENCODED: Final = frozenset({"AckMessage", "ReceiveMessage"})
"""Methods that encode their answers themselves."""


def face(handlers: Mapping[str, Handler], shortcuts: Mapping[str, Shortcut] = {}) -> Service:
    """Returns the API; methods without a handler answer that they are not served.

    shortcuts   of methods that have one
    """
    assert handlers.keys() <= CLASSES.keys(), "a handler is of a method of the proto"
    unserved = {name: _unserved(name) for name in CLASSES.keys() - handlers.keys()}
    return _service({**unserved, **handlers}, shortcuts)


def closed_face() -> Service:
    """Returns the face while nothing can be served."""
    return _service(dict.fromkeys(CLASSES, closed), {})


def _service(handlers: Mapping[str, Handler], shortcuts: Mapping[str, Shortcut]) -> Service:
    rows = [_row(name, handlers[name], shortcuts.get(name)) for name in CLASSES]
    return Service(NAME, tuple(rows), refuse)


def _row(name: str, handler: Handler, shortcut: Shortcut | None) -> Method:
    own: dict[str, Any] = {"request_code": REQUEST_CODES.get(name, ""), "shortcut": shortcut}
    if name in ENCODED:
        own |= {"serialize": _bytes_of, "answer": bytes}
    if name == "AckMessage":
        own["parse"] = read_acks
    if name in SIZES:
        own["request_size_max"] = SIZES[name]
    if name == "Telemetry":
        own["elements_max"] = COMMAND_ELEMENTS_MAX
    return method(MESSAGING, name, handler, CLASSES[name], **own)


def _bytes_of(answer: bytes | Message) -> bytes:
    """Returns an answer as bytes; refusals are messages everywhere."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _unserved(name: str) -> Handler:
    def refused(request: Any, call: Call) -> Any:
        raise UnsupportedFeature(feature=name)

    return refused
