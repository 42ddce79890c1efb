"""Passes a client's HTTP/1.1 connection on to another process of this machine.

    client ──► HttpConnection ──► Tunnel ──► unix socket of the other process
           ◄──────────────────────       ◄──

The client's first request is passed on with one more header field, which states how the client
reached the broker. Its first word is a secret of the broker and the other process, so that clients
cannot send such a field themselves. The other process ends each connection after its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast

HEADER: Final = "x-pocketmq-tunnel"
PRIVATE: Final = "private"
CLEAR: Final = "clear"


def with_field(head: bytes, token: str, *, is_private: bool, is_tls: bool) -> bytes:
    """Returns the bytes of a request with the field after its first line."""
    line, end, rest = head.partition(b"\r\n")
    assert end, "the request has no first line"
    scheme = "https" if is_tls else "http"
    value = f"{token} {PRIVATE if is_private else CLEAR} {scheme}"
    return b"%s\r\n%s: %s\r\n%s" % (line, HEADER.encode(), value.encode(), rest)


class OtherProcess(NamedTuple):
    """A process that answers requests for further pages.

    token   secret of the header field
    owns    returns whether the process has the page of a path
    path    returns the path of its unix socket, and starts it if necessary; raises OSError and
            TimeoutError
    """

    token: str
    owns: Callable[[str], bool]
    path: Callable[[], Awaitable[str]]


class Tunnel(asyncio.Protocol):
    """The connection to the other process; bytes flow as fast as the slower side reads."""

    __slots__ = ("_client", "_transport", "_waiting")

    def __init__(self, client: asyncio.Transport, begin: bytes) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._waiting = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Passes on what the client has sent."""
        self._transport = cast(asyncio.Transport, transport)
        assert self._waiting, "there is no request to pass on"
        self._transport.write(self._waiting)
        self._waiting = b""

    def send(self, data: bytes) -> None:
        """Passes bytes of the client on."""
        if self._transport is None:
            self._waiting += data
        else:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Passes bytes of the other process on."""
        self._client.write(data)

    def pause_writing(self) -> None:
        """Stops reading from the client, which sends faster than the other process reads."""
        if not self._client.is_closing():
            self._client.pause_reading()

    def resume_writing(self) -> None:
        """Reads from the client again."""
        if not self._client.is_closing():
            self._client.resume_reading()

    def pause(self) -> None:
        """Stops reading from the other process, as the client does not read its answer."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Reads from the other process again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the client's connection once it has read everything."""
        self._client.close()

    def close(self) -> None:
        """Ends the connection to the other process."""
        if self._transport is not None:
            self._transport.close()
