"""One port for everything: what comes is told apart by its first bytes, however they come."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any, cast

import grpc
import pytest
import uvloop
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from pocketmq.model.errors import IllegalConfig, Recovering
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.own import handshakes, listener, server
from pocketmq.rpc.own.listener import Listener, NewConnection, Transport
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.own.tls import Tls, tls_context
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Service, method
from pocketmq.rpc.transports import new_server
from pocketmq.rpc.v1.service_table import BROKER
from pocketmq.rpc.v1.status import refuse
from tests.kit.store_broker import connected, running
from tests.kit.store_language import until

FILES = Path(__file__).parents[2] / "kit" / "certificate"
CERT, KEY = str(FILES / "cert.pem"), str(FILES / "key.pem")
PEM = Path(CERT).read_bytes()
CLIENT_HELLO = b"\x16\3\1\0\5\1\0\0\1\0"
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


class Echo(asyncio.Protocol):
    """Speaks HTTP/1.1 so far as the tests need: it says who asks, and closes."""

    def __init__(self, peer: str) -> None:
        self.peer = peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(f"HTTP/1.1 200 OK\r\n\r\n{self.peer} {len(data)}".encode())
        self.transport.close()


class Port:
    """A server, its address, and the peers its handler was told of."""

    def __init__(self, address: str, peers: list[str]) -> None:
        self.address = address
        self.peers = peers

    async def said(self, *pieces: bytes, tls: ssl.SSLContext | None = None) -> bytes:
        """Returns what is answered to bytes until the connection ends."""
        host, _, port = self.address.rpartition(":")
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=tls, server_hostname=name
        )
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(20):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def begins(self, *pieces: bytes) -> bytes:
        """Returns the first bytes of the answer, and closes."""
        host, _, port = self.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            answer = await reader.read(9)
        writer.close()
        return answer


@asynccontextmanager
async def port(**transport: Any) -> AsyncIterator[Port]:
    peers: list[str] = []

    def answer(request: Any, call: Call) -> Any:
        peers.append(call.peer)
        return pb.QueryByIdResponse()

    row = method(BROKER, "QueryById", answer, CallClass.QUERY)
    service = Service("pocketmq.v1.Broker", (row,), refuse)
    server = new_server("own", [service], Transport(**{"http1": Echo, **transport}))
    assert isinstance(server, OwnServer)
    async with running(server) as address:
        yield Port(address, peers)


def trusting(*protocols: str) -> ssl.SSLContext:
    """Returns a client's context that trusts the tests' certificate."""
    context = ssl.create_default_context(cafile=CERT)
    if protocols:
        context.set_alpn_protocols([*protocols])
    return context


async def ask(channel: grpc.aio.Channel) -> bytes:
    raw = await channel.unary_unary("/pocketmq.v1.Broker/QueryById")(b"", timeout=20)
    assert isinstance(raw, bytes)
    return raw


# -- without TLS -----------------------------------------------------------------------------------


async def test_grpc_and_http_share_a_port() -> None:
    async with port() as served, connected(served.address) as channel:
        assert await ask(channel) == b""
        assert (await served.said(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert served.peers[0].startswith("ipv4:127.0.0.1:")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
async def test_a_preface_may_come_in_pieces(size: int) -> None:
    async with port() as served:
        answer = await served.begins(HTTP2[:size], HTTP2[size:])
        assert answer[3] == 4  # SETTINGS


@pytest.mark.parametrize("look", [1, 2])
async def test_the_rest_may_come_while_the_first_bytes_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """The classic client for Go writes the size of a request, four bytes, on its own."""
    looks = 0

    class Looked(socket.socket):
        def recv(self, size: int, flags: int = 0) -> bytes:
            nonlocal looks
            data = super().recv(size, flags)
            looks += 1
            if looks == look:
                client.sendall(HTTP2[2:])
            return data

    def begin(own: Listener, accepted: socket.socket, peer: str, address: str) -> NewConnection:
        looked = Looked(fileno=accepted.detach())
        looked.setblocking(False)
        return NewConnection(own, looked, peer, address)

    monkeypatch.setattr(listener, "NewConnection", begin)
    async with port() as served:
        host, _, number = served.address.rpartition(":")
        with socket.create_connection((host, int(number))) as client:
            client.sendall(HTTP2[:2])
            client.setblocking(False)
            async with asyncio.timeout(20):
                answer = await asyncio.get_running_loop().sock_recv(client, 9)
    assert answer[3] == 4  # SETTINGS


@pytest.mark.parametrize(
    "data", [b"\0\0", b"\x16\3\1\0\5", b"get / HTTP/1.1", b"NO / HTTP/1.1", b"\xff" * 40]
)
async def test_what_is_none_of_these_is_closed(data: bytes) -> None:
    async with port() as served:
        assert await served.said(data) == b""


HEADER = b'{"code":105,"language":"JAVA"}'
REMOTING = (4 + len(HEADER)).to_bytes(4, "big") + len(HEADER).to_bytes(4, "big") + HEADER


def strangers(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    """Returns the logged clients of other protocols: which one, and how many the log left out."""
    told = [vars(one) for one in caplog.records if one.getMessage() == "rpc.stranger"]
    assert all(one["peer"].startswith("ipv4:127.0.0.1:") for one in told)
    return [(one["protocol"], one["left_out"]) for one in told]


@pytest.mark.parametrize(
    ("data", "transport", "name"),
    [
        (REMOTING, {}, "RocketMQ remoting"),
        (CLIENT_HELLO, {}, "TLS (this port has no certificate)"),
        (b"PROPFIND / HTTP/1.1\r\n\r\n", {}, "HTTP/1.1"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", {}, "the PROXY protocol"),
        (HTTP2, {"proxy_protocol": True}, "HTTP/2 without TLS: the connection does not begin with"),
        (HTTP2, {"tls_only": True}, "HTTP/2 without TLS, which came without TLS"),
    ],
)
async def test_who_speaks_another_protocol_is_told_with_its_name(
    data: bytes, transport: dict[str, Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with port(**transport) as served:
        assert await served.said(data) == b""
        ((protocol, left_out),) = strangers(caplog)
        assert protocol.startswith(name)
        assert left_out == 0
        for _ in range(3):
            assert await served.said(data) == b""
        assert len(strangers(caplog)) == 1, "the others are counted"


async def test_who_speaks_a_protocol_of_the_port_is_no_stranger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with port() as served:
        assert (await served.said(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert (await served.begins(HTTP2[:5], HTTP2[5:]))[3] == 4
    assert not strangers(caplog)


async def test_without_pages_http_is_closed() -> None:
    async with port(http1=None) as served:
        assert await served.said(b"GET / HTTP/1.1\r\n\r\n") == b""


async def test_a_client_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.05)
    async with port() as served:
        assert await served.said() == b""
        assert await served.said(b"PR") == b""


async def test_a_client_that_says_no_more_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.3)
    looks: list[listener.NewConnection] = []
    look = listener.NewConnection.look

    def counted(start: listener.NewConnection) -> None:
        looks.append(start)
        look(start)

    monkeypatch.setattr(listener.NewConnection, "look", counted)
    async with port() as served:
        assert await served.said(b"P", b"R") == b""
    assert len(looks) <= 3


@pytest.mark.parametrize("header", [b"", b"PROXY UNKNOWN\r\n"])
@pytest.mark.parametrize("begin", [b"", b"PR"])
async def test_a_client_that_ends_before_it_says_what_it_is_is_closed_at_once(
    header: bytes, begin: bytes
) -> None:
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: wrong.append(what))
    async with port(proxy_protocol=bool(header)) as served:
        host, _, number = served.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(number))
        writer.write(header + begin)
        writer.write_eof()
        async with asyncio.timeout(listener.HANDSHAKE_S / 2):
            assert await reader.read() == b""
        writer.close()
    assert wrong == []


async def test_a_client_that_never_ends_its_preface_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "FIRST_LOOK_S", 0.05)
    async with port() as served:
        assert (await served.said(HTTP2[:20]))[3] == 4  # SETTINGS, then the end
        assert (await served.begins(HTTP2))[3] == 4


async def test_connections_beyond_the_limit_are_closed_as_they_come() -> None:
    async with port(connections_max=1) as served, connected(served.address) as channel:
        await ask(channel)
        assert await served.said(b"GET / HTTP/1.1\r\n\r\n") == b""
        await ask(channel)


async def test_a_server_that_stops_closes_what_has_said_nothing() -> None:
    async with port() as served:
        host, _, number = served.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(number))
        await served.said(b"GET / HTTP/1.1\r\n\r\n")  # comes behind it
    assert await reader.read() == b""
    writer.close()


# -- with TLS --------------------------------------------------------------------------------------


async def test_tls_carries_grpc_and_http_on_the_same_port() -> None:
    credentials = grpc.ssl_channel_credentials(PEM)
    async with port(tls=Tls(tls_context(CERT, KEY))) as served, connected(served.address) as plain:
        number = served.address.rpartition(":")[2]
        async with grpc.aio.secure_channel(f"localhost:{number}", credentials) as channel:
            assert await ask(channel) == b""
        assert await ask(plain) == b""
        for protocols in (["http/1.1"], []):
            said = await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=trusting(*protocols))
            assert said.startswith(b"HTTP/1.1 200")


async def test_tls_only_closes_what_comes_without() -> None:
    async with port(tls=Tls(tls_context(CERT, KEY)), tls_only=True) as served:
        assert await served.said(b"GET / HTTP/1.1\r\n\r\n") == b""
        assert await served.said(HTTP2) == b""
        said = await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=trusting())
        assert said.startswith(b"HTTP/1.1 200")


async def test_a_handshake_that_fails_or_does_not_end_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.05)
    monkeypatch.setattr(listener, "HANDSHAKES_MAX", 1)
    async with port(tls=Tls(tls_context(CERT, KEY))) as served:
        async with asyncio.TaskGroup() as tasks:
            begun = [tasks.create_task(served.said(b"\x16\3\1\2\0\1")) for _ in range(3)]
        assert [task.result() for task in begun] == [b""] * 3
        assert b"HTTP/1.1 200" in await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=trusting())


async def test_half_handshakes_keep_the_places_of_others_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_TIGHT_S", 0.2)
    monkeypatch.setattr(listener, "HANDSHAKES_MAX", 1)
    async with port(tls=Tls(tls_context(CERT, KEY))) as served, asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(served.said(b"\x16\3\1\2\0\1")) for _ in range(3)]
        async with asyncio.timeout(listener.HANDSHAKE_S - 1):
            said = await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=trusting())
            assert said.startswith(b"HTTP/1.1 200")
            assert [await task for task in begun] == [b""] * 3


async def test_a_handshake_that_is_begun_gets_the_place_of_one_that_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("HANDSHAKE_S", 60.0), ("HANDSHAKE_TIGHT_S", 60.0), ("HANDSHAKES_MAX", 2)):
        monkeypatch.setattr(listener, name, value)
    monkeypatch.setattr(handshakes, "SPARED_S", 0.0)
    async with port(tls=Tls(tls_context(CERT, KEY))) as served, asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(served.said(b"\x16\3\1\2\0\1")) for _ in range(4)]
        assert await begun[0] == b""
        async with asyncio.timeout(20):
            said = await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=trusting())
        assert said.startswith(b"HTTP/1.1 200")
        for task in begun:
            task.cancel()


async def test_one_address_leaves_connections_to_others() -> None:
    async with port(connections_max=16) as served:
        host, _, number = served.address.rpartition(":")
        kept, answers = [], []
        for _ in range(16):
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(HTTP2)
            kept.append(writer)
            with suppress(ConnectionError):
                answers.append(len(await reader.read(9)))
        assert answers.count(9) == 14
        reader, writer = await asyncio.open_connection(
            host, int(number), local_addr=("127.0.0.9", 0)
        )
        writer.write(HTTP2)
        assert len(await reader.readexactly(9)) == 9
        for one in [*kept, writer]:
            one.close()


@pytest.mark.parametrize(
    ("cert", "key", "named"),
    [
        ("/none.pem", KEY, "/none.pem"), (CERT, "/none.pem", "/none.pem"), (CERT, CERT, CERT),
        (CERT, str(FILES / "locked_key.pem"), "locked_key.pem"),
    ],
)  # fmt: skip
def test_files_that_are_no_certificate_are_told_by_name(cert: str, key: str, named: str) -> None:
    with pytest.raises(IllegalConfig, match=named.replace("/", ".")):
        tls_context(cert, key)


async def test_another_certificate_is_shown_from_now_on_and_a_wrong_one_never(
    tmp_path: Path,
) -> None:
    for name in ("cert.pem", "key.pem"):
        copyfile(FILES / name, tmp_path / name)
    files = (str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    tls = Tls()
    async with port(tls=tls) as served:
        assert await served.said(CLIENT_HELLO) == b""  # nothing to be shown yet
        tls.take(*files)
        for wrong in (b"nothing", b""):
            (tmp_path / "cert.pem").write_bytes(wrong)
            with pytest.raises(IllegalConfig):
                tls.take(*files)
            said = await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=trusting())
            assert said.startswith(b"HTTP/1.1 200")


async def test_a_client_without_alpn_is_known_by_its_first_bytes() -> None:
    async with port(tls=Tls(tls_context(CERT, KEY))) as served:
        host, _, number = served.address.rpartition(":")
        reader, writer = await asyncio.open_connection(
            host, int(number), ssl=trusting(), server_hostname="localhost"
        )
        writer.write(HTTP2)
        assert (await reader.readexactly(9))[3] == 4  # SETTINGS
        writer.close()


async def test_a_client_that_says_nothing_after_its_handshake_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.2)
    async with port(tls=Tls(tls_context(CERT, KEY)), connections_max=1) as served:
        host, _, number = served.address.rpartition(":")
        reader, writer = await asyncio.open_connection(
            host, int(number), ssl=trusting(), server_hostname="localhost"
        )
        assert await served.said(b"GET / HTTP/1.1\r\n\r\n") == b""  # it has the only place
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        assert b"HTTP/1.1 200" in await served.said(b"GET / HTTP/1.1\r\n\r\n")


async def test_a_handshake_that_cannot_be_is_answered_by_an_alert() -> None:
    async with port(tls=Tls(tls_context(CERT, KEY))) as served:
        for wrong in (CLIENT_HELLO, b"\x16\3\1\0\4GET "):
            assert (await served.said(wrong))[:1] == b"\x15"
        assert await served.said(b"\x16\xff" + bytes(400)) == b""  # no TLS at all


async def test_old_protocols_and_other_ciphers_end_in_an_alert() -> None:
    old = trusting("h2")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.set_ciphers("DHE-RSA-AES128-SHA")
    async with port(tls=Tls(tls_context(CERT, KEY))) as served:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            await served.said(b"GET / HTTP/1.1\r\n\r\n", tls=old)


# -- behind a load balancer ------------------------------------------------------------------------

TEXT = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"
BINARY = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24" + bytes(15) + b"\1" + bytes(16) + b"\x12\x34\0\x50"


@pytest.mark.parametrize(
    ("header", "peer"), [(TEXT, "ipv4:192.0.2.7:56324"), (BINARY, "ipv6:%5B::1%5D:4660")]
)
async def test_a_balancer_says_who_comes(header: bytes, peer: str) -> None:
    async with port(proxy_protocol=True, tls=Tls(tls_context(CERT, KEY))) as served:
        said = await served.said(header[:7], header[7:], b"GET / HTTP/1.1\r\n\r\n")
        assert said.endswith(f"{peer} 18".encode())
        assert (await served.begins(header + HTTP2))[3] == 4


async def test_behind_a_balancer_who_comes_without_it_is_closed() -> None:
    async with port(proxy_protocol=True) as served:
        assert await served.said(b"GET / HTTP/1.1\r\n\r\n") == b""
        assert await served.said(HTTP2) == b""
        assert await served.said(TEXT.replace(b"TCP4", b"UDP4") + HTTP2) == b""


async def test_a_header_that_is_not_wanted_is_no_protocol() -> None:
    async with port() as served:
        assert await served.said(TEXT) == b""
        assert await served.said(BINARY) == b""


# -- health over the same connections --------------------------------------------------------------


async def test_health_is_served_with_the_rest() -> None:
    async with port() as served, connected(served.address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString,
        )
        answer = await check(HealthCheckRequest(service="pocketmq.v1.Broker"), timeout=20)
        assert answer.status == HealthCheckResponse.NOT_SERVING


# -- on the other loop -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scenario",
    [
        test_grpc_and_http_share_a_port,
        test_tls_carries_grpc_and_http_on_the_same_port,
        test_a_server_that_stops_closes_what_has_said_nothing,
        test_connections_beyond_the_limit_are_closed_as_they_come,
        partial(test_a_balancer_says_who_comes, TEXT, "ipv4:192.0.2.7:56324"),
        partial(test_a_preface_may_come_in_pieces, 2),
    ],
)
def test_uvloop_does_the_same(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


# -- a restart -------------------------------------------------------------------------------------


def serving(answer: Callable[[Any, Call], Any]) -> OwnServer:
    """Returns a server whose only method sends."""
    row = method(BROKER, "QueryById", answer, CallClass.SEND)
    return OwnServer([Service("pocketmq.v1.Broker", (row,), refuse)])


async def test_nobody_hears_of_a_server_that_another_follows_on_the_same_socket() -> None:
    asked = asyncio.Event()
    answered: list[int] = []

    async def answer(request: Any, call: Call, number: int) -> Any:
        answered.append(number)
        asked.set()
        await asyncio.sleep(0)
        return pb.QueryByIdResponse()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        async with connected(address) as channel:

            async def keep_asking() -> None:
                while not (answered and answered[-1] == 3):
                    await ask(channel)

            clients = [asyncio.create_task(keep_asking()) for _ in range(8)]
            for number in (1, 2, 3):
                server = serving(partial(answer, number=number))
                server.add_socket(listening.dup())
                await server.start(hold_s=20)
                asked.clear()
                server.show_ready(writable=True)
                await asked.wait()
                if number < 3:
                    server.turn_away()
                    await server.quiet(20)
                    server.drain()
                    await server.stop(0)
            await asyncio.gather(*clients)  # none of them was refused
            server.drain()
            await server.stop(0)
    assert sorted(set(answered)) == [1, 2, 3]


def nothing(request: Any, call: Call) -> Any:
    return pb.QueryByIdResponse()


async def test_who_comes_before_the_store_is_open_waits_for_it() -> None:
    server = serving(nothing)
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0')}"
    await server.start(Recovering(), 20)
    async with connected(address) as channel:
        asking = asyncio.create_task(ask(channel))
        await until(lambda: server.count > 0)
        server.show_ready(writable=True)
        assert await asking == b""
    server.drain()
    await server.stop(0)


async def test_who_has_waited_for_long_is_told_that_the_store_recovers() -> None:
    server = serving(nothing)
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0')}"
    await server.start(Recovering(), 0.001)
    async with connected(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="recovering its store"):
            await ask(channel)
    server.drain()
    await server.stop(0)
