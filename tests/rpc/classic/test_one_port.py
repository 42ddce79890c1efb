"""Classic clients reach the port of all protocols: in clear, over TLS, and behind a balancer."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.rpc.own.listener import Transport
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.own.tls import Tls, tls_context
from pocketmq.wire.remoting import Command, CommandReader, encode
from tests.kit.store_broker import StoreBroker, connected, running

FILES: Final = Path(__file__).parents[2] / "kit" / "certificate"
CERT: Final = str(FILES / "cert.pem")
QUERY: Final = encode(Command(105, {"topic": "orders"}, opaque=4))


@asynccontextmanager
async def port(broker: StoreBroker, **transport: Any) -> AsyncIterator[str]:
    """Serves a broker on a free port, and yields its address."""
    tls = Tls(tls_context(CERT, str(FILES / "key.pem")))
    settings = Transport(**{"classic": True, "tls": tls, **transport})
    server = OwnServer([*broker.services(), broker.classic.service()], transport=settings)
    async with running(server) as address:
        yield address


async def answer_to(address: str, *pieces: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Returns the first reply to bytes, b"" if the connection ends."""
    host, _, number = address.rpartition(":")
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection(host, int(number), ssl=tls, server_hostname=name)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            head = await reader.read(4)
            return head + await reader.readexactly(int.from_bytes(head)) if head else b""
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def reached(raw: bytes) -> str:
    """Returns the address in the route that a reply has."""
    (reply,) = CommandReader(lambda code: 0).receive(raw)
    assert isinstance(reply, Command)
    assert (reply.code, reply.opaque) == (0, 4)
    found: str = json.loads(reply.body)["brokerDatas"][0]["brokerAddrs"]["0"]
    return found


@pytest.mark.parametrize("size", [1, 4, 8, 9, 40])
async def test_a_frame_in_pieces_is_answered_with_the_address_it_came_to(
    broker: StoreBroker, size: int
) -> None:
    async with port(broker) as address:
        assert reached(await answer_to(address, QUERY[:size], QUERY[size:])) == address


async def test_grpc_is_served_beside_it(broker: StoreBroker) -> None:
    async with port(broker) as address, connected(address) as channel:
        assert reached(await answer_to(address, QUERY)) == address
        await channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20)


async def test_no_request_code_is_a_method_of_grpc(broker: StoreBroker) -> None:
    server = OwnServer([*broker.services(), broker.classic.service()])
    methods = server._serving.methods
    assert not [path for path in methods if "remoting" in path]
    assert 310 in server._serving.requests
    await server.stop(0)


async def test_over_tls_it_is_recognized_without_alpn(broker: StoreBroker) -> None:
    async with port(broker, tls_only=True) as address:
        context = ssl.create_default_context(cafile=CERT)
        assert reached(await answer_to(address, QUERY, tls=context)) == address
        assert await answer_to(address, QUERY) == b""


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 9876\r\n",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x67\x26\x94",
    ],
)
async def test_behind_a_balancer_its_clients_get_the_balancers_address(
    broker: StoreBroker, header: bytes
) -> None:
    async with port(broker, proxy_protocol=True) as address:
        assert reached(await answer_to(address, header + QUERY)) == "198.51.100.1:9876"
        context = ssl.create_default_context(cafile=CERT)
        assert context is not None
        assert await answer_to(address, QUERY) == b""


@pytest.mark.parametrize(
    "data", [b"\0\0\0\x14\0\0\0\1{ab", b"\0" * 9, b"\0\0\1\0\2\0\0\5{", b"\1\0\0\x30\0\0\0\5{"]
)
async def test_what_is_no_frame_is_closed(broker: StoreBroker, data: bytes) -> None:
    async with port(broker) as address:
        assert await answer_to(address, data) == b""


async def test_switched_off_it_is_closed_and_logged_by_name(
    broker: StoreBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with port(broker, classic=False) as address:
        assert await answer_to(address, QUERY) == b""
    (record,) = [one for one in caplog.records if one.msg == "rpc.stranger"]
    assert "rpc.classic is off" in record.protocol  # type: ignore[attr-defined]


async def test_a_stop_closes_idle_clients_and_answers_what_is_in_progress(
    broker: StoreBroker,
) -> None:
    server = OwnServer([broker.classic.service()], transport=Transport(classic=True))
    number = server.add_port("127.0.0.1:0")
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    writer.write(QUERY)
    size = int.from_bytes(await reader.readexactly(4))
    await reader.readexactly(size)
    server.turn_away()
    async with asyncio.timeout(20):
        await server.quiet(20)
        assert await reader.read() == b""
        server.drain()
        await server.stop(20)
    writer.close()
