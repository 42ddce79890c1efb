"""The HTTP port answers its five pages, on any free port, without touching signals."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pocketmq import native
from pocketmq.metrics.endpoint import ProbeAnswers, site_pages
from pocketmq.metrics.exposition import Exposition
from pocketmq.metrics.http_port import HttpPort
from pocketmq.metrics.site import Site
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.stats import Counter
from pocketmq.native.commit import commit


class Page:
    """One answer of the port under test."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        self.head = head.decode().lower()
        self.status = int(self.head.split(" ")[1])


class Port:
    """Asks a port for pages; `state` is what its store is in."""

    def __init__(self) -> None:
        self.state = "running"
        self.address = ""
        self.refreshed = 0

    async def refresh(self) -> None:
        """Counts what is awaited before a scrape."""
        self.refreshed += 1

    async def ask(self, path: str, *headers: str) -> Page:
        host, _, port = self.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        page = Page(await reader.read())
        writer.close()
        await writer.wait_closed()
        return page


@asynccontextmanager
async def serving(address: str = "127.0.0.1:0") -> AsyncIterator[Port]:
    port = Port()
    counter = Counter("pocketmq_things_total", "Things.")
    exposition = Exposition(lambda: [counter], cluster="c1", broker="b1")
    site = Site()
    health = ProbeAnswers(lambda: port.state)
    site.pages.update(site_pages(exposition, health, {"version": "0.1.0"}, port.refresh))
    server = HttpPort(site, address)
    port.address = server.address
    await server.start()
    try:
        yield port
    finally:
        await server.close()


async def test_metrics_are_shown_in_the_format_asked_for() -> None:
    async with serving() as port:
        plain = await port.ask("/metrics")
        open_metrics = await port.ask("/metrics", "Accept: application/openmetrics-text")
    assert plain.status == 200
    assert b"pocketmq_things_total 0.0\n" in plain.body
    assert "content-type: text/plain" in plain.head
    assert "content-type: application/openmetrics-text" in open_metrics.head
    assert open_metrics.body.endswith(b"# EOF\n")


async def test_numbers_are_brought_up_to_date_before_each_scrape() -> None:
    async with serving() as port:
        for _ in range(2):
            await port.ask("/metrics")
        await port.ask("/readyz")
    assert port.refreshed == 2


async def test_probes_follow_the_store() -> None:
    async with serving() as port:
        statuses = {}
        for port.state in ("recovering", "running", "failed"):
            pages = [await port.ask(path) for path in ("/livez", "/startupz", "/readyz")]
            statuses[port.state] = [page.status for page in pages]
        state = json.loads(pages[0].body)
    assert statuses == {
        "recovering": [200, 200, 503],
        "running": [200, 200, 200],
        "failed": [503, 503, 503],
    }
    assert state == {"state": "failed"}


async def test_the_version_names_python_and_the_form_of_the_modules_too() -> None:
    async with serving() as port:
        version = json.loads((await port.ask("/version")).body)
    assert version["version"] == "0.1.0"
    assert version["python"].startswith("3.")
    assert version["modules"] == native.form()
    assert version["commit"] == commit()


async def test_another_page_is_not_found() -> None:
    async with serving() as port:
        assert (await port.ask("/console")).status == 404


async def test_an_ipv6_address_is_shown_in_brackets() -> None:
    async with serving("[::1]:0") as port:
        assert port.address.startswith("[::1]:")
        assert (await port.ask("/livez")).status == 200


async def test_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serving():
        await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGTERM) is before


async def test_an_address_in_use_is_an_error_that_names_it() -> None:
    async with serving() as port:
        with pytest.raises(IllegalConfig, match=port.address):
            HttpPort(Site(), port.address)


@pytest.mark.parametrize(
    ("state", "is_alive", "is_ready"),
    [
        ("starting", True, False),
        ("recovering", True, False),
        ("running", True, True),
        ("read_only", True, True),
        ("draining", True, False),
        ("failed", False, False),
    ],
)
def test_a_state_decides_what_probes_are_told(state: str, is_alive: bool, is_ready: bool) -> None:
    health = ProbeAnswers(lambda: state)
    assert health.state == state
    assert health.is_alive is is_alive
    assert health.is_ready is is_ready


def test_recovery_tells_how_far_it_is() -> None:
    health = ProbeAnswers(lambda: "recovering", read_progress=lambda: 0.12345)
    assert health.report() == {"state": "recovering", "progress": 0.123}
    assert ProbeAnswers(lambda: "running", read_progress=lambda: 1.0).report() == {
        "state": "running"
    }
    held = ProbeAnswers(lambda: "running", read_held=lambda: "held by lease at offset 7")
    assert held.report() == {"state": "running", "retention": "held by lease at offset 7"}
