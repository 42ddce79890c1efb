"""Every setting of access, turned."""

import asyncio
import re
from base64 import b64encode
from pathlib import Path

import grpc
import pytest

from pocketmq.format.signature import date_from_ms, page_token_of
from pocketmq.model.access import User
from pocketmq.model.errors import IllegalConfig, TableUnreadable
from pocketmq.rpc.pb import admin_pb2
from pocketmq.tools.users import changed_roster, read_roster
from tests.kit.users import SECRET, signed
from tests.running_broker import RunningBroker, broker_with, page

ON = "access.check=on"
STATUS = "/pocketmq.v1.Admin/StoreStatus"
EVERYWHERE = "rpc.listen=0.0.0.0:0"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that does not exist yet, with an admin and a user without permissions."""
    with changed_roster(tmp_path) as roster:
        roster.add(User("admin", SECRET, is_admin=True))
        roster.add(User("app", SECRET))
    return tmp_path


async def told(broker: RunningBroker, metadata: dict[str, str] | None = None) -> str:
    """Returns what a call gets: OK, or the name of its status and the text."""
    port = broker.addresses["grpc"].rpartition(":")[2]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = channel.unary_unary(STATUS)
        try:
            await ask(
                admin_pb2.StoreStatusRequest().SerializeToString(),
                metadata=tuple((metadata or {}).items()),
            )
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
    return "OK"


def now_signed(user: str = "admin", secret: str = SECRET, ago_s: int = 0) -> dict[str, str]:
    """Returns the metadata of a call that is signed now, or was some time ago."""
    import time

    return signed(user, secret, date_from_ms(int((time.time() - ago_s) * 1000)))


@pytest.mark.knob("access.check")
@pytest.mark.parametrize("transport", ["own", "grpcio"])
async def test_where_it_is_on_calls_are_signed(store: Path, transport: str) -> None:
    async with broker_with(store, ON, f"rpc.transport={transport}") as broker:
        assert await told(broker, now_signed()) == "OK"
        assert (await told(broker)).startswith("UNAUTHENTICATED: the call has no signature")
        wrong = await told(broker, now_signed(secret="guess"))
        assert wrong.startswith("UNAUTHENTICATED: the access key or the signature is wrong")
        denied = await told(broker, now_signed("app"))
        assert denied.startswith("PERMISSION_DENIED: user app may not get")
        assert "pocketmq acl grant app get 'cluster:DefaultCluster'" in denied


async def test_on_loopback_nobody_is_asked_unless_it_is_on(store: Path) -> None:
    async with broker_with(store) as broker:
        assert await told(broker) == "OK"


async def test_a_port_that_others_reach_asks_and_says_no_to_who_is_none(store: Path) -> None:
    async with broker_with(store, EVERYWHERE) as broker:
        assert (await told(broker)).startswith("UNAUTHENTICATED")
        assert await told(broker, now_signed()) == "OK"
    async with broker_with(store, EVERYWHERE, "access.check=off") as broker:
        assert await told(broker) == "OK"


async def test_by_users_it_is_on_once_there_are_some(store: Path, tmp_path: Path) -> None:
    for_users = (EVERYWHERE, "access.check=users")
    async with broker_with(store, *for_users) as broker:
        assert (await told(broker)).startswith("UNAUTHENTICATED")
    async with broker_with(tmp_path / "other", *for_users) as broker:
        assert await told(broker) == "OK"


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        (EVERYWHERE, r"setting rpc.listen: 0.0.0.0:\d+ is reached from other machines"),
        ("http.listen=[::]:0", r"setting http.listen: \[::\]:\d+ is reached from other machines"),
        (
            "rpc.proxy_protocol=true",
            r"setting rpc.listen: 127.0.0.1:\d+ is reached through a proxy, as rpc.proxy_protocol",
        ),
        (
            "broker.advertised_host=192.0.2.7",
            r"setting rpc.listen: 127.0.0.1:\d+ is reached .*, as broker.advertised.*192.0.2.7",
        ),
        (ON, "setting access.check: calls have to be signed"),
    ],
)
async def test_without_users_it_does_not_start_and_says_both_ways_out(
    tmp_path: Path, assignment: str, text: str
) -> None:
    with pytest.raises(IllegalConfig) as caught:
        async with broker_with(tmp_path, assignment):
            pass
    assert re.match(text, str(caught.value))
    assert f"pocketmq user add admin --admin --store {tmp_path}" in str(caught.value)
    assert "--insecure" in str(caught.value)
    assert not (tmp_path / "pocketmq").exists()


async def test_users_that_cannot_be_read_are_no_open_door(tmp_path: Path) -> None:
    (tmp_path / "pocketmq").mkdir()
    (tmp_path / "pocketmq" / "access.json").write_text("{")
    with pytest.raises(TableUnreadable):
        async with broker_with(tmp_path, ON):
            pass


@pytest.mark.knob("access.date_window_ms")
async def test_an_old_signature_is_refused_in_the_window_s_words(store: Path) -> None:
    async with broker_with(store, ON, "access.date_window_ms=5m") as broker:
        assert await told(broker, now_signed(ago_s=100)) == "OK"
        text = await told(broker, now_signed(ago_s=400))
        assert "s from the broker's clock, and access.date_window_ms is 300 s" in text
    async with broker_with(store, ON) as broker:
        assert await told(broker, now_signed(ago_s=14 * 3600)) == "OK"
        assert (await told(broker, now_signed(ago_s=16 * 3600))).startswith("UNAUTHENTICATED")
    async with broker_with(store, ON, "access.date_window_ms=0ms") as broker:
        assert await told(broker, now_signed(ago_s=10**6)) == "OK"


@pytest.mark.knob("access.admin_secret_path")
async def test_a_new_store_begins_with_the_admin_of_a_file(tmp_path: Path) -> None:
    file, store = tmp_path / "secret", tmp_path / "store"
    file.write_text(f"{SECRET}\n")
    given = (ON, f"access.admin_secret_path={file}")
    async with broker_with(store, *given) as broker:
        assert await told(broker, now_signed()) == "OK"
    assert read_roster(store).users == {"admin": User("admin", SECRET, is_admin=True)}
    file.write_text("another")
    async with broker_with(store, *given) as broker:
        assert await told(broker, now_signed()) == "OK"
        assert await told(broker, now_signed(secret="another")) != "OK"


async def test_a_secret_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(IllegalConfig, match=r"admin_secret_path \(--set\): .*cannot be read"):
        async with broker_with(tmp_path, ON, f"access.admin_secret_path={tmp_path}/none"):
            pass


async def test_pages_are_for_users_and_probes_for_all(store: Path) -> None:
    def basic(user: str, secret: str) -> str:
        return "Basic " + b64encode(f"{user}:{secret}".encode()).decode()

    async with broker_with(store, ON, "http.listen=127.0.0.1:0") as broker:
        for address in (broker.addresses["http"], broker.addresses["grpc"]):
            for path in ("/livez", "/readyz", "/startupz"):
                assert " 200 " in await page(address, path)
            for path in ("/metrics", "/version"):
                refused = (await page(address, path)).lower()
                assert " 401 " in refused
                assert 'www-authenticate: basic realm="pocketmq", bearer' in refused
                for wrong in (basic("admin", "x"), basic("app", SECRET), "Basic !", "Bearer x"):
                    assert " 401 " in await read_page(address, path, wrong)
                assert " 200 " in await read_page(address, path, basic("admin", SECRET))
                token = page_token_of("admin", SECRET)
                assert " 200 " in await read_page(address, path, f"Bearer {token}")
        metrics = await read_page(broker.addresses["http"], "/metrics", basic("admin", SECRET))
        assert 'pocketmq_access_refused_total{reason="forbidden"' in metrics


async def read_page(address: str, path: str, authorization: str) -> str:
    """Returns an answer to a GET of who says who it is."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    writer.write(f"{head}Authorization: {authorization}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize(
    ("assignments", "is_told"),
    [((ON,), True), ((ON, "rpc.tls_only=true"), False), ((), False)],
)
async def test_a_start_that_asks_without_tls_alone_warns(
    store: Path, caplog: pytest.LogCaptureFixture, assignments: tuple[str, ...], is_told: bool
) -> None:
    async with broker_with(store, *assignments) as broker:
        grpc_address = broker.addresses["grpc"]
    told = [vars(one)["ports"] for one in caplog.records if one.getMessage() == "access.in_clear"]
    assert told == ([grpc_address] if is_told else [])


async def test_a_port_of_pages_that_others_reach_has_no_tls(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = ("rpc.tls_only=true", "http.listen=0.0.0.0:0")
    async with broker_with(store, *given) as broker:
        http_address = broker.addresses["http"]
    told = [vars(one)["ports"] for one in caplog.records if one.getMessage() == "access.in_clear"]
    assert told == [http_address]


@pytest.mark.parametrize(("address", "is_warned"), [("127.0.0.1:0", False), ("0.0.0.0:0", True)])
async def test_a_broker_without_checks_warns_only_if_other_machines_reach_it(
    store: Path, caplog: pytest.LogCaptureFixture, address: str, is_warned: bool
) -> None:
    caplog.set_level("INFO")
    async with broker_with(store, "access.check=off", f"http.listen={address}"):
        pass
    told = [one.getMessage() for one in caplog.records if one.getMessage().startswith("access.")]
    assert told == ["access.open" if is_warned else "access.local"]
