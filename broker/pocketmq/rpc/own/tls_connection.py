"""TLS over a connection: decrypts the client's bytes, encrypts the server's.

    transport ─► TlsConnection ─► ssl, in memory ─► the protocol by ALPN or by the first bytes
              ◄─                                 ◄─ SecuredTransport

Data passes through ssl in pieces of a record's size, so that ssl's buffers stay small. After a
transfer of megabytes a connection keeps 30 KiB; with asyncio's own TLS it would keep 600 KiB.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

PIECE: Final = 16_384
"""Largest size of a TLS record, in bytes."""
H2: Final = "h2"

Choose = Callable[[str | None, bytes], asyncio.Protocol | None]
"""(ALPN, first bytes) -> protocol of the client; None if its protocol is not served."""


class TlsConnection(asyncio.Protocol):
    """The network's side of a TLS connection.

    shaken   done once the handshake is complete and the protocol chosen; has ssl's error if the
             handshake failed
    """

    __slots__ = (
        "_choose", "_incoming", "_outgoing", "_protocol", "_ssl", "_transport", "context",
        "is_shaken", "shaken",
    )  # fmt: skip

    def __init__(self, context: ssl.SSLContext, choose: Choose) -> None:
        self.context = context
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._choose = choose
        self._transport: asyncio.Transport | None = None
        self._protocol: asyncio.Protocol | None = None
        self.is_shaken = False
        self.shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_spoken_with(self) -> bool:
        """Whether the client's protocol was chosen."""
        return self._protocol is not None

    # -- callbacks of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport; the client writes first."""
        # uvloop's class is not derived from asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Decrypts the client's bytes, and passes them to the protocol."""
        found: list[bytes] = []
        is_over = False
        try:
            for begin in range(0, len(data), PIECE):
                self._incoming.write(data[begin : begin + PIECE])
                is_over = is_over or self._read(found)
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()
        if found:
            self._give(b"".join(found))
        if is_over:
            self.close()

    def eof_received(self) -> bool | None:
        """Informs the protocol that the client has closed its side."""
        return None if self._protocol is None else self._protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Reports the lost connection to the handshake's waiter and the protocol."""
        self._transport = None
        if not self.shaken.done():
            self.shaken.set_exception(ConnectionResetError("the client went away"))
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        """Informs the protocol that the client reads slowly."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Informs the protocol that the client has read."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    # -- helpers

    def _read(self, found: list[bytes]) -> bool:
        """Continues the handshake, then appends all decrypted bytes to `found`.

        Returns  whether the client has closed its side
        Errors   ssl.SSLError
        """
        try:
            if not self.is_shaken:
                self._ssl.do_handshake()
                self._begin()
            while piece := self._ssl.read(PIECE):
                found.append(piece)
        except ssl.SSLWantReadError:
            return False
        return True

    def _begin(self) -> None:
        assert not self.is_shaken, "handshake completed twice"
        self.is_shaken = True
        self._flush()
        if self._ssl.selected_alpn_protocol() is not None:  # The protocol may write first.
            self._give(b"")

    def _give(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._protocol is None:
            self._protocol = self._choose(self._ssl.selected_alpn_protocol(), data)
            if self._protocol is None:
                self._transport.abort()
                return
            if not self.shaken.done():
                self.shaken.set_result(None)
            self._protocol.connection_made(SecuredTransport(self, self._transport))
        if data:
            self._protocol.data_received(data)

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        self._flush()
        if not self.shaken.done():
            self.shaken.set_exception(error)
        if self._transport is not None:
            self._transport.close()

    # -- for the side of the protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends bytes."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        view, out = memoryview(data), []
        try:
            for begin in range(0, len(view), PIECE):
                self._ssl.write(view[begin : begin + PIECE])
                out.append(self._outgoing.read())
        except ssl.SSLError:
            transport.abort()
            return
        transport.write(b"".join(out))

    def close(self) -> None:
        """Sends a TLS close notification after all output, and closes the connection."""
        if self._transport is None or self._transport.is_closing():
            return
        with suppress(ssl.SSLError):  # The client's own close notification is not awaited.
            self._ssl.unwrap()
        self._flush()
        self._transport.close()

    def end(self) -> None:
        """Aborts a connection without a complete handshake, or without bytes after it."""
        self.shaken.cancel()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()


class SecuredTransport(asyncio.Transport):
    """The protocol's side of a TLS connection: a transport of unencrypted bytes."""

    __slots__ = ("_secured", "_transport")

    def __init__(self, secured: TlsConnection, transport: asyncio.Transport) -> None:
        names = {name: transport.get_extra_info(name) for name in ("peername", "sockname")}
        names["sslcontext"] = secured.context
        super().__init__(names)
        assert secured.is_shaken, "the handshake is not complete"
        self._secured = secured
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends bytes."""
        self._secured.write(data)

    def close(self) -> None:
        """Closes once all output is sent."""
        self._secured.close()

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Returns whether the connection is closing or closed."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Pauses reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resumes reading."""
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        """Returns whether reading is not paused."""
        return self._transport.is_reading()

    def unsent_bytes(self) -> int:
        """Returns the number of encrypted bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    get_write_buffer_size = unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets the buffer sizes at which the protocol pauses and resumes writing."""
        self._transport.set_write_buffer_limits(high, low)
