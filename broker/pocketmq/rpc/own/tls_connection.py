"""TLS over a connection: decrypts the client's bytes, encrypts the server's.

    transport ─► TlsConnection ─► ssl, in memory ─► the protocol that the handshake chose
              ◄─                                 ◄─ SecuredTransport

Pieces of a record's size go through ssl, so that its buffers stay small: a connection that carried
megabytes keeps 30 KiB, where the loop's own TLS keeps 600.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

PIECE: Final = 16_384
"""Bytes of a TLS record at most."""
H2: Final = "h2"

Choose = Callable[[str | None, bytes], asyncio.Protocol | None]
"""Returns the protocol of a client, by its ALPN or else its first bytes; None: there is none."""


class TlsConnection(asyncio.Protocol):
    """The side of the network.

    shaken   is done when handshake and choice of protocol are over, with ssl's error where it
             failed
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
        """Begins; the client speaks first."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has no such base

    def data_received(self, data: bytes) -> None:
        """Takes the client's bytes."""
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
        """Tells the protocol that the client has closed its side."""
        return None if self._protocol is None else self._protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Reports the lost connection to the handshake's waiter and the protocol."""
        self._transport = None
        if not self.shaken.done():
            self.shaken.set_exception(ConnectionResetError("the client went away"))
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        """Passes on that the client reads slowly."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Passes on that the client has read."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    # -- inside

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
        """Notes that the handshake is over; the protocol chosen by ALPN writes first."""
        assert not self.is_shaken, "a handshake ends once"
        self.is_shaken = True
        self._flush()
        if self._ssl.selected_alpn_protocol() is not None:
            self._give(b"")

    def _give(self, data: bytes) -> None:
        """Gives the protocol the client's bytes; choose it before."""
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
        """Sends the client the alert that ssl made, and ends."""
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
        """Closes after all is sent, with a TLS close notification."""
        if self._transport is None or self._transport.is_closing():
            return
        with suppress(ssl.SSLError):  # The client's own close notification is not awaited.
            self._ssl.unwrap()
        self._flush()
        self._transport.close()

    def end(self) -> None:
        """Ends a handshake that takes too long; one that has failed ends by itself.

        It also ends a client silent after the handshake: without ALPN its protocol is unknown.
        """
        self.shaken.cancel()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()


class SecuredTransport(asyncio.Transport):
    """The side of the protocol: a transport as any other."""

    __slots__ = ("_secured", "_transport")

    def __init__(self, secured: TlsConnection, transport: asyncio.Transport) -> None:
        names = {"peername": transport.get_extra_info("peername"), "sslcontext": secured.context}
        super().__init__(names)
        assert secured.is_shaken, "nobody speaks before"
        self._secured = secured
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends bytes."""
        self._secured.write(data)

    def close(self) -> None:
        """Ends once all is sent."""
        self._secured.close()

    def abort(self) -> None:
        """Ends now."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it ends, or has."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Takes nothing from the network."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resumes reading."""
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        """Whether anything is taken."""
        return self._transport.is_reading()

    def unsent_bytes(self) -> int:
        """Returns the number of encrypted bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    get_write_buffer_size = unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets at which size the protocol has to pause."""
        self._transport.set_write_buffer_limits(high, low)
