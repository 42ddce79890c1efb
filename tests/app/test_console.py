"""The console reaches a broker that serves TLS alone, also with a certificate of an authority."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from pocketmq.app.console import ConsoleProcess, Trusted
from tests.running_broker import broker_with

NAMES = {"one name": "mq.example", "every name": "*.mq.example", "this machine": "localhost"}


def openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


def signed_for(directory: Path, name: str) -> tuple[str, str]:
    """Makes a certificate that an authority signed for a name alone; returns it and its key."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(directory, "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=an authority", "-days", "5")  # fmt: skip
    openssl(directory, "req", *curve, "-keyout", "key.pem", "-out", "asked.pem",
            "-subj", "/CN=of the operator", "-addext", f"subjectAltName=DNS:{name}")  # fmt: skip
    openssl(directory, "x509", "-req", "-in", "asked.pem", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-copy_extensions", "copy", "-out", "cert.pem",
            "-days", "5")  # fmt: skip
    return str(directory / "cert.pem"), str(directory / "key.pem")


async def page(url: str) -> str:
    host, _, port = url.removeprefix("http://").strip("/").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_certificate_of_the_operator_serves_the_console_too(
    tmp_path: Path, name: str
) -> None:
    cert, key = signed_for(tmp_path, name)
    given = ("rpc.tls_only=true", f"rpc.tls_cert={cert}", f"rpc.tls_key={key}")
    async with broker_with(tmp_path / "store", *given, "http.listen=127.0.0.1:0") as broker:
        shown = await page(broker.addresses["console"])
    assert shown.startswith("HTTP/1.1 200"), shown
    assert "Overview" in shown
    assert "is not trusted" not in shown


async def test_another_certificate_makes_another_process_that_trusts_it(tmp_path: Path) -> None:
    shown = [Trusted(b"first", "a")]
    made = ConsoleProcess("tls://127.0.0.1:1", "", lambda: shown[0])
    try:
        first = Path(await made.path())
        assert first == Path(await made.path())
        assert (first.parent / "roots.pem").read_bytes() == b"first"
        shown[0] = Trusted(b"second", "a")
        second = Path(await made.path())
        assert second != first

        assert (second.parent / "roots.pem").read_bytes() == b"second"
    finally:
        await made.close()
