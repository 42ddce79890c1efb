"""PocketMQ: Apache RocketMQ's storage design and protocol in one Python process.

    from pocketmq import Client, Message

    with Client("127.0.0.1:8081") as client:
        client.send(Message("orders", b"order 42 paid", keys=["order-42"]))

Records arrive over gRPC and are stored in a commit log; every other file is derived from that log.
The packages form layers in which every import points downwards, from `cli` to `model`. Programs use
the names of `__all__`, `pocketmq.testing` and `pocketmq.spark`; all else may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pocketmq import native

if TYPE_CHECKING:
    from pocketmq.client import (
        AsyncClient,
        Client,
        ClientError,
        DeadlineExceeded,
        EndStatus,
        GrantState,
        GroupSettings,
        KeyQuery,
        Leased,
        Message,
        NotOpen,
        PendingTransaction,
        PullPage,
        PullQuery,
        PullStatus,
        PutStatus,
        Receipt,
        ReceiveQuery,
        Resolution,
        Settled,
        SettleStatus,
        StoredMessage,
        TailQuery,
        Unreachable,
        errors,
    )

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "DeadlineExceeded",
    "EndStatus",
    "GrantState",
    "GroupSettings",
    "KeyQuery",
    "Leased",
    "Message",
    "NotOpen",
    "PendingTransaction",
    "PullPage",
    "PullQuery",
    "PullStatus",
    "PutStatus",
    "Receipt",
    "ReceiveQuery",
    "Resolution",
    "SettleStatus",
    "Settled",
    "StoredMessage",
    "TailQuery",
    "Unreachable",
    "__version__",
    "errors",
]

__version__ = "0.2.0"

native.install()


def __getattr__(name: str) -> Any:
    """Loads the client with the first of its names that is used: a broker needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.client"), name)
