"""Ends failed calls with a status, or with an error in the form of their API."""

from collections.abc import Sequence
from typing import Final

from pocketmq.rpc.call import begin_request, end_request
from pocketmq.rpc.service import WireStatus
from pocketmq.rpc.serving import (
    CANCELLED,
    DEADLINE_EXCEEDED,
    OK,
    UNAVAILABLE,
    Refused,
    ServedMethod,
)
from pocketmq.wire.connection import Connection
from pocketmq.wire.stream import Stream

EXPIRED: Final = WireStatus(DEADLINE_EXCEEDED, "the call's deadline has passed", b"")
OLD: Final = WireStatus(UNAVAILABLE, "the connection is old: call again on a new one", b"")
ABANDONED: Final = WireStatus(CANCELLED, "the call was cancelled", b"")


def end(
    wire: Connection,
    stream: Stream,
    status: WireStatus | None,
    replies: Sequence[bytes] = (),
    trailers: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Ends a call with a status, or with answers and OK if `status` is None."""
    if status is not None:
        wire.finish(stream, status.code, status.message, [*trailers])
        return
    if not stream.is_head_sent:
        wire.send_headers(stream, [])
    for reply in replies:
        wire.send_message(stream, reply)
    wire.finish(stream, OK, "", [*trailers])


def tell(wire: Connection, stream: Stream, refused: Refused) -> None:
    """Ends a call with a refusal."""
    trailers = [
        (name.encode(), value.encode() if isinstance(value, str) else value)
        for name, value in refused.trailers()
    ]
    end(wire, stream, refused.status, refused.replies, trailers)


def refuse(
    wire: Connection, stream: Stream, served: ServedMethod, error: Exception, seconds: float
) -> None:
    """Ends and counts a call that failed after `seconds`."""
    begin_request(stream.headers.text)
    refused = served.refused(error, seconds)
    end_request()
    tell(wire, stream, refused)
