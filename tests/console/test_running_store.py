"""Store of a running broker: its files, the map of its log, and commands for copies."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.client import Message
from pocketmq.console.application import application
from pocketmq.console.pages.running_store import log_files
from pocketmq.console.server import Served
from pocketmq.console.server import console_of as made
from pocketmq.model.administration import MapPart, StoreMap
from tests.console.test_pages import dispatched
from tests.kit.browser import BrowserVisit, console_of
from tests.running_broker import RunningBroker, broker_with

OWN = (
    "broker.auto_create_topics=true", "rpc.tls=false", "limits.max_message_size_bytes=1MiB",
    "store.commit_log_file_size_bytes=4MiB",
)  # fmt: skip


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    """A broker with small files."""
    async with broker_with(tmp_path / "store", *OWN) as running:
        yield running


@pytest.fixture
async def visitor(broker: RunningBroker) -> AsyncIterator[BrowserVisit]:
    """A visitor of its console."""
    async with console_of(broker.addresses["grpc"], patience_s=30.0) as visit:
        yield visit


async def test_an_empty_log_has_no_map(visitor: BrowserVisit) -> None:
    page = await visitor.get("/store")
    assert "The log is empty." in page.text
    assert 'class="map"' not in page.html


async def test_a_map_has_a_colour_for_each_topic_and_a_row_for_each_file(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for topic in ("orders", "orders", "orders", "orders", "audit"):
        await broker.send(Message(topic, bytes(1_000_000)))
    await dispatched(broker.client)
    page = await visitor.get("/store")
    assert 'class="t0"' in page.html
    assert 'class="t1"' in page.html
    assert "orders ~4.0 MB" in page.text
    assert "audit ~1.0 MB" in page.text
    assert page.text.index("00000000000004194304") < page.text.index("00000000000000000000")
    assert 'class="edge"' in page.html
    status = await broker.client.admin.store_status()
    assert f"pocketmq store backup {status.directory} COPY" in page.text
    part = await visitor.get("/store/map", **{"hx-request": "true"})
    assert "<html" not in part.html
    assert "orders ~4.0 MB" in part.text


async def test_an_admin_copies_the_store_to_the_directory_of_the_setting(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await broker.send(Message("orders", b"a"))
    copy = tmp_path / "copy"
    served = Served(broker.addresses["grpc"], backup_path=str(copy), patience_s=30.0)
    console = made(served)
    visitor = BrowserVisit(application(console))
    assert console.copy is not None
    page = await visitor.get("/store")
    assert f"Copy now to {copy}" in page.text
    assert f"pocketmq store backup {tmp_path / 'store'} {copy}" in page.text
    assert (await visitor.post("/store/copy")).place == "/store"
    assert console.copy.is_running
    assert "Copying to" in (await visitor.get("/store/copy/live")).text
    await console.copy.wait()
    assert "the log up to byte" in (await visitor.get("/store")).text
    assert json.loads((copy / "backup.json").read_text())["upto"] > 0
    (copy / "backup.json").unlink()
    (copy / "other").write_text("x")
    await visitor.post("/store/copy")
    await console.copy.wait()
    assert "The copy failed" in (await visitor.get("/store")).text
    for source in console.visitors.sources:
        await source.close()


async def test_without_the_setting_no_copy_is_made(visitor: BrowserVisit) -> None:
    page = await visitor.get("/store")
    assert "Copy now" not in page.text
    refused = await visitor.post("/store/copy")
    assert refused.status == 403
    assert "only an admin copies the store" in refused.text


def test_files_that_share_a_part_have_its_time() -> None:
    parts = [MapPart(100, 300, 0, 7), MapPart(300, 350, 0, 9)]
    found = StoreMap(parts, [], 100, 3, 0, 0, 0, 0, 0, 0, 0)
    rows = [(one.begin, one.end, one.stored_ms) for one in log_files(found)]
    assert rows == [(100, 200, 7), (200, 300, 7), (300, 350, 9)]
