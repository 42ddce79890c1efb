"""Pages of the console on a real broker in this process: what they show, and what actions do."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pocketmq.client import AsyncClient, Message, PullQuery, ReceiveQuery, TopicChange
from tests.kit.browser import BrowserVisit, console_of
from tests.running_broker import RunningBroker, broker_with

OWN = (
    "broker.auto_create_topics=true", "rpc.tls=false", "limits.max_message_size_bytes=1MiB",
    "store.commit_log_file_size_bytes=4MiB",
)  # fmt: skip


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    """A broker that creates topics by their first message."""
    async with broker_with(tmp_path / "store", *OWN) as running:
        yield running


@pytest.fixture
async def visitor(broker: RunningBroker) -> AsyncIterator[BrowserVisit]:
    """A visitor of its console."""
    async with console_of(broker.addresses["grpc"]) as visit:
        yield visit


async def dispatched(client: AsyncClient) -> None:
    """Returns once queues have all that was sent."""
    while True:
        status = await client.admin.store_status()
        if status.dispatched_offset >= status.appended_offset:
            return


async def consumed(client: AsyncClient, group: str, topic: str) -> None:
    """Lets a group receive and acknowledge one message of a topic."""
    await client.admin.create_group(group)
    (one,) = await client.receive(ReceiveQuery(group, topic, max_messages=1, begin="min"))
    await client.ack(group, topic, [one.receipt_handle])


async def test_an_empty_broker_greets_and_takes_a_first_message(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    empty = await visitor.get("/")
    assert "The broker accepts messages. Nothing needs you." in empty.text
    assert "Send a first message" in empty.text
    assert f"pocketmq produce orders hello --endpoint {broker.addresses['grpc']}" in empty.text
    for language in ("Python", "Java", "Go", "Node.js", "C#", "C++"):
        assert language in empty.text
    assert "There is no topic yet" in (await visitor.get("/topics")).text
    assert "There is no group yet" in (await visitor.get("/groups")).text

    sent = await visitor.post("/send", topic="orders", body="hello")
    assert "Stored in queue" in sent.text
    found = await visitor.get("/topic?name=orders")
    assert "hello" in found.text


async def test_a_send_reports_that_it_created_the_topic(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    sent = await visitor.post("/send", topic="orders", body="hello")
    assert "Topic orders did not exist and was created now." in sent.text
    assert "Did you mean" not in sent.text
    assert "was created now" not in (await visitor.post("/send", topic="orders", body="x")).text
    mistyped = await visitor.post("/send", topic="ordesr", body="hello")
    assert "Topic ordesr did not exist and was created now. Did you mean orders ?" in mistyped.text


async def test_a_refused_send_names_the_type_to_choose(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.client.admin.create_topic("accounts", type_name="TRANSACTION")
    refused = await visitor.post("/send", topic="accounts", body="x", type="normal")
    assert refused.status == 400
    assert "choose type transaction above" in refused.text
    assert "send_in_transaction" not in refused.text


async def test_an_incomplete_search_asks_for_what_it_lacks(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.send(Message("orders", b"x"))
    no_key = await visitor.get("/messages?topic=orders&by=key&q=")
    assert "Write the key to search for in orders; for the newest messages search" in no_key.text
    assert "Write the id to search for" in (await visitor.get("/messages?topic=orders&by=id")).text
    no_topic = await visitor.get("/messages?topic=&by=time&q=-15m")
    assert "Name a topic: only a search by id needs none" in no_topic.text
    assert 'role="alert"' not in (await visitor.get("/messages")).html


async def test_topics_are_listed_filtered_and_sorted(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.send(Message("bees", b"b"))
    for _ in range(3):
        await broker.send(Message("ants", b"a"))
    for _ in range(2):
        await broker.send(Message("cows", b"c" * 200))

    def order(text: str) -> list[str]:
        return sorted(("ants", "bees", "cows"), key=text.find)

    page = await visitor.get("/topics")
    assert order(page.text) == ["ants", "bees", "cows"]
    assert order((await visitor.get("/topics?sort=size")).text) == ["cows", "ants", "bees"]
    assert order((await visitor.get("/topics?sort=messages")).text) == ["ants", "cows", "bees"]
    part = await visitor.get("/topics?q=EE", **{"hx-request": "true"})
    assert "bees" in part.text
    assert "ants" not in part.text
    assert "<html" not in part.html
    assert "No topic has" in (await visitor.get("/topics?q=none")).text


async def test_a_url_names_a_page_of_a_filtered_and_sorted_list(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for number in range(120):
        await broker.client.admin.create_topic(f"orders-{number:03d}", queue_count=1)
    await broker.client.admin.create_topic("payments", queue_count=1)
    page = await visitor.get("/topics?q=ORDERS&sort=queues&from=50")
    assert "51–100 of 120" in page.text
    assert "orders-050" in page.text
    assert "orders-049" not in page.text
    for before in ("q=ORDERS&amp;sort=queues&amp;from=100", "q=ORDERS&amp;sort=queues&amp;from=0"):
        assert f'href="/topics?{before}"' in page.html
    beyond = await visitor.get("/topics?q=ORDERS&from=100000")
    assert "101–120 of 120" in beyond.text


async def test_a_topic_is_created_changed_and_removed(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    made = await visitor.post("/topic/create", name="orders", type="fifo", queues="4")
    assert made.place == "/topic?name=orders"
    shown = await visitor.get(made.place)
    assert "pocketmq topic create orders --type fifo --queues 4" in shown.text
    state = await broker.client.admin.describe_topic("orders")
    assert (state.type, state.read_queue_count) == ("FIFO", 4)

    await visitor.post(
        "/topic/edit", name="orders", read_queues="4", write_queues="2", permission="rw",
        retention_hours="24",
    )  # fmt: skip
    state = await broker.client.admin.describe_topic("orders")
    assert (state.write_queue_count, state.retention_ms) == (2, 86_400_000)
    assert "--write-queues 2 --retention-age 24h" in (await visitor.get("/topics")).text

    for odd in ({"write_queues": "two"}, {"retention_hours": "1.5"}, {"permission": "x"}):
        refused = await visitor.post("/topic/edit", name="orders", **odd)
        assert refused.status == 400
        assert f"{next(iter(odd))} is {next(iter(odd.values()))!r}" in refused.text
    kept = TopicChange(set_attributes={"pocketmq.retention.ms": "5400000"})
    await broker.client.admin.update_topic("orders", kept)
    form = (await visitor.get("/topic?name=orders")).html
    assert 'placeholder="1 h 30 min"' in form
    ((_, hours),) = re.findall(r'name="(retention_hours)"[^>]* value="([^"]*)"', form)
    await visitor.post("/topic/edit", name="orders", write_queues="3", retention_hours=hours)
    state = await broker.client.admin.describe_topic("orders")
    assert (state.write_queue_count, state.retention_ms) == (3, 5_400_000)

    unsure = await visitor.post("/topic/remove", name="orders", confirm="order")
    assert "Nothing has changed yet" in unsure.text
    assert await broker.client.admin.describe_topic("orders")
    done = await visitor.post("/topic/remove", name="orders", confirm="orders")
    assert done.place == "/topics"
    assert (await visitor.get("/topic?name=orders")).status == 404


async def test_messages_come_newest_first_and_page_by_page(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for number in range(60):
        await broker.send(Message("orders", f"body-{number:02d}.".encode()))
    await dispatched(broker.client)
    seen: list[str] = []
    target = "/topic?name=orders"
    while target:
        page = await visitor.get(target)
        seen += [word for word in page.text.split() if word.startswith("body-")]
        _, _, rest = page.html.partition('rel="next" href="')
        target = rest.partition('"')[0].replace("&amp;", "&")
    assert seen == [f"body-{number:02d}." for number in reversed(range(60))]


async def test_large_bodies_do_not_hide_the_newest_message(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for number in range(30):
        content = f"number-{number} ".encode() + b"x" * 12_000
        await broker.send(Message("orders", content, queue_id=0))
    await dispatched(broker.client)
    page = await visitor.get("/topic?name=orders")
    shown = [word for word in page.text.split() if word.startswith("number-")]
    assert shown[0] == "number-29"


async def test_a_message_shows_body_properties_and_life(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    receipt = await broker.send(
        Message("orders", b'{"total": 7}', keys=["k-1"], tag="paid", properties={"region": "eu"})
    )
    await consumed(broker.client, "billing", "orders")
    place = f"/message?topic=orders&queue={receipt.queue_id}&at={receipt.queue_offset}"
    page = await visitor.get(place)
    for part in ("k-1", "paid", "region eu", '"total": 7', receipt.message_id):
        assert part in page.text
    assert "consumed or skipped by billing" in page.text
    assert f"msg get --offset orders:{receipt.queue_id}:0" in page.text
    assert "00000000 7b 22 74" in (await visitor.get(f"{place}&as=hex")).text
    saved = await visitor.get(place.replace("/message", "/message/body"))
    assert saved.html == '{"total": 7}'
    assert saved.headers["content-disposition"].startswith("attachment")
    assert saved.headers["content-type"] == "application/octet-stream"
    assert (await visitor.get(place.replace("at=0", "at=9"))).status == 404


async def test_the_life_of_a_recalled_message_shows_its_recall(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.client.admin.create_topic("later", type_name="delay")
    receipt = await broker.send(Message("later", b"x", delay_ms=3_600_000))
    await broker.client.recall("later", receipt.recall_handle)
    await dispatched(broker.client)
    page = await visitor.get("/message?topic=rmq_sys_wheel_timer&queue=0&at=0")
    assert page.text.index("Waits for its time") < page.text.index("Recalled")


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        ("30", "'30' is neither a delay nor a time: write 30s"),
        ("-15m", "'-15m' is in the past"),
        ("+15m", "pocketmq produce later x --at +15m"),
        ("15m", "pocketmq produce later x --delay 15m"),
    ],
)
async def test_a_delay_is_refused_with_its_form_or_shown_as_the_command_line_takes_it(
    visitor: BrowserVisit, wish: str, shown: str
) -> None:
    await visitor.post("/topic/create", name="later", type="delay")
    page = await visitor.post("/send", topic="later", body="x", type="delay", wish=wish)
    assert shown in page.text


async def test_a_message_is_found_by_key_id_and_time(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    receipt = await broker.send(Message("orders", b"found me", keys=["k-1"]))
    assert "found me" in (await visitor.get("/messages?topic=orders&by=key&q=k-1")).text
    assert "found me" in (await visitor.get("/messages?topic=orders&by=time&q=now")).text
    by_id = await visitor.get(f"/messages?by=id&q={receipt.message_id}")
    assert by_id.place == f"/message?topic=orders&queue={receipt.queue_id}&at=0"
    early = await visitor.get("/messages?topic=orders&by=time&q=2020-01-01")
    assert "found me" not in early.text
    assert "was found at this time or before. Without a time the newest are shown." in early.text
    assert "pocketmq tail" not in early.text  # It prints messages from a time on.
    newest = await visitor.get("/messages?topic=orders&by=time&q=")
    assert "pocketmq tail orders --last 50 --no-follow" in newest.text
    wrong = await visitor.get("/messages?topic=orders&by=time&q=soon")
    assert "'soon' is no time" in wrong.text
    missing = await visitor.get("/messages?topic=orders&by=key&q=k-2")
    assert "No message of orders was found" in missing.text


async def test_a_group_is_reset_after_a_plan_and_paused(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for _ in range(5):
        await broker.send(Message("orders", b"x", queue_id=0))
    await consumed(broker.client, "billing", "orders")
    page = await visitor.get("/group?name=billing")
    assert "Lag 4 Oldest waits" in page.text
    assert "receive orders" in page.text

    plan = await visitor.post("/group/reset", name="billing", topic="orders", to="latest")
    assert "orders, queue 0: 1 → 5" in plan.text
    assert "pocketmq group reset billing --to latest --topic orders --yes" in plan.text
    assert (await broker.client.admin.group_lag("billing", "orders"))[0].lag_messages == 4
    done = await visitor.post(
        "/group/reset", name="billing", topic="orders", to="latest", confirm="billing"
    )
    assert done.place == "/group?name=billing"
    assert (await broker.client.admin.group_lag("billing", "orders"))[0].lag_messages == 0

    for queue_id in (1, 2):
        await broker.send(Message("orders", b"x", queue_id=queue_id))
    await dispatched(broker.client)
    assert (await visitor.get("/group?name=billing")).html.count(">Skip…<") == 2
    skip = {"name": "billing", "topic": "orders", "queue": "2", "to": "latest"}
    plan = await visitor.post("/group/reset", **skip)
    assert "orders, queue 2: 0 → 1" in plan.text or "orders, queue 2: none → 1" in plan.text
    assert "queue 1" not in plan.text
    assert "--topic orders --queue 2 --yes" in plan.text
    await visitor.post("/group/reset", **skip, confirm="billing")
    (lag,) = await broker.client.admin.group_lag("billing", "orders")
    assert [one.queue_id for one in lag.queues if one.lag_messages] == [1]

    await visitor.post("/group/state", name="billing", enabled="false")
    assert "paused" in (await visitor.get("/groups")).text
    state = await broker.client.admin.describe_group("billing")
    assert state.settings.enabled is False


async def test_messages_in_flight_are_counted_with_their_age(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for _ in range(3):
        await broker.send(Message("orders", b"x", queue_id=0))
    await broker.client.admin.create_group("billing")
    assert "In flight 0 Consumers" in (await visitor.get("/group?name=billing")).text
    query = ReceiveQuery("billing", "orders", max_messages=2, begin="min", invisible_ms=600_000)
    got = await broker.client.receive(query)
    page = await visitor.get("/group?name=billing")
    assert f"In flight {len(got)} " in page.text
    assert re.search(rf" {len(got)} for \d+ m?s ", page.text)
    await broker.client.ack("billing", "orders", [one.receipt_handle for one in got])
    assert "In flight 0 Consumers" in (await visitor.get("/group?name=billing")).text


async def test_each_type_of_message_is_sent(broker: RunningBroker, visitor: BrowserVisit) -> None:
    for kind, wish in (("fifo", "g1"), ("delay", "1h"), ("priority", "3"), ("transaction", "p")):
        await broker.client.admin.create_topic(kind, type_name=kind)
        sent = await visitor.post("/send", topic=kind, body="b", type=kind, wish=wish)
        assert "Stored in queue" in sent.text, sent.text
    refused = await visitor.post("/send", topic="fifo", body="b", type="fifo")
    assert refused.status == 400
    assert "needs: Message group" in refused.text
    odd = await visitor.post("/send", topic="n", body="b", properties="no separator")
    assert "is no property" in odd.text
    page = await broker.client.admin.pull(PullQuery("fifo", 0, 0))
    assert page.max_offset in (0, 1)


async def test_a_body_that_the_form_would_change_is_not_sent_again(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for content, why in ((b"text", ""), (b"\xff\x00", "is no text"), (b"x" * 300_000, "is larger")):
        sent = await broker.send(Message("orders", content))
        place = f"queue={sent.queue_id}&again={sent.queue_offset}"
        page = await visitor.get(f"/send?topic=orders&{place}")
        assert why in page.text
        assert (">text</textarea>" in page.html) is (not why)


async def test_a_name_of_any_characters_is_shown_as_text(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    hostile = "<script>alert(1)</script>\u202e'\"&"
    receipt = await broker.send(
        Message("orders", f"{hostile}\x07".encode(), keys=[hostile], tag=hostile)
    )
    place = f"/message?topic=orders&queue={receipt.queue_id}&at={receipt.queue_offset}"
    for target in ("/topic?name=orders", place, f"/topics?q={quote(hostile)}"):
        page = await visitor.get(target)
        assert "<script>alert" not in page.html
        assert "\u202e" not in page.html.partition("<main")[2] or "topics?" in target
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
    assert "U+202E" in (await visitor.get(place)).html


async def test_an_unknown_page_and_topic_are_not_found(visitor: BrowserVisit) -> None:
    assert (await visitor.get("/nothing")).status == 404
    missing = await visitor.get("/topic?name=missing")
    assert missing.status == 404
    assert "Next: pocketmq topic ls" in missing.text


async def test_a_broker_that_is_gone_is_told() -> None:
    async with console_of("127.0.0.1:1") as visitor:
        page = await visitor.get("/topics")
        assert page.status == 503
        assert "The broker does not answer" in page.text
        assert "pocketmq serve" in page.text


async def test_the_page_of_a_topic_shows_its_producers(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.client.admin.create_topic("quiet")
    page = await visitor.get("/topic?name=quiet")
    assert "No client has sent to this topic" in page.text
    await broker.send(Message("orders", b"x"))
    await dispatched(broker.client)
    (sender,) = await broker.client.admin.list_producers("orders")
    page = await visitor.get("/topic?name=orders")
    assert f"unnamed or gone {sender.address}" in " ".join(page.text.split())
    assert "pocketmq topic producers orders" in page.text
