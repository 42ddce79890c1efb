"""Pages for operators on a real broker: tail, dead letters, delays, transactions, access."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from pocketmq.client import Message, ReceiveQuery, errors
from tests.kit.browser import BrowserShown, BrowserVisit, console_of
from tests.running_broker import RunningBroker, broker_with

HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
OWN = ("broker.auto_create_topics=true", "rpc.tls=false")


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


def hidden(plan: BrowserShown) -> dict[str, str]:
    """Returns the fields of a plan's form that its visitor does not type."""
    return dict(HIDDEN.findall(plan.html))


async def dead(broker: RunningBroker, count: int) -> None:
    """Gives the group billing dead letters of the topic orders."""
    with suppress(errors.GroupExists):
        await broker.client.admin.create_group("billing")
    for number in range(count):
        await broker.send(Message("orders", f"dead-{number}".encode(), queue_id=0))
    query = ReceiveQuery("billing", "orders", max_messages=count, wait_ms=5_000, begin="min")
    left = count
    while left:
        got = await broker.client.receive(query)
        handles = [one.receipt_handle for one in got]
        await broker.client.forward_to_dead_letters("billing", "orders", handles)
        left -= len(got)
    await broker.dispatched()


async def test_a_tail_streams_what_matches_as_text(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for tag in ("paid", "new"):
        body = f"<b>{tag}</b>\u202e".encode()
        await broker.send(Message("orders", body, tag=tag, queue_id=0))
    sql = await visitor.get("/tail?topic=orders&by=sql&filter=price+%3E+100")
    assert "pocketmq tail orders --filter 'price > 100'" in sql.text
    page = await visitor.get("/tail?topic=orders&by=tag&filter=paid")
    assert "pocketmq tail orders --tag paid" in page.text
    target = page.html.partition('data-events="')[2].partition('"')[0].replace("&amp;", "&")
    stream = await visitor.watch(target, "event: messages")
    assert stream.headers["content-type"].startswith("text/event-stream")
    data = json.loads(stream.html.partition("data: ")[2].partition("\n")[0])
    assert [row["cells"][-1] for row in data["rows"]] == ["<b>paid</b>\ufffd"]
    assert data["rows"][0]["url"].startswith("/message?topic=orders")


async def test_a_tail_of_a_wrong_filter_ends_with_the_reason(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.send(Message("orders", b"x"))
    stream = await visitor.get("/tail/events?topic=orders&by=sql&filter=price%20%3E%3E")
    assert "event: failed" in stream.html


async def test_dead_letters_are_redriven_in_part_and_purged(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await dead(broker, 3)
    assert "billing 3" in (await visitor.get("/dead-letters")).text
    assert "3 messages of billing could not be consumed" in (await visitor.get("/")).text
    page = await visitor.get("/dead-letters/group?group=billing")
    assert "Pending 3 Ever 3" in page.text
    assert "dead-0" in page.text

    plan = await visitor.post("/dead-letters/redrive", group="billing", count="2")
    assert "in place of" not in plan.text
    wrong = await visitor.post("/dead-letters/redrive", confirm="biling", **hidden(plan))
    assert "biling was typed in place of billing" in wrong.text
    assert "2 dead letters of billing" in plan.text
    assert "pocketmq dlq redrive billing --limit 2 --yes" in plan.text
    (before,) = (await broker.client.admin.list_dead_letters("billing")).items
    assert before.waiting_count == 3
    form = {"group": "billing", "count": "2", "confirm": "billing"}
    done = await visitor.post("/dead-letters/redrive", **form)
    assert "Sent 2 dead letters again" in (await visitor.get(done.place)).text
    (after,) = (await broker.client.admin.list_dead_letters("billing")).items
    assert after.waiting_count == 1

    first, last = [
        (await visitor.get(f"/message?topic=%25DLQ%25billing&queue=0&at={number}")).text
        for number in (0, 2)
    ]
    assert "after 1 attempt sent again or purged by billing" in first
    assert "after 1 attempt pending for billing" in last
    assert "Keys – Tag –" in first
    assert 'href="/dead-letters">1</a>' in (await visitor.get("/")).html
    plan = await visitor.post("/dead-letters/purge", group="billing")
    assert "1 dead letter of billing would count as handled" in plan.text
    done = await visitor.post("/dead-letters/purge", confirm="billing", **hidden(plan))
    assert "Counted 1 dead letter as handled" in (await visitor.get(done.place)).text
    (after,) = (await broker.client.admin.list_dead_letters("billing")).items
    assert after.waiting_count == 0


async def test_a_purge_leaves_dead_letters_that_came_after_its_plan(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await dead(broker, 2)
    plan = await visitor.post("/dead-letters/purge", group="billing")
    await dead(broker, 1)
    done = await visitor.post("/dead-letters/purge", confirm="billing", **hidden(plan))
    assert "Counted 2 dead letters as handled" in (await visitor.get(done.place)).text
    (after,) = (await broker.client.admin.list_dead_letters("billing")).items
    assert after.waiting_count == 1
    done = await visitor.post("/dead-letters/purge", confirm="billing", **hidden(plan))
    assert "Counted 0 dead letters as handled" in (await visitor.get(done.place)).text


async def test_a_redrive_leaves_dead_letters_that_came_after_its_plan(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await dead(broker, 2)
    plan = await visitor.post("/dead-letters/redrive", group="billing")
    await dead(broker, 1)
    done = await visitor.post("/dead-letters/redrive", confirm="billing", **hidden(plan))
    assert "Sent 2 dead letters again" in (await visitor.get(done.place)).text
    (after,) = (await broker.client.admin.list_dead_letters("billing")).items
    assert after.waiting_count == 1
    done = await visitor.post("/dead-letters/redrive", confirm="billing", **hidden(plan))
    assert "Sent 0 dead letters again" in (await visitor.get(done.place)).text


@pytest.mark.parametrize(("to", "lag"), [("latest", 2), ("+1h", 2), ("earliest", 5)])
async def test_a_reset_skips_no_messages_that_came_after_its_plan(
    broker: RunningBroker, visitor: BrowserVisit, to: str, lag: int
) -> None:
    await dead(broker, 3)
    plan = await visitor.post("/group/reset", name="billing", to=to)
    for _ in range(2):
        await broker.send(Message("orders", b"later", queue_id=0))
    form = {**hidden(plan), "confirm": "billing"}
    assert (await visitor.post("/group/reset", **form)).place == "/group?name=billing"
    async with asyncio.timeout(20):
        (found,) = await broker.client.admin.group_lag("billing", "orders")
        while found.lag_messages < lag:  # A message is counted when it is dispatched.
            (found,) = await broker.client.admin.group_lag("billing", "orders")
    assert found.lag_messages == lag


async def test_a_purge_without_its_plan_shows_the_plan(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await dead(broker, 1)
    plan = await visitor.post("/dead-letters/purge", group="billing", confirm="billing")
    assert "1 dead letter of billing would count as handled" in plan.text
    (after,) = (await broker.client.admin.list_dead_letters("billing")).items
    assert after.waiting_count == 1


async def test_a_purge_of_a_topic_takes_what_its_plan_showed(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for _ in range(2):
        await broker.send(Message("emptied", b"x"))
    plan = await visitor.get("/topic/plan?name=emptied&what=purge")
    again = await visitor.post("/topic/purge", **{**hidden(plan), "confirm": "emptied?"})
    assert hidden(again) == hidden(plan)
    assert "Purge emptied" in again.text
    await broker.send(Message("emptied", b"later"))
    done = await visitor.post("/topic/purge", confirm="emptied", **hidden(plan))
    assert "Purged 2 messages" in (await visitor.get(done.place)).text
    assert (await broker.client.admin.topic_counts("emptied")).message_count == 1


async def test_a_purge_of_a_topic_without_its_plan_shows_the_plan(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.send(Message("kept", b"x"))
    plan = await visitor.post("/topic/purge", name="kept", confirm="kept")
    assert "kept, queue" in plan.text
    assert (await broker.client.admin.topic_counts("kept")).message_count == 1


async def test_the_pages_of_delayed_messages_follow_each_other(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    for _ in range(120):
        await broker.send(Message("later", b"x", delay_ms=3_600_000))
    page = await visitor.get("/delayed?from=50")
    assert "51–100 of 120" in page.text
    for place in ("from=0", "from=100"):
        assert f'{place}"' in page.html


async def test_a_delayed_message_is_listed_and_recalled(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    assert "No message waits for its time" in (await visitor.get("/delayed")).text
    receipt = await broker.send(Message("later", b"x", delay_ms=3_600_000))
    page = await visitor.get("/delayed")
    assert receipt.message_id in page.text
    assert "1 h 1" in page.text
    handle = page.html.partition('name="handle" value="')[2].partition('"')[0]
    done = await visitor.post("/delayed/recall", topic="later", handle=handle)
    assert "is recalled" in (await visitor.get(done.place)).text
    with pytest.raises(errors.MessageNotFound):
        await broker.client.admin.list_delayed(message_id=receipt.message_id)


async def test_a_transaction_is_committed_and_rolled_back(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    half = [
        await broker.send(Message("tx", b"half-body", transactional=True, producer_group="payers"))
        for _ in range(2)
    ]
    async with asyncio.timeout(20):
        page = await visitor.get("/transactions")
        while page.text.count("payers") < 2:  # A half message is noted when it is dispatched.
            page = await visitor.get("/transactions")
    assert page.text.count("payers") == 2
    one = await visitor.get(f"/transactions/one?id={half[0].transaction_id}")
    assert "half-body" in one.text
    for receipt, what in zip(half, ("commit", "rollback"), strict=True):
        await visitor.post("/transactions/end", id=receipt.transaction_id, what=what)
    states = [
        (await broker.client.admin.describe_transaction(one.transaction_id))[0].state
        for one in half
    ]
    assert states == ["committed", "rolled back"]
    assert "No transaction is undecided" in (await visitor.get("/transactions")).text
    again = await visitor.post("/transactions/end", id=half[0].transaction_id, what="rollback")
    assert again.status == 400


async def test_users_and_grants_are_changed_and_explained(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    made = await visitor.post("/access/users", access_key="ops", admin="true")
    secret = made.html.partition("shown this once")[2].partition("<code>")[2][:32]
    assert len(secret) == 32
    assert secret not in (await visitor.get("/access")).html
    await visitor.post("/access/users", access_key="app")
    await visitor.post("/access/grant", user="app", actions="pub", resource="topic:o-*", deny="")
    page = await visitor.get("/access?user=app&action=pub&resource=topic:o-1")
    assert "Allowed:" in page.text
    assert "pocketmq acl explain app pub topic:o-1" in page.text
    await visitor.post("/access/user", access_key="app", what="disable")
    users, _ = await broker.client.admin.access.list_users()
    assert [(one.access_key, one.enabled) for one in users] == [("app", False), ("ops", True)]
    form = {"user": "app", "actions": "pub", "resource": "topic:o-*", "what": "remove"}
    await visitor.post("/access/grant", **form)
    assert not await broker.client.admin.access.list_grants()
    plan = await visitor.post("/access/user", access_key="app", what="remove")
    assert "Nothing has changed yet" in plan.text
    await visitor.post("/access/user", access_key="app", what="remove", confirm="app")
    assert len((await broker.client.admin.access.list_users())[0]) == 1


async def test_a_grant_with_sources_is_explained_for_an_address(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await visitor.post("/access/users", access_key="app")
    await visitor.post(
        "/access/grant", user="app", actions="pub", resource="topic:o-*", sources="10.0.0.0/8"
    )
    (grant,) = await broker.client.admin.access.list_grants()
    assert grant.sources == ["10.0.0.0/8"]
    asked = "/access?user=app&action=pub&resource=topic:o-1"
    assert "Denied:" in (await visitor.get(asked)).text
    near = await visitor.get(f"{asked}&source=10.1.2.3")
    assert "Allowed:" in near.text
    assert "pocketmq acl explain app pub topic:o-1 --source 10.1.2.3" in near.text


async def test_a_new_secret_is_made_once_the_name_is_typed(visitor: BrowserVisit) -> None:
    await visitor.post("/access/users", access_key="app")
    plan = await visitor.post("/access/user", access_key="app", what="secret")
    assert "clients that sign as app with the secret of now are refused" in plan.text
    assert "shown this once" not in plan.text
    made = await visitor.post("/access/user", access_key="app", what="secret", confirm="app")
    assert "shown this once" in made.text


async def test_the_page_of_clients_names_how_many_groups_it_leaves_out(
    broker: RunningBroker, visitor: BrowserVisit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.console.pages.clients.PAGE_SIZE", 1)
    monkeypatch.setattr("pocketmq.console.pages.clients.GROUPS_MAX", 2)
    await broker.client.send(Message("orders", b"x"))
    await broker.client.admin.create_group("idle")
    assert "No client has consumed" in (await visitor.get("/clients")).text
    for group in ("first", "second", "third"):
        await broker.client.admin.create_group(group)
        await broker.client.receive(ReceiveQuery(group, "orders", client_id="host-7@1"))
    await visitor.get("/groups")  # has the token of forms
    assert (await visitor.post("/group/create", name="last")).status == 303  # drops kept answers
    page = await visitor.get("/clients")
    for group, is_shown in (("first", True), ("second", True), ("third", False)):
        assert (f"host-7@1 {group} 127" in page.text) is is_shown
    assert "1 further group has consumers" in page.text


async def test_clients_and_settings_are_listed(
    broker: RunningBroker, visitor: BrowserVisit
) -> None:
    await broker.send(Message("orders", b"x"))
    await broker.client.admin.create_group("billing")
    await broker.client.receive(ReceiveQuery("billing", "orders", client_id="host-7@1"))
    page = await visitor.get("/clients")
    assert "host-7@1 billing 127.0.0.1:" in page.text
    assert " v1 receive orders" in page.text
    assert "No client has consumed" in (await visitor.get("/clients?q=host-8")).text
    await broker.client.receive(ReceiveQuery("billing", "orders", client_id="host-9@1"))
    for sort, order in (("seen", ["host-9", "host-7"]), ("client", ["host-7", "host-9"])):
        text = (await visitor.get(f"/clients?sort={sort}")).text
        assert sorted(order, key=text.find) == order
    odd = await visitor.get("/settings?sort=no-column")
    assert odd.text.find("access.check ") < odd.text.find("rpc.tls ")
    page = await visitor.get("/settings?q=auto_create_topics")
    assert "broker.auto_create_topics true" in page.text
    part = await visitor.get("/settings?only=set", **{"hx-request": "true"})
    assert "rpc.tls" in part.text
    assert "limits.topics_max" not in part.text


@pytest.mark.parametrize(
    ("path", "fields", "odd"),
    [
        ("/transactions/end", {"id": "AB"}, {"what": ""}),
        ("/transactions/end", {"id": "AB"}, {"what": "roll"}),
        ("/access/user", {"access_key": "ann"}, {"what": "off"}),
        ("/group/state", {"name": "billing"}, {"enabled": ""}),
        ("/group/reset", {"name": "billing", "topic": "orders", "to": "latest"}, {"queue": "x"}),
        ("/dead-letters/redrive", {"group": "billing"}, {"count": "1.5"}),
        ("/topic/create", {"name": "odd"}, {"type": "large"}),
        ("/topic/create", {"name": "odd"}, {"queues": "-1"}),
    ],
)
async def test_an_action_that_a_form_does_not_name_exactly_is_none(
    visitor: BrowserVisit, path: str, fields: dict[str, str], odd: dict[str, str]
) -> None:
    refused = await visitor.post(path, **fields, **odd)
    ((name, value),) = odd.items()
    assert refused.status == 400
    assert f"{name} is {value!r}" in refused.text
