"""The Python client of a broker, for programs and for the command line.

    from pocketmq.client import Client, Message, PullQuery

    with Client("127.0.0.1:8081") as client:
        receipt = client.send(Message("orders", b"order 42 paid", keys=["order-42"], tag="paid"))
        page = client.pull(PullQuery("orders", receipt.queue_id, receipt.queue_offset))

Client blocks and may be shared by any number of threads. AsyncClient has the same methods for
asyncio. A failed call raises `ClientError`. If the broker refused the call, the error is also an
instance of the class in `errors` that the broker raised. This package imports grpcio and protobuf
when a program first uses one of the two clients. See docs/howto/client.md.
"""

from typing import TYPE_CHECKING, Any

from pocketmq.client.client_error import ClientError, DeadlineExceeded, NotOpen, Unreachable
from pocketmq.client.values import (
    Ended,
    EndStatus,
    GrantState,
    GroupState,
    KeyQuery,
    Leased,
    Message,
    OpenTransaction,
    PendingTransaction,
    PullPage,
    PullQuery,
    Receipt,
    ReceiveQuery,
    Shape,
    TailQuery,
    TopicState,
    Wait,
)
from pocketmq.model import errors
from pocketmq.model.administration import GroupSettings, QueueState, ResetTarget, TopicChange
from pocketmq.model.batch import PutStatus
from pocketmq.model.consuming import Settled, SettleStatus
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import Bound, PullStatus, QueryResult
from pocketmq.model.transaction import Resolution

if TYPE_CHECKING:
    from pocketmq.client.async_admin import AsyncAdmin
    from pocketmq.client.async_client import AsyncClient
    from pocketmq.client.client import Admin, Client

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncClient",
    "Bound",
    "Client",
    "ClientError",
    "DeadlineExceeded",
    "EndStatus",
    "Ended",
    "GrantState",
    "GroupSettings",
    "GroupState",
    "KeyQuery",
    "Leased",
    "Message",
    "NotOpen",
    "OpenTransaction",
    "PendingTransaction",
    "PullPage",
    "PullQuery",
    "PullStatus",
    "PutStatus",
    "QueryResult",
    "QueueState",
    "Receipt",
    "ReceiveQuery",
    "ResetTarget",
    "Resolution",
    "SettleStatus",
    "Settled",
    "Shape",
    "StoredMessage",
    "TailQuery",
    "TopicChange",
    "TopicState",
    "Unreachable",
    "Wait",
    "errors",
]  # fmt: skip

_LOADS_GRPC = {
    "Admin": "client",
    "AsyncAdmin": "async_admin",
    "AsyncClient": "async_client",
    "Client": "client",
}
"""Names whose modules import grpcio."""


def __getattr__(name: str) -> Any:
    module = _LOADS_GRPC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
