"""TLS in memory: bytes arrive as they were sent, however the network cuts them."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from pocketmq.rpc.own.tls import tls_context
from pocketmq.rpc.own.tls_connection import PIECE, TlsConnection

FILES = Path(__file__).parents[2] / "kit" / "certificate"
CERT, KEY = str(FILES / "cert.pem"), str(FILES / "key.pem")


class Network(asyncio.Transport):
    """Keeps what is sent to the client."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "nothing is sent after the end"
        self.sent += data

    def is_closing(self) -> bool:
        return bool(self.closed)

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Speaker(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost += 1


class Pair:
    """A client and a server, and the bytes between them.

    piece   how many bytes come at once
    """

    def __init__(self, piece: int = 1 << 20, alpn: str = "h2", speaks: bool = True) -> None:
        context = ssl.create_default_context(cafile=CERT)
        if alpn:
            context.set_alpn_protocols([alpn])
        self.to_client, self.to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = context.wrap_bio(self.to_client, self.to_server, server_hostname="localhost")
        self.piece = piece
        self.network, self.speaker = Network(), Speaker()
        self.chosen: list[tuple[str | None, bytes]] = []
        self.speaks = speaks
        self.secured = TlsConnection(tls_context(CERT, KEY), self.choose)
        self.secured.connection_made(self.network)

    def choose(self, alpn: str | None, first: bytes) -> asyncio.Protocol | None:
        self.chosen.append((alpn, first))
        return self.speaker if self.speaks else None

    def send(self, data: bytes) -> None:
        """Brings bytes to the server."""
        for begin in range(0, len(data), self.piece):
            self.secured.data_received(data[begin : begin + self.piece])

    def shake(self) -> None:
        """Brings the handshake to its end."""
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.send(self.to_server.read())
            self.hear()

    def hear(self) -> None:
        """Brings the client what was sent."""
        self.to_client.write(bytes(self.network.sent))
        self.network.sent.clear()

    def said(self, size: int) -> bytes:
        """Returns what the client reads."""
        self.hear()
        found = b""
        while len(found) < size:
            found += self.client.read(size - len(found))
        return found


@pytest.mark.parametrize("piece", [1, 77, PIECE, 1 << 20])
async def test_bytes_come_out_as_they_went_in(piece: int) -> None:
    pair = Pair(piece)
    pair.shake()
    data = bytes(range(256)) * (2 if piece == 1 else 1_200)
    for _ in range(2):
        pair.client.write(data)
        pair.send(pair.to_server.read())
        assert bytes(pair.speaker.got) == data
        pair.speaker.got.clear()
        pair.speaker.transport.write(data)
        assert pair.said(len(data)) == data
    assert pair.secured.shaken.done()
    assert pair.chosen == [("h2", b"")]


async def test_without_alpn_the_first_bytes_choose() -> None:
    pair = Pair(alpn="")
    pair.shake()
    assert pair.chosen == []
    assert not pair.secured.shaken.done()
    pair.client.write(b"GET / HTTP/1.1")
    pair.send(pair.to_server.read())
    assert pair.chosen == [(None, b"GET / HTTP/1.1")]
    assert pair.speaker.got == b"GET / HTTP/1.1"
    assert pair.secured.shaken.done()


async def test_whom_nobody_speaks_with_is_cut_off() -> None:
    pair = Pair(speaks=False)
    pair.shake()
    assert pair.network.closed == "aborted"


async def test_an_end_is_told_to_the_client_once_all_is_sent() -> None:
    pair = Pair()
    pair.shake()
    pair.speaker.transport.write(b"last")
    pair.speaker.transport.close()
    pair.speaker.transport.write(b"too late")
    pair.speaker.transport.close()
    assert pair.network.closed == "closed"
    assert pair.said(4) == b"last"
    assert pair.client.read(1) == b""


async def test_a_client_that_says_it_ends_is_closed() -> None:
    pair = Pair()
    pair.shake()
    pair.client.write(b"bye")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.send(pair.to_server.read())
    assert (bytes(pair.speaker.got), pair.network.closed) == (b"bye", "closed")
    pair.hear()
    pair.client.unwrap()  # would raise if the server did not say so too
    pair.secured.connection_lost(None)
    assert pair.speaker.lost == 1


async def test_bytes_changed_on_the_way_reach_nobody_and_end_it() -> None:
    pair = Pair()
    pair.shake()
    pair.client.write(b"secret")
    record = bytearray(pair.to_server.read())
    record[-1] ^= 1
    pair.send(bytes(record))
    assert (bytes(pair.speaker.got), pair.network.closed) == (b"", "closed")
    pair.hear()
    with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
        pair.client.read(1)


async def test_a_handshake_that_fails_or_is_left_says_so() -> None:
    failed, left = Pair(), Pair()
    failed.send(b"\x16\3\1\0\5\1\0\0\1\0")
    with pytest.raises(ssl.SSLError):
        await failed.secured.shaken
    assert failed.network.sent[:1] == b"\x15"
    left.secured.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await left.secured.shaken
    assert failed.chosen == left.chosen == []
