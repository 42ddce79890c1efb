"""Each page of the console in Chromium, light, dark and narrow: accessible, and within its width.

    POCKETMQ_WRITE_SHOTS=1 pytest tests/e2e/test_console_looks.py

also writes a picture of each into docs/howto/images/console, and those of the first use.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, expect

from pocketmq.client import AsyncClient, GroupSettings, Message, ReceiveQuery
from pocketmq.console.application import application
from tests.golden_stores import GoldenStores
from tests.kit.axe import axe_missing, grave_faults
from tests.kit.browser import application_of, console_for
from tests.kit.chromium import CHROMIUM, chromium, listening, watched
from tests.kit.console_scene import EXPLAIN, PAGES, damaged, fill
from tests.running_broker import broker_with

SHOTS: Final = Path(__file__).parents[2] / "docs" / "howto" / "images" / "console"
WIDE: Final[ViewportSize] = {"width": 1_180, "height": 760}
NARROW: Final[ViewportSize] = {"width": 390, "height": 760}
COLOURS: Final = ("color-contrast", "link-in-text-block")
"""Rules of axe-core that depend on colours; the elements of a page are the same in the dark."""
DIFFERENT: Final = ("overview", "message", "store")
"""Pages of which also the narrow form is checked for accessibility."""
QUALITIES: Final = (62, 45, 30)
SIZE_MAX: Final = 60_000
"""Bytes of a picture; a picture above it gets the next quality."""
LIVELY_S: Final = 40
WANTED: Final = bool(os.environ.get("POCKETMQ_WRITE_SHOTS"))
INVISIBLE_MS: Final = 1_000
WAIT_MS: Final = 5_000
SETTINGS: Final = ("broker.auto_create_topics=true", "rpc.tls=false")

if WANTED:
    SHOTS.mkdir(parents=True, exist_ok=True)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing"),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture(scope="module", autouse=True)
def _axe() -> None:
    """Fetches axe-core."""
    if why := axe_missing():
        pytest.skip(why)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A Chromium for all tests."""
    async with chromium() as one:
        yield one


@asynccontextmanager
async def opened(browser: Browser, address: str) -> AsyncIterator[Page]:
    """Opens a tab."""
    async with watched(browser, address, reduced_motion="reduce", viewport=WIDE) as page:
        yield page


async def take_picture(page: Page, target: Path) -> None:
    """Writes a picture of the visible part of a page."""
    session = await page.context.new_cdp_session(page)
    content = b""
    for quality in QUALITIES:
        shot = await session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        content = base64.b64decode(shot["data"])
        if len(content) <= SIZE_MAX:
            break
    await asyncio.to_thread(target.write_bytes, content)


async def be_lively(client: AsyncClient, page: Page) -> None:
    """Sends and consumes at changing rates while the overview is open, so that it has a plot."""
    await page.goto("/")
    query = ReceiveQuery("ledger", "payments", max_messages=32, begin="min", wait_ms=100)
    for second in range(LIVELY_S * 4):
        count = 6 + 5 * (second // 24 % 3) + second % 4
        await client.send_many([Message("payments", b"{}")] * count)
        got = await client.receive(query)
        await client.ack("ledger", "payments", [one.receipt_handle for one in got])
        await page.wait_for_timeout(200)


async def faults_of(page: Page, name: str) -> list[str]:
    """Returns the faults of an open page, light, dark and narrow; takes pictures if wanted."""
    if name == "tail":
        await page.locator("#tail tbody tr").first.wait_for()
    found = await _seen(page, name, "light")
    await page.emulate_media(color_scheme="dark")
    found += await _seen(page, name, "dark", *COLOURS)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(NARROW)
    found += await _seen(page, name, "narrow")
    await page.set_viewport_size(WIDE)
    return found


async def _seen(page: Page, name: str, look: str, *rules: str) -> list[str]:
    if WANTED and (name, look) == ("overview", "light"):
        await page.screenshot(path=SHOTS.with_suffix(".png"))
    if WANTED and name not in ("store-topic", "faint"):
        await take_picture(page, SHOTS / f"{name}-{look}.webp")
    beyond = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    wide = [f"{beyond} px beyond the width"] if beyond > 0 else []
    is_known = look == "narrow" and name not in DIFFERENT  # It has the elements of light.
    grave = [] if is_known else await grave_faults(page, *rules)
    return [f"{name} {look}: {fault}" for fault in [*wide, *grave]]


async def test_pages_of_a_broker_are_accessible(browser: Browser, tmp_path: Path) -> None:
    async with (
        broker_with(Path(mkdtemp()) if WANTED else tmp_path / "store", *SETTINGS) as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
        opened(browser, address) as page,
    ):
        place = await fill(broker.client)
        if WANTED:
            await be_lively(broker.client, page)
        faults = []
        for name, path in PAGES.items():
            await page.goto(path.format(at=place, explain=EXPLAIN))
            faults += await faults_of(page, name)
        assert faults == []


async def test_pages_of_a_directory_are_accessible(
    browser: Browser, golden: GoldenStores, tmp_path: Path
) -> None:
    console = console_for(damaged(golden, tmp_path / "hurt"))
    async with (
        listening(application(console)) as address,
        opened(browser, address) as page,
    ):
        await page.goto(f"/enter?token={console.entrance}")
        await page.get_by_role("button", name="Verify").click()
        await page.locator(".verdict").wait_for()
        faults = await faults_of(page, "store")
        await page.goto("/topic?name=orders")
        faults += await faults_of(page, "store-topic")
        assert faults == []


async def test_the_first_use_is_as_the_page_of_the_console_tells(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        broker_with(Path(mkdtemp()) if WANTED else tmp_path / "store", *SETTINGS) as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
        opened(browser, address) as page,
    ):

        async def step(name: str, text: str) -> None:
            await expect(page.locator("main")).to_contain_text(text)
            await expect(page.get_by_role("navigation")).to_contain_text("Store")
            if WANTED:
                await take_picture(page, SHOTS / f"first-{name}.webp")

        await page.goto("/")
        await step("1-open", "Send a first message")
        await page.get_by_role("button", name="Send", exact=True).click()
        await step("2-sent", "Stored in queue")
        await broker.dispatched()
        await page.goto("/messages?topic=orders&by=time")
        await step("3-found", "hello")
        await broker.client.admin.create_group("billing", GroupSettings(max_attempts=1))
        query = ReceiveQuery(
            "billing", "orders", begin="min", wait_ms=WAIT_MS, invisible_ms=INVISIBLE_MS
        )
        assert len(await broker.client.receive(query)) == 1
        while not (await broker.client.admin.list_dead_letters("billing")).items[0].waiting_count:
            await page.wait_for_timeout(INVISIBLE_MS / 10)
        await page.goto("/")
        await step("4-dead", "1 message of billing could not be consumed.")
        await page.get_by_role("link", name="Look").click()
        await page.get_by_role("link", name="billing").click()
        await step("5-letters", "Plan a redrive")
        await page.get_by_role("button", name="Plan a redrive").click()
        await page.get_by_label("Type billing to confirm").fill("billing")
        await step("6-plan", "1 dead letter of billing")
        await page.get_by_role("button", name="Redrive").click()
        await step("7-redriven", "Sent 1 dead letter again")


async def test_faults_of_colours_are_seen_in_the_dark(browser: Browser) -> None:
    faint = (
        "<style>p { color: #000 } @media (prefers-color-scheme: dark) { p { color: #ddd } }</style>"
        "<p>Faint in the dark.</p>"
    )
    async with opened(browser, "http://127.0.0.1:9") as page:
        await page.set_content(f"<html lang=en><title>Faint</title><body><main>{faint}</main>")
        found = await faults_of(page, "faint")
        assert [one.partition(":")[0] for one in found] == ["faint dark"]
