"""The methods of the v2 service, one row each (rpc/method_table.py).

The protobuf messages are generated into PocketMQ's own protobuf package, so that an official client
can run in the same process. Clients call the service by NAME.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.method_table import Rpc, RpcTable
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.permissions import FIND, PUB
from pocketmq.rpc.service import SEND_SIZE_MAX
from pocketmq.rpc.v2.ack import read_acks
from pocketmq.rpc.v2.permissions import (
    FIRST_TOPIC,
    alive,
    consumed,
    ended,
    of_queue,
    of_topic,
    place,
    sent,
    told,
)
from pocketmq.rpc.v2.status import refuse

NAME: Final = "apache.rocketmq.v2.MessagingService"
MESSAGING: Final = pb.DESCRIPTOR.services_by_name["MessagingService"]
ACK_SIZE_MAX: Final = 512 * 1024
"""Upper limit of bytes of an ack: fits the largest number of entries of the usual length."""
COMMAND_SIZE_MAX: Final = 4 * 1024 * 1024
"""Upper limit of bytes of a client's command; the largest contain stacks or subscriptions."""
COMMAND_ELEMENTS_MAX: Final = 2_048
"""Upper limit of elements in a field of a command. More than 1,024 topics are answered with an
error; more elements than this end the stream."""


def _bytes_of(answer: bytes | Message) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


_Own = Mapping[str, Any]
_ENCODED: Final[_Own] = {"serialize": _bytes_of, "answer": bytes}
"""The method encodes its response itself."""
_ACKED: Final[_Own] = {**_ENCODED, "parse": read_acks, "request_size_max": ACK_SIZE_MAX}
_COMMANDS: Final[_Own] = {
    "request_size_max": COMMAND_SIZE_MAX, "elements_max": COMMAND_ELEMENTS_MAX
}  # fmt: skip

TABLE: Final = RpcTable(
    NAME, CallClass.SESSION, refuse,
    (
        Rpc(
            "QueryRoute", "routes.query_route", of_topic(FIND), "get_routeinfo_by_topic",
            creates=True
        ),
        Rpc("Heartbeat", "sessions.heartbeat", alive, "heart_beat", creates=True),
        Rpc(
            "SendMessage", "sending.send_message", sent, "send_message_v2", creates=True,
            call_class=CallClass.SEND, shortcut="sending.shortcut", quick=FIRST_TOPIC,
            own={"request_size_max": SEND_SIZE_MAX},
        ),
        Rpc("QueryAssignment", "routes.query_assignment", consumed, creates=True),
        Rpc(
            "ReceiveMessage", "receive_message", of_queue, "pop_message", creates=True,
            call_class=CallClass.POLL, own=_ENCODED
        ),
        Rpc(
            "AckMessage", "acks.ack_message", consumed, call_class=CallClass.SETTLE, own=_ACKED
        ),
        Rpc(
            "ForwardMessageToDeadLetterQueue", "acks.forward", consumed,
            "consumer_send_msg_back", call_class=CallClass.SETTLE
        ),
        Rpc(
            "PullMessage", "offsets.pull_message", of_queue, creates=True,
            call_class=CallClass.POLL
        ),
        Rpc(
            "UpdateOffset", "offsets.update_offset", of_queue, "update_consumer_offset",
            creates=True, call_class=CallClass.QUERY
        ),
        Rpc(
            "GetOffset", "offsets.standing", of_queue, "query_consumer_offset",
            call_class=CallClass.QUERY
        ),
        Rpc(
            "QueryOffset", "offsets.query_offset", place, "search_offset_by_timestamp",
            call_class=CallClass.QUERY
        ),
        Rpc(
            "EndTransaction", "transactions.end_transaction", of_topic(PUB),
            call_class=CallClass.SETTLE
        ),
        Rpc(
            "Telemetry", "sessions.telemetry", told, creates=True, call_class=CallClass.STREAM,
            own=_COMMANDS
        ),
        Rpc(
            "NotifyClientTermination", "sessions.notify_client_termination", ended,
            "unregister_client"
        ),
        Rpc(
            "ChangeInvisibleDuration", "acks.change_invisible_duration", consumed,
            "change_message_invisibletime", call_class=CallClass.SETTLE
        ),
        Rpc(
            "RecallMessage", "sending.recall_message", of_topic(PUB),
            call_class=CallClass.SETTLE
        ),
        Rpc("SyncLiteSubscription", "", consumed),
    ),
    MESSAGING,
)  # fmt: skip
