"""Hostile content in a headless Chromium: every page shows it as text, within its width."""

import json
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Page

from pocketmq.client import Message, ReceiveQuery
from pocketmq.console.application import application
from tests.golden_stores import GoldenStores
from tests.kit.browser import application_of, console_for
from tests.kit.chromium import CHROMIUM, chromium, listening, watched
from tests.running_broker import broker_with

HOSTILE: Final = (
    "<img/src=x/onerror=alert(1)><script>alert(2)</script>\u202e\u0007\u200f'\"</textarea></title>"
    "{{7*7}}javascript:alert(3)"
)
WORD: Final = HOSTILE.replace("\u0007", "")
"""For keys, tags and client ids, of which the broker refuses control characters."""
CLIENT: Final = "".join(letter for letter in WORD if letter.isprintable())
NAME: Final = "<svg/onload=alert(4)>\u202e"
BODY_SIZE: Final = 4 * 1024 * 1024
PROPERTIES: Final = 128
PROPERTIES_SIZE: Final = 26_000
"""Bytes of their values; RocketMQ's format has room for 32,767 with names."""
SETTINGS: Final = (
    "broker.auto_create_topics=true", "rpc.tls=false", "limits.max_message_size_bytes=8MiB",
    "store.commit_log_file_size_bytes=16MiB",
)  # fmt: skip
WIDTHS: Final = (390, 1_280)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing")


async def is_text(page: Page, target: str) -> None:
    """Asserts that a page has no element of its content, and nothing beyond its width."""
    await page.goto(target)
    strange = "main script, main img, main svg[onload], title ~ script:not([src])"
    assert await page.locator(strange).count() == 0, target
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        beyond = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, (target, width)


def _properties() -> dict[str, str]:
    """Returns as many properties as a message may have, and nearly as large as it holds."""
    value = HOSTILE * (PROPERTIES_SIZE // PROPERTIES // len(HOSTILE.encode()))
    return {f"{HOSTILE[:30]}{number}": value for number in range(PROPERTIES)}


async def test_hostile_text_stays_text_on_every_page(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", *SETTINGS) as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
        chromium() as browser,
        watched(browser, address) as page,
    ):
        body = (HOSTILE.encode() * (BODY_SIZE // len(HOSTILE.encode()) + 1))[:BODY_SIZE]
        sent = await broker.client.send(
            Message("orders", body, keys=[WORD], tag=WORD, properties=_properties())
        )
        await broker.client.admin.create_group("billing")
        query = ReceiveQuery("billing", "orders", client_id=CLIENT, begin="min", wait_ms=5_000)
        (one,) = await broker.client.receive(query)
        at = f"topic=orders&queue={sent.queue_id}&at={sent.queue_offset}"
        await is_text(page, "/group?name=billing")
        await is_text(page, "/clients")
        await broker.client.forward_to_dead_letters("billing", "orders", [one.receipt_handle])
        for target in (
            "/", "/topics", "/topic?name=orders", f"/message?{at}", f"/message?{at}&as=hex",
            f"/message?{at}&properties=100", "/groups", "/dead-letters",
            "/dead-letters/group?group=billing", "/delayed", "/transactions", "/access",
            "/settings", "/messages?topic=orders&by=time",
            f"/send?topic=orders&queue={sent.queue_id}&again={sent.queue_offset}",
        ):  # fmt: skip
            await is_text(page, target)
        await page.goto(f"/message?{at}")
        assert "the begin of 4.2 MB" in await page.locator(".tabs").inner_text()
        count = int((await page.locator("h2 .soft").last.inner_text()).replace(",", ""))
        assert count > PROPERTIES
        assert len(await page.content()) < 1_000_000


async def test_hostile_words_of_a_url_stay_text(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", *SETTINGS) as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
        chromium() as browser,
        watched(browser, address) as page,
    ):
        for path in (
            "/topics?q=", "/groups?q=", "/clients?q=", "/settings?q=", "/delayed?topic=",
            "/transactions?group=", "/login?next=", "/send?topic=", "/messages?q=",
        ):  # fmt: skip
            await page.goto("about:blank")
            await is_text(page, path + HOSTILE.replace("#", "%23").replace("&", "%26"))


async def test_hostile_names_of_a_directory_stay_text(golden: GoldenStores, tmp_path: Path) -> None:
    copy = golden.copy("basic", tmp_path / "store")
    for table, key in (
        ("topics", "topicConfigTable"),
        ("subscriptionGroup", "subscriptionGroupTable"),
    ):
        file = copy / "config" / f"{table}.json"
        document = json.loads(file.read_text("utf-8"))
        row = next(iter(document[key].values()))
        document[key][NAME] = {**row, "topicName": NAME, "groupName": NAME}
        file.write_text(json.dumps(document), "utf-8")
    console = console_for(copy)
    async with (
        listening(application(console)) as address,
        chromium() as browser,
        watched(browser, address) as page,
    ):
        await page.goto(f"/enter?token={console.entrance}")
        for target in ("/", "/topics", "/groups", "/messages"):
            await is_text(page, target)
