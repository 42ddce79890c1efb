"""The certificate a broker makes itself: there at once, kept, and made again where it must be."""

import logging
import ssl
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from pocketmq.app.certificate import DAYS, Certificate, made, shown
from pocketmq.config.addresses import split_address
from pocketmq.config.load import load
from pocketmq.config.sections import Config
from pocketmq.files.disk import Disk
from pocketmq.model.errors import DiskFull, IllegalConfig
from pocketmq.rpc.own.tls import Tls, tls_context
from tests.running_broker import broker_with
from tests.sim.clock import FakeClock

FILES = Path(__file__).parents[1] / "kit" / "certificate"
GIVEN = (f"rpc.tls_cert={FILES / 'cert.pem'}", f"rpc.tls_key={FILES / 'key.pem'}")
DAY_MS = 86_400_000


class Shop:
    """A certificate of a store, as one start after the other finds it."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.clock = FakeClock()
        self.cert = store / "pocketmq" / "tls" / "certificate.pem"
        self.key = self.cert.with_name("key.pem")

    def start(self, *assignments: str, hosts: Sequence[str] = ("127.0.0.1",)) -> Certificate:
        """Returns what a start with such settings, that listens on these, shows."""
        config = self.config(*assignments)
        tls = Tls()
        certificate = Certificate(tls, self.store, Disk(), self.clock, hosts)
        certificate.show_what_is_there(config)
        certificate.make_sure(config)
        assert (tls.context is not None) is config.rpc.offers_tls
        return certificate

    def config(self, *assignments: str) -> Config:
        return load(assignments=[f"store.directory={self.store}", *assignments])

    @property
    def files(self) -> tuple[bytes, bytes]:
        return self.cert.read_bytes(), self.key.read_bytes()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def test_a_client_that_is_given_the_certificate_checks_it_and_comes(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store") as broker:
        address = broker.addresses["grpc_tls"]
        assert split_address(address)[0] == "127.0.0.1"
        pem = (tmp_path / "store" / "pocketmq" / "tls" / "certificate.pem").read_bytes()
        credentials = grpc.ssl_channel_credentials(pem)
        async with grpc.aio.secure_channel(address, credentials) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                HealthCheckRequest.SerializeToString,
                HealthCheckResponse.FromString,
            )
            answer = await check(HealthCheckRequest(), timeout=20)
        assert answer.status == HealthCheckResponse.SERVING


def test_it_is_for_this_machine_and_what_clients_are_told_and_holds_long(shop: Shop) -> None:
    hosts = ("192.0.2.8", "broker.example", "2001:db8::8%eth0", "0.0.0.0", "::")
    shop.start("broker.advertised_host=192.0.2.7", hosts=hosts)
    found = shown(shop.cert, shop.key)
    assert found.names >= {"localhost", "127.0.0.1", "::1", "192.0.2.7"}
    assert found.names >= {"192.0.2.8", "broker.example", "2001:db8::8"}
    assert found.names.isdisjoint({"0.0.0.0", "::"})
    years_s = DAYS * 86_400
    assert abs(found.until_s - shop.cert.stat().st_mtime - years_s) < 60
    assert stat.S_IMODE(shop.key.stat().st_mode) == 0o600
    assert b"PRIVATE" not in shop.cert.read_bytes()


def test_it_stays_from_start_to_start(shop: Shop) -> None:
    shop.start(hosts=["0.0.0.0"])
    before = shop.files
    shop.start(hosts=["127.0.0.1"])
    assert shop.files == before


def _other_key(shop: Shop) -> None:
    shop.key.write_bytes(made(["localhost"])[1])


@pytest.mark.parametrize(
    "spoil",
    [
        _other_key,
        lambda shop: shop.key.unlink(),
        lambda shop: shop.cert.write_bytes(b"-----BEGIN CERTIFICATE-----"),
        lambda shop: shop.clock.advance((DAYS - 29) * DAY_MS),
    ],
    ids=["another key", "no key", "torn", "runs out"],
)
def test_one_that_will_not_do_is_made_again(shop: Shop, spoil: Callable[[Shop], object]) -> None:
    shop.start()
    shop.clock.wall = int(shop.cert.stat().st_mtime * 1_000)
    spoil(shop)
    before = shop.cert.read_bytes()
    shop.start()
    assert shop.cert.read_bytes() != before
    assert shown(shop.cert, shop.key).names >= {"localhost"}


def test_an_address_that_clients_are_told_later_is_added(shop: Shop) -> None:
    shop.start()
    assert "192.0.2.7" not in shown(shop.cert, shop.key).names
    shop.start("broker.advertised_host=192.0.2.7")
    assert "192.0.2.7" in shown(shop.cert, shop.key).names


def test_one_trust_file_has_the_certificates_of_several_brokers(tmp_path: Path) -> None:
    pairs = [made(["localhost"]) for _ in range(3)]
    trusted = "".join(certificate.decode() for certificate, _ in pairs)
    for number, (certificate, key) in enumerate(pairs):
        cert_file, key_file = tmp_path / f"{number}.pem", tmp_path / f"{number}.key"
        cert_file.write_bytes(certificate)
        key_file.write_bytes(key)
        client = ssl.create_default_context(cadata=trusted)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        asks = client.wrap_bio(to_client, to_server, server_hostname="localhost")
        server = tls_context(str(cert_file), str(key_file))
        answers = server.wrap_bio(to_server, to_client, server_side=True)
        for end in (asks, answers, asks):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        found: Any = asks.getpeercert()
        (((_, name),),) = found["subject"]
        assert name.startswith("PocketMQ ")
        assert len(name) <= 64


def test_a_long_host_name_fits_into_the_subject(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "a" * 63 + ".example")
    shop.start()
    assert shown(shop.cert, shop.key).names >= {"localhost"}


@pytest.mark.parametrize("assignments", [GIVEN, ("rpc.tls=false",), ("rpc.transport=grpcio",)])
def test_none_is_made_where_one_was_given_or_none_is_wanted(
    shop: Shop, assignments: tuple[str, ...]
) -> None:
    shop.start(*assignments)
    assert not shop.cert.parent.exists()


def test_another_certificate_is_logged_when_it_is_read_again(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    config = shop.config(f"rpc.tls_cert={cert}", f"rpc.tls_key={key}")
    certificate = Certificate(Tls(), tmp_path, Disk(), shop.clock, ())
    for number in range(2):
        for path, content in zip((cert, key), made(["localhost"]), strict=True):
            path.write_bytes(content)
        if not number:
            certificate.show_what_is_there(config)
        for _ in range(2):
            certificate.read_again(config)
        found = [(one.message, vars(one)["path"]) for one in caplog.records]
        assert found == [("tls.reloaded", str(cert))] * number


def test_clients_are_told_names_of_the_certificate_in_use_though_its_file_has_changed(
    shop: Shop, tmp_path: Path
) -> None:
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    for path, content in zip((cert, key), made(["mq.example.com"]), strict=True):
        path.write_bytes(content)
    config = shop.config(f"rpc.tls_cert={cert}", f"rpc.tls_key={key}")
    certificate = Certificate(Tls(), tmp_path, Disk(), shop.clock, ())
    certificate.show_what_is_there(config)
    content = cert.read_bytes()
    assert certificate.in_use("127.0.0.1") == (content, "mq.example.com")
    cert.write_bytes(b"half of another")
    assert certificate.in_use("127.0.0.1") == (content, "mq.example.com")


def test_files_that_become_wrong_are_told_and_those_before_are_shown_still(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    cert.write_bytes((FILES / "cert.pem").read_bytes())
    key.write_bytes((FILES / "key.pem").read_bytes())
    config = shop.config(f"rpc.tls_cert={cert}", f"rpc.tls_key={key}")
    tls = Tls()
    certificate = Certificate(tls, tmp_path, Disk(), shop.clock, ())
    certificate.show_what_is_there(config)
    context = tls.context
    cert.write_bytes(key.read_bytes())
    certificate.read_again(config)
    assert [record.getMessage() for record in caplog.records] == ["tls.refused"]
    assert tls.context is context


def test_without_openssl_the_broker_says_so_and_serves_without_tls(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    tls = Tls()
    certificate = Certificate(tls, shop.store, Disk(), shop.clock, ())
    with caplog.at_level(logging.WARNING):
        certificate.make_sure(shop.config())
    (told,) = caplog.records
    assert told.getMessage() == "tls.certificate_failed"
    assert "install openssl" in vars(told)["reason"]
    assert tls.context is None
    with pytest.raises(IllegalConfig, match="--tls-cert"):
        certificate.make_sure(shop.config("rpc.tls_only=true"))


def test_a_reload_that_cannot_make_one_keeps_the_one_in_use(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = shop.config("rpc.tls_only=true")
    tls = Tls()
    certificate = Certificate(tls, shop.store, Disk(), shop.clock, ())
    certificate.make_sure(config)
    context = tls.context
    assert context is not None
    shop.cert.unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    certificate.read_again(config)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == [
        "tls.refused"
    ]
    assert tls.context is context


def test_a_full_disk_only_prevents_tls(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    class FullDisk(Disk):
        def make_directory(self, directory: Path) -> None:
            raise DiskFull(path=str(directory))

    certificate = Certificate(Tls(), shop.store, FullDisk(), shop.clock, ())
    certificate.make_sure(shop.config())
    assert [one.getMessage() for one in caplog.records] == ["tls.certificate_failed"]
    with pytest.raises(DiskFull):
        certificate.make_sure(shop.config("rpc.tls_only=true"))


def test_openssl_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "openssl"
    program.write_text("#!/bin/sh\necho no entropy >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(IllegalConfig, match="no entropy"):
        made(["localhost"])
    program.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(IllegalConfig, match="did not print a key"):
        made(["localhost"])
