"""Every setting of the ports, turned."""

import asyncio
import os
import ssl
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from pocketmq.app.serve import CONNECTION_FILES
from pocketmq.client import Message
from pocketmq.config.addresses import split_address
from pocketmq.model.errors import IllegalConfig
from tests.running_broker import RunningBroker, broker_with

FILES = Path(__file__).parents[2] / "kit" / "certificate"
CERT, KEY = str(FILES / "cert.pem"), str(FILES / "key.pem")
PEM = Path(CERT).read_bytes()
TLS = (f"rpc.tls_cert={CERT}", f"rpc.tls_key={KEY}")
HELLO = [Message("orders", b"x")]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
GOAWAY = 7


async def answered(
    broker: RunningBroker, *pieces: bytes, tls: ssl.SSLContext | None = None
) -> bytes:
    """Returns what the port says to bytes, until it closes."""
    address = split_address(broker.addresses["grpc"])
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    for piece in pieces:
        writer.write(piece)
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def asked_by_tls(address: str) -> int:
    """Returns what health says to a client that trusts the certificate."""
    credentials = grpc.ssl_channel_credentials(PEM)
    name = f"localhost:{split_address(address)[1]}"
    async with grpc.aio.secure_channel(name, credentials) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString,
        )
        return int((await check(HealthCheckRequest(), timeout=20)).status)


@pytest.mark.knob("rpc.transport")
@pytest.mark.parametrize("transport", ["own", "grpcio"])
async def test_both_transports_serve_and_one_shares_its_port(
    tmp_path: Path, transport: str
) -> None:
    async with broker_with(tmp_path, f"rpc.transport={transport}") as broker:
        assert await broker.client.send_many(HELLO)
        assert "200" in (await broker.page("/livez")).split("\r\n")[0]
        is_shared = b"200 OK" in await answered(broker, LIVE)
        assert is_shared == (transport == "own")


@pytest.mark.knob("rpc.tls_cert", "rpc.tls_key")
async def test_with_a_certificate_tls_is_served_on_the_same_port(tmp_path: Path) -> None:
    async with broker_with(tmp_path, *TLS) as broker:
        assert broker.addresses["grpc_tls"] == broker.addresses["grpc"]
        serving = HealthCheckResponse.SERVING
        assert await asked_by_tls(broker.addresses["grpc_tls"]) == serving
        assert await broker.client.send_many(HELLO)


@pytest.mark.knob("rpc.tls")
async def test_without_being_asked_for_tls_is_there_and_can_be_turned_off(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a") as broker:
        assert broker.addresses["grpc_tls"] == broker.addresses["grpc"]
        anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
        assert b"200 OK" in await answered(broker, LIVE, tls=anything)
    async with broker_with(tmp_path / "b", "rpc.tls=false") as broker:
        assert broker.addresses["grpc_tls"] is None
        with pytest.raises(OSError, match=r".*"):
            await answered(broker, LIVE, tls=anything)


async def test_clients_of_ours_speak_tls_too(tmp_path: Path) -> None:
    async with broker_with(tmp_path, *TLS, "rpc.tls_only=true") as broker:
        endpoint = f"tls://localhost:{split_address(broker.addresses['grpc'])[1]}"
        program = (
            "import asyncio\n"
            "from pocketmq.client import AsyncClient, Client, Message\n"
            f"with Client({endpoint!r}) as client:\n"
            "    client.send_many([Message('orders', b'x')])\n"
            "async def main():\n"
            f"    async with AsyncClient({endpoint!r}) as client:\n"
            "        await client.send_many([Message('orders', b'y')])\n"
            "asyncio.run(main())\n"
        )
        for roots, is_trusted in ((CERT, True), ("", False)):
            environment = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": roots}
            done = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program), env=environment, stderr=asyncio.subprocess.PIPE
            )
            _, errors = await done.communicate()
            assert (done.returncode == 0) is is_trusted, errors.decode()


async def test_a_certificate_that_is_none_stops_the_start(tmp_path: Path) -> None:
    wrong = (f"rpc.tls_cert={KEY}", f"rpc.tls_key={KEY}")
    with pytest.raises(IllegalConfig, match=r"key\.pem"):
        async with broker_with(tmp_path, *wrong):
            pass


@pytest.mark.knob("rpc.tls_only")
async def test_without_tls_nobody_comes(tmp_path: Path) -> None:
    async with broker_with(tmp_path, *TLS, "rpc.tls_only=true") as broker:
        assert await asked_by_tls(broker.addresses["grpc_tls"]) == HealthCheckResponse.SERVING
        assert await answered(broker, PREFACE) == b""
        reader, writer = await asyncio.open_connection(
            *split_address(broker.addresses["grpc"]),
            ssl=ssl.create_default_context(cafile=CERT),
            server_hostname="localhost",
        )
        writer.write(LIVE)
        assert b"200 OK" in await reader.read()
        writer.close()


@pytest.mark.knob("rpc.proxy_protocol")
async def test_a_header_of_a_balancer_is_taken_where_it_is_wanted(tmp_path: Path) -> None:
    header = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"
    on = ("rpc.proxy_protocol=true", "access.check=off")
    async with broker_with(tmp_path / "a", *on) as broker:
        assert b"200 OK" in await answered(broker, header, LIVE)
        assert await answered(broker, LIVE) == b""
    async with broker_with(tmp_path / "b") as broker:
        assert b"200 OK" not in await answered(broker, header, LIVE)


@pytest.mark.knob("rpc.connections_max")
async def test_connections_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "rpc.connections_max=1") as broker:
        assert await broker.client.send_many(HELLO)
        assert await answered(broker, LIVE) == b""


async def test_connections_leave_the_store_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (60, 60))
    async with broker_with(tmp_path) as broker, AsyncExitStack() as open_ones:
        for _ in range(60 // CONNECTION_FILES):
            where = split_address(broker.addresses["grpc"])
            _, writer = await asyncio.open_connection(*where)
            open_ones.callback(writer.close)
        assert await answered(broker, LIVE) == b""


@pytest.mark.knob("rpc.connection_age_ms", "rpc.connection_idle_ms")
@pytest.mark.parametrize("name", ["age", "idle"])
async def test_a_connection_ends_when_it_is_old_or_idle(tmp_path: Path, name: str) -> None:
    given = f"rpc.connection_{name}_ms=50ms"
    async with broker_with(tmp_path, given) as broker:
        reader, writer = await asyncio.open_connection(*split_address(broker.addresses["grpc"]))
        writer.write(PREFACE)
        async with asyncio.timeout(20):
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == GOAWAY:
                    break
        writer.close()


async def test_without_a_port_of_its_own_http_is_where_grpc_is(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "http.listen=") as broker:
        assert broker.addresses["http"] == broker.addresses["grpc"]
        assert "200 OK" in await broker.page("/readyz")
        assert "pocketmq_build_info" in await broker.page("/metrics")
