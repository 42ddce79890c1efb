"""The request codes of classic clients, one row each (classic/method_table.py).

Codes of name server and broker do not overlap, so one port serves both roles.
Source: RequestCode.
"""

from typing import Final

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.classic.method_table import RequestTable, request
from pocketmq.rpc.classic.permissions import found, lists_topics, sent
from pocketmq.rpc.classic.send_message import batch_names, long_names
from pocketmq.rpc.classic.status import refuse
from pocketmq.rpc.permissions import nothing
from pocketmq.rpc.service import ANY_CODE, SEND_SIZE_MAX

NAME: Final = "remoting"
HEARTBEAT_SIZE_MAX: Final = 1024 * 1024
"""Most bytes of a heartbeat, which has all subscriptions of a client."""

TABLE: Final = RequestTable(
    NAME, CallClass.SESSION, refuse,
    (
        # The name server's.
        request(
            105, "GET_ROUTEINFO_BY_TOPIC", "routes.route", found, fields=("topic",)
        ),
        request(106, "GET_BROKER_CLUSTER_INFO", "routes.cluster", nothing),
        request(206, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "routes.topics", lists_topics),
        request(
            101, "GET_KV_CONFIG", "routes.setting", nothing, fields=("namespace", "key")
        ),
        # Producers'.
        request(
            310, "SEND_MESSAGE_V2", "sending.send", sent, parse=long_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND, creates=True,
        ),
        request(
            10, "SEND_MESSAGE", "sending.send", sent, parse=long_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND, creates=True,
        ),
        request(
            320, "SEND_BATCH_MESSAGE", "sending.send", sent, parse=batch_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND, creates=True,
        ),
        # Sessions of clients.
        request(34, "HEART_BEAT", "heartbeat", nothing, body_max=HEARTBEAT_SIZE_MAX),
        request(35, "UNREGISTER_CLIENT", "unregister", nothing),
        request(
            ANY_CODE, "UNSUPPORTED", "unsupported", nothing, body_max=HEARTBEAT_SIZE_MAX,
            call_class=CallClass.PROBE,
        ),
    ),
)  # fmt: skip
