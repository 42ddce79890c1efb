"""Journeys through the console of a broker in a headless Chromium, without CSP violations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from pocketmq.client import Message, ReceiveQuery
from tests.kit.chromium import CHROMIUM, chromium, watched
from tests.running_broker import RunningBroker, broker_with

HOSTILE = "<img/src=x/onerror=alert(1)><script>alert(2)</script>\u202e"

expect.set_options(timeout=20_000)  # the console starts with its first page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    """A broker with its console."""
    settings = ("broker.auto_create_topics=true", "rpc.tls=false")
    async with broker_with(tmp_path / "store", *settings) as running:
        yield running


@pytest.fixture
async def page(broker: RunningBroker) -> AsyncIterator[Page]:
    """A page of a browser."""
    address = str(broker.addresses["console"])
    async with chromium() as browser, watched(browser, address) as shown:
        yield shown


async def test_a_first_message_is_sent_found_and_shown(broker: RunningBroker, page: Page) -> None:
    await page.goto("/")
    await page.get_by_role("button", name="Send", exact=True).click()
    await page.locator(".note a").first.click()
    await expect(page.locator("h1")).to_have_text("Message")
    await expect(page.locator("pre").first).to_have_text("hello")
    await page.wait_for_load_state()
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page.locator("h1")).to_contain_text("Topics")
    await page.wait_for_load_state()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("orders")
    await page.wait_for_load_state()
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page.locator("h1")).to_contain_text("Topics")
    await page.wait_for_load_state()
    await page.keyboard.press("/")
    await page.keyboard.type("none")
    await expect(page.locator("#rows")).to_contain_text("No topic has")


async def test_the_tls_port_leads_browsers_to_the_console(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", "rpc.tls_only=true") as broker,
        chromium() as browser,
        watched(
            browser, f"https://{broker.addresses['grpc_tls']}", ignore_https_errors=True
        ) as shown,
    ):
        await shown.goto("/")
        await expect(shown.locator("h1")).to_have_text("Overview")
        await shown.goto("/groups")
        await shown.get_by_text("Create a group").click()
        await shown.get_by_label("Name", exact=True).fill("billing")
        await shown.get_by_role("button", name="Create").click()
        await expect(shown.locator(".note")).to_contain_text("Group billing exists")
        (cookie,) = await shown.context.cookies()
        assert cookie.get("secure")


async def test_a_tail_shows_what_is_sent_meanwhile_as_text(
    broker: RunningBroker, page: Page
) -> None:
    await broker.client.send(Message("orders", b"before"))
    await page.goto("/tail?topic=orders")
    await expect(page.locator("#tail tbody")).to_contain_text("before")
    await broker.client.send(
        Message("orders", f"{HOSTILE} meanwhile".encode(), keys=[HOSTILE], tag=HOSTILE)
    )
    await expect(page.locator("#tail tbody tr").first).to_contain_text("<script>alert(2)")
    assert await page.locator("main script, main img").count() == 0


async def test_a_group_is_paused_and_reset_by_its_forms(broker: RunningBroker, page: Page) -> None:
    await broker.client.send(Message("orders", b"x"))
    await broker.client.admin.create_group("billing")
    await broker.client.receive(ReceiveQuery("billing", "orders", begin="min"))
    await page.goto("/group?name=billing")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".note")).to_contain_text("The group is paused")
    await page.get_by_role("button", name="Plan a reset").click()
    await page.get_by_label("Type billing to confirm").fill("billing")
    await page.get_by_role("button", name="Reset").click()
    await expect(page.locator(".note")).to_contain_text("Changed the offsets")
