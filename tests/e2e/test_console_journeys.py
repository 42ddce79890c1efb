"""Journeys of operators through the console in a headless Chromium, on one broker with messages.

Each test has topics and groups of its own. A fault that a page reports fails its test, also a
violation of the Content-Security-Policy (tests/kit/chromium.py).
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from pocketmq.client import AsyncClient, Message, ReceiveQuery
from pocketmq.console.application import application
from tests.console.test_protection import SECRET, with_admin
from tests.golden_stores import GoldenStores
from tests.kit.browser import application_of, console_for
from tests.kit.chromium import CHROMIUM, chromium, listening, watched
from tests.kit.console_scene import damaged
from tests.running_broker import broker_with

NARROW: Final = 390
SETTINGS: Final = ("broker.auto_create_topics=true", "rpc.tls=false")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing"),
    pytest.mark.asyncio(loop_scope="module"),
]
expect.set_options(timeout=20_000)


class Site(NamedTuple):
    """A browser, a console at an address, and a client of its broker."""

    browser: Browser
    address: str
    client: AsyncClient


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A Chromium for all tests."""
    async with chromium() as one:
        yield one


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The console of a broker, for all tests."""
    directory = tmp_path_factory.mktemp("journeys") / "store"
    async with (
        broker_with(directory, *SETTINGS) as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
    ):
        yield Site(browser, address, broker.client)


@pytest_asyncio.fixture(loop_scope="module")
async def page(site: Site) -> AsyncIterator[Page]:
    """A tab of a new visitor."""
    async with watched(site.browser, site.address) as shown:
        yield shown


async def dead_letter(client: AsyncClient, group: str, topic: str) -> None:
    """Gives a group a dead letter."""
    await client.send(Message(topic, b"could not", queue_id=0))
    await client.admin.create_group(group)
    query = ReceiveQuery(group, topic, begin="min", wait_ms=5_000)
    (one,) = await client.receive(query)
    await client.forward_to_dead_letters(group, topic, [one.receipt_handle])


async def test_what_is_sent_appears_on_the_overview_without_a_reload(
    site: Site, page: Page
) -> None:
    await page.goto("/")
    figure = page.locator(".facts > div", has_text="Messages").locator("dd a")
    before = int((await figure.inner_text()).replace(",", ""))
    await page.evaluate("document.body.dataset.same = 'yes'")
    await site.client.send_many([Message("live", b"x")] * 3)
    await expect(figure).to_have_text(str(before + 3))
    assert await page.evaluate("document.body.dataset.same") == "yes"


async def test_a_message_is_found_by_its_key_and_sent_again(site: Site, page: Page) -> None:
    await site.client.send(Message("search", b'{"total": 7}', keys=["order-42"], tag="paid"))
    await page.goto("/messages")
    await page.get_by_label("Topic").fill("search")
    await page.get_by_label("Key, id or time").fill("order-42")
    await page.get_by_role("button", name="Search").click()
    await page.locator("tbody a").first.click()
    await expect(page.locator("pre").first).to_contain_text('"total": 7')
    await page.get_by_role("link", name="hex").click()
    await expect(page.locator("pre").first).to_contain_text("7b 22 74 6f")
    await page.get_by_role("link", name="Send again").click()
    await expect(page.get_by_label("Tag")).to_have_value("paid")
    await page.get_by_label("Body").fill("again")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.locator(".note")).to_contain_text("Stored in queue")


async def test_a_dead_letter_is_redriven_and_the_rest_purged(site: Site, page: Page) -> None:
    await dead_letter(site.client, "redriver", "redriven")
    await page.goto("/dead-letters")
    await page.get_by_role("link", name="redriver").click()
    await page.get_by_role("button", name="Plan a redrive").click()
    await expect(page.locator("pre")).to_contain_text("1 dead letter of redriver")
    await page.get_by_label("Type redriver to confirm").fill("redriver")
    await page.get_by_role("button", name="Redrive").click()
    await expect(page.locator(".note")).to_contain_text("Sent 1 dead letter again")
    await page.get_by_role("button", name="Plan a purge").click()
    await page.get_by_label("Type redriver to confirm").fill("redriver")
    await page.get_by_role("button", name="Purge").click()
    await expect(page.locator(".note")).to_contain_text("Counted 0 dead letters as handled")


async def test_offsets_are_reset_after_a_plan_that_can_be_cancelled(site: Site, page: Page) -> None:
    for _ in range(3):
        await site.client.send(Message("resets", b"x", queue_id=0))
    await site.client.admin.create_group("resetter")
    query = ReceiveQuery("resetter", "resets", max_messages=1, begin="min", wait_ms=5_000)
    (one,) = await site.client.receive(query)
    await site.client.ack("resetter", "resets", [one.receipt_handle])
    await page.goto("/group?name=resetter")
    await page.get_by_role("button", name="Plan a reset").click()
    await expect(page.locator("pre")).to_contain_text("resets, queue 0:")
    await page.get_by_role("link", name="Cancel").click()
    await expect(page.locator("h1")).to_have_text("resetter")
    await page.get_by_role("button", name="Plan a reset").click()
    await page.get_by_label("Type resetter to confirm").fill("resetter")
    await page.get_by_role("button", name="Reset").click()
    await expect(page.locator(".note")).to_contain_text("Changed the offsets of")
    lags = await site.client.admin.group_lag("resetter", "resets")
    assert sum(one.lag_messages for one in lags) == 0


async def test_a_topic_is_created_changed_and_removed(site: Site, page: Page) -> None:
    await page.goto("/topics")
    await page.get_by_text("Create a topic").click()
    await page.get_by_label("Name", exact=True).fill("made-here")
    await page.get_by_role("button", name="Create").click()
    await expect(page.locator("h1")).to_have_text("made-here")
    await page.get_by_label("Write queues").fill("4")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".note")).to_contain_text("The topic was changed")
    await page.get_by_role("link", name="Remove the topic").click()
    confirmed = page.get_by_label("Type made-here to confirm")
    await confirmed.fill("made")
    await page.get_by_role("button", name="Remove").click()
    await expect(page.locator("main")).to_contain_text("Nothing has changed yet")
    await confirmed.fill("made-here")
    await page.get_by_role("button", name="Remove").click()
    await expect(page.locator(".note")).to_contain_text("Removed made-here")


async def test_a_delayed_message_is_recalled(site: Site, page: Page) -> None:
    await page.goto("/send?topic=recalls")
    await page.get_by_label("Type").select_option("delay")
    await page.get_by_label("Delay (30s) or time").fill("1h")
    await page.get_by_label("Body").fill("later")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.locator(".note")).to_contain_text("Stored in queue")
    await page.goto("/delayed?topic=recalls")
    await page.get_by_role("button", name="Recall").click()
    await expect(page.locator(".note")).to_contain_text("is recalled")
    await expect(page.locator("main")).to_contain_text("No message waits for its time")


async def test_a_transaction_is_committed(site: Site, page: Page) -> None:
    await site.client.send(Message("tx", b"half", transactional=True, producer_group="payers"))
    await page.goto("/transactions?group=payers")
    await page.locator("tbody a").first.click()
    await expect(page.locator("pre")).to_have_text("half")
    await page.get_by_role("button", name="Commit").click()
    await expect(page.locator(".note")).to_contain_text("Committed")
    await page.goto("/topic?name=tx")
    await expect(page.locator("td.body")).to_have_text("half")


async def test_a_tail_with_sql_shows_what_matches_as_it_is_sent(site: Site, page: Page) -> None:
    await site.client.send(Message("prices", b"cheap", properties={"price": "1"}))
    await page.goto("/tail")
    await page.get_by_label("Topic").fill("prices")
    await page.get_by_label("Filter by").select_option("sql")
    await page.get_by_label("Expression").fill("price > 100")
    await page.get_by_role("button", name="Follow").click()
    await expect(page.locator("#tail-state")).to_contain_text("waiting")
    for price, body in (("99", b"middle"), ("101", b"dear")):
        await site.client.send(Message("prices", body, properties={"price": price}))
    await expect(page.locator("#tail tbody tr")).to_have_count(1)
    await expect(page.locator("#tail tbody")).to_contain_text("dear")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator("#tail-state")).to_contain_text("stopped after 1")


async def test_a_user_gets_a_grant_that_is_explained(site: Site, page: Page) -> None:
    await page.goto("/access")
    await page.get_by_label("Access key").fill("app")
    await page.get_by_role("button", name="Add user").click()
    secret = page.locator(".note", has_text="shown this once").locator("code")
    await expect(secret).to_have_text(re.compile("^[0-9a-f]{32}$"))
    grant = page.locator("form[action='/access/grant'].line")
    await grant.get_by_label("User").fill("app")
    await grant.get_by_label("Resource").fill("topic:orders-*")
    await grant.get_by_role("button").click()
    explained = page.locator("form[method=get]")
    await explained.get_by_label("User").fill("app")
    await explained.get_by_label("Resource").fill("topic:orders-1")
    await explained.get_by_role("button").click()
    await expect(page.locator(".note")).to_contain_text("Allowed")


async def test_settings_are_searched(page: Page) -> None:
    await page.goto("/settings")
    await page.keyboard.press("/")
    await page.keyboard.type("auto_create_topics")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody")).to_contain_text("true")
    assert "q=auto_create_topics" in page.url


async def test_a_list_is_a_url_that_another_visitor_opens(site: Site, page: Page) -> None:
    for number in range(60):
        await site.client.admin.create_topic(f"shared-{number:02d}", queue_count=1 + number % 3)
    await page.goto("/topics")
    await page.locator("input.search").fill("shared-")
    await expect(page.locator(".pages")).to_contain_text("of 60")
    await page.get_by_role("link", name="Queues").click()
    await expect(page.locator("th[aria-sort]")).to_contain_text("Queues")
    await page.get_by_role("link", name="Next").click()
    await expect(page.locator("tbody tr")).to_have_count(10)
    rows = await page.locator("tbody").inner_text()
    async with watched(site.browser, site.address) as other:
        await other.goto(page.url)
        assert await other.locator("tbody").inner_text() == rows


async def test_keys_lead_through_a_list(site: Site, page: Page) -> None:
    for name in ("keys-a", "keys-b", "keys-c"):
        await site.client.admin.create_topic(name, queue_count=1)
    while await page.locator("tbody tr").count() != 3:  # A slow broker's list is kept for a while.
        await page.goto("/topics?q=keys-")
    for key, chosen in (("j", "keys-a"), ("j", "keys-b"), ("k", "keys-a"), ("k", "keys-a")):
        await page.keyboard.press(key)
        await expect(page.locator("tr.chosen")).to_contain_text(chosen)
    async with page.expect_response("**/topics?**"):
        await page.evaluate("htmx.ajax('GET', '/topics?q=keys-', '#rows')")  # as for late counts
    await expect(page.locator("tr.chosen")).to_contain_text("keys-a")
    await page.keyboard.press("?")
    await expect(page.locator("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_be_hidden()
    # The closed dialog has the focus until the next frame, so that it may get the key.
    enter = {"key": "Enter", "bubbles": True}
    await page.locator("dialog button").dispatch_event("keydown", enter)
    await expect(page.locator("h1")).to_have_text("keys-a")


async def test_a_phone_shows_everything_in_its_width(site: Site) -> None:
    async with watched(
        site.browser, site.address, viewport={"width": NARROW, "height": 800}, has_touch=True
    ) as page:
        await page.goto("/")
        await page.get_by_role("link", name="Dead letters", exact=True).tap()
        await expect(page.locator("h1")).to_have_text("Dead letters")
        await page.get_by_role("link", name="Settings").tap()
        await expect(page.locator("h1")).to_contain_text("Settings")
        beyond = "document.documentElement.scrollWidth - innerWidth"
        assert await page.evaluate(beyond) <= 0


async def test_a_user_logs_in_and_is_offered_what_it_may_do(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        broker_with(tmp_path / "store", *with_admin(tmp_path)) as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
        watched(browser, address) as page,
    ):
        await page.goto("/topics?sort=size")
        await page.get_by_label("Access key").fill("admin")
        await page.get_by_label("Secret").fill(SECRET)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.locator("h1")).to_contain_text("Topics")
        assert page.url.endswith("/topics?sort=size")
        await expect(page.get_by_text("Create a topic")).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.locator("h1")).to_have_text("Log in")


async def test_a_damaged_directory_is_verified_and_drawn(
    browser: Browser, golden: GoldenStores, tmp_path: Path
) -> None:
    console = console_for(damaged(golden, tmp_path / "hurt"))
    async with listening(application(console)) as address, watched(browser, address) as page:
        await page.goto(f"/enter?token={console.entrance}")
        await page.get_by_role("button", name="Verify").click()
        await expect(page.locator(".verdict")).to_contain_text("8 messages are lost")
        assert await page.locator("svg.map rect.t-bad").count() == 1
        await page.get_by_role("link", name="Topics").click()
        await page.get_by_role("link", name="orders", exact=True).click()
        await page.locator("td.time a").first.click()
        await expect(page.locator("h1")).to_have_text("Message")


async def test_an_empty_directory_says_so(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    console = console_for(tmp_path)
    async with listening(application(console)) as address, watched(browser, address) as page:
        await page.goto(f"/enter?token={console.entrance}")
        await expect(page.locator("main")).to_contain_text("no message was ever stored here")
        await page.get_by_role("button", name="Verify").click()
        await expect(page.locator(".verdict")).to_contain_text("The store is sound")
