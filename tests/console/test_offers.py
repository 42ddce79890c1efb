"""Forms and links that pages offer, and refusals of each action to all others."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pocketmq.client import AsyncClient, Message, ReceiveQuery
from pocketmq.client.async_access import OwnGrants, UserState
from pocketmq.client.values import GrantState
from pocketmq.console.offers import Offers
from pocketmq.console.pages import ROUTES
from tests.console.test_protection import SECRET, log_in, users_of, with_admin
from tests.kit.browser import BrowserVisit, console_of
from tests.running_broker import RunningBroker, broker_with

READS: Final = ["get", "list", "sub"]
OWN: Final = {"/message/types"}
"""Actions that change only the visitor's session."""
ACTION = re.compile(r'(?:action|href)="(/[^"?]*)')
PAGES: Final = (
    "/", "/topics", "/topic?name=orders", "/send", "/groups", "/group?name=billing", "/delayed",
    "/dead-letters/group?group=billing", "/transactions", "/access", "/store",
)  # fmt: skip


class Scene(NamedTuple):
    """A broker that checks users, with something that each action could change.

    forms   a form of each action, which would succeed
    """

    broker: RunningBroker
    admin: AsyncClient
    forms: dict[str, dict[str, str]]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A broker with topics, a group, a dead letter, a delayed message, a transaction, users."""
    settings = (*with_admin(tmp_path), "broker.auto_create_topics=true")
    async with broker_with(tmp_path / "store", *settings) as broker, users_of(broker) as admin:
        await admin.send(Message("orders", b"dead", queue_id=0))
        await admin.admin.create_group("billing")
        query = ReceiveQuery("billing", "orders", begin="min", wait_ms=5_000)
        (one,) = await admin.receive(query)
        await admin.forward_to_dead_letters("billing", "orders", [one.receipt_handle])
        await admin.send(Message("orders", b"waits", queue_id=0))
        later = await admin.send(Message("later", b"x", delay_ms=3_600_000))
        half = await admin.send(Message("tx", b"x", transactional=True, producer_group="payers"))
        for name in ("reader", "victim"):
            await admin.admin.access.create_user(name, SECRET)
        for resource in ("topic:*", "group:*", "cluster:*"):
            await admin.admin.access.add_grant(GrantState("reader", READS, resource))
        yield Scene(broker, admin, {
            "/topic/create": {"name": "new"},
            "/topic/edit": {"name": "orders", "write_queues": "2"},
            "/topic/remove": {"name": "orders", "confirm": "orders"},
            "/topic/purge": {"name": "orders", "confirm": "orders"},
            "/message/types": {"types": "AAAA", "topic": "orders", "queue": "0", "at": "0"},
            "/send": {"topic": "orders", "body": "x"},
            "/group/create": {"name": "new"},
            "/group/state": {"name": "billing", "enabled": "false"},
            "/group/reset": {"name": "billing", "to": "earliest", "confirm": "billing"},
            "/group/remove": {"name": "billing", "confirm": "billing"},
            "/dead-letters/redrive": {"group": "billing", "confirm": "billing"},
            "/dead-letters/purge": {"group": "billing", "confirm": "billing"},
            "/delayed/recall": {"topic": "later", "handle": later.recall_handle or ""},
            "/transactions/end": {"id": half.transaction_id or "", "what": "commit"},
            "/transactions/resume": {"id": half.transaction_id or ""},
            "/store/copy": {},
            "/access/users": {"access_key": "new"},
            "/access/user": {"access_key": "victim", "what": "disable"},
            "/access/grant": {"user": "victim", "actions": "all", "resource": "*"},
        })  # fmt: skip


@asynccontextmanager
async def visit(scene: Scene, user: str = "", **served: Any) -> AsyncIterator[BrowserVisit]:
    """Opens a console, and logs a user in."""
    given = {"backup_path": "/dev/null/copy", **served}
    async with console_of(scene.broker.addresses["grpc"], **given) as visitor:
        if user:
            assert await log_in(visitor, user) == 303
            assert (await visitor.get("/topics")).status == 200  # has the token of the session
        yield visitor


async def state(client: AsyncClient) -> list[Any]:
    """Returns all that the actions could change."""
    admin = client.admin
    topics = (await admin.list_topics()).items
    groups = (await admin.list_groups()).items
    return [
        [(one.name, one.write_queue_count) for one in topics],
        [(one.name, one.settings.enabled) for one in groups],
        [(await admin.topic_counts(one.name)).stored_count for one in topics],
        await admin.list_offsets("billing"),
        [one.waiting_count for one in (await admin.list_dead_letters()).items],
        [one.message_id for one in (await admin.list_delayed()).items],
        [one.transaction_id for one in await admin.list_transactions()],
        await admin.access.list_users(), await admin.access.list_grants(),
    ]  # fmt: skip


async def test_each_action_is_refused_without_token_login_or_grant(scene: Scene) -> None:
    assert scene.forms.keys() == {route.path for route in ROUTES if route.is_action}
    before = await state(scene.admin)
    async with visit(scene, "admin") as visitor:
        for path, form in scene.forms.items():
            for token in ("", "wrong"):
                assert (await visitor.post(path, **form | {"token": token})).status == 403, path
    async with visit(scene) as visitor:
        for path, form in scene.forms.items():
            refused = await visitor.post(path, **form)
            assert (refused.status, refused.place[:6]) == (303, "/login"), path
    async with visit(scene, "reader") as visitor:
        for path, form in scene.forms.items():
            if path in OWN:
                continue
            refused = await visitor.post(path, **form)
            assert refused.status in (400, 403), path
            assert "may not" in refused.text or "only an admin" in refused.text, refused.text
    assert await state(scene.admin) == before


async def offered(visitor: BrowserVisit) -> set[str]:
    """Returns the actions, and pages with a plan, to which forms and links of all pages lead."""
    found: set[str] = set()
    for target in PAGES:
        page = await visitor.get(target)
        assert page.status == 200, page.text
        found |= {one.partition("?")[0] for one in ACTION.findall(page.html)}
    wanted = {route.path for route in ROUTES if route.is_action} | {"/topic/plan", "/group/plan"}
    return found & wanted


async def test_pages_offer_what_a_user_may_do(scene: Scene) -> None:
    async with visit(scene, "reader") as visitor:
        assert await offered(visitor) == set()
        page = await visitor.get("/access")
        assert "your grants" in page.text
        assert "victim" not in page.text
        assert "topic:*" in page.text
        for action, resource in (
            ("update", "group:billing"), ("create", "topic:o-*"), ("pub", "topic:later"),
        ):  # fmt: skip
            await scene.admin.admin.access.add_grant(GrantState("reader", [action], resource))
    async with visit(scene, "reader") as visitor:
        assert await offered(visitor) == {
            "/group/reset", "/group/state", "/dead-letters/redrive", "/dead-letters/purge",
            "/topic/create", "/send", "/delayed/recall",
        }  # fmt: skip
    plans = {"/topic/remove", "/topic/purge", "/group/remove", "/transactions/resume"}
    async with visit(scene, "admin") as visitor:
        shown = {"/topic/plan", "/group/plan"}
        assert await offered(visitor) == scene.forms.keys() - plans - OWN | shown


async def test_without_login_a_console_only_reads_if_changes_need_one(tmp_path: Path) -> None:
    settings = ("broker.auto_create_topics=true", "rpc.tls=false")
    async with (
        broker_with(tmp_path / "store", *settings) as broker,
        console_of(broker.addresses["grpc"], needs_login=True) as visitor,
    ):
        await broker.send(Message("orders", b"x"))
        assert "orders" in (await visitor.get("/topics")).text
        for target in ("/topics", "/topic?name=orders", "/groups", "/access", "/send", "/"):
            page = await visitor.get(target)
            assert page.status == 200
            assert "<form" not in page.html.partition("<main")[2].partition("<dialog")[0] or (
                target == "/access" and 'method="post"' not in page.html
            )
        for route in ROUTES:
            if route.is_action:
                refused = await visitor.post(route.path, name="orders", confirm="orders")
                assert refused.status == 403, route.path
                assert "Changes need a login" in refused.text
        assert await broker.client.admin.describe_topic("orders")
        login = await visitor.post("/login", access_key="invented", secret="invented")
        assert login.status == 403
        assert "checks no users" in login.text
        assert "continue without a login , to read only" in login.text


async def test_with_a_login_it_changes_what_the_user_may(scene: Scene) -> None:
    async with visit(scene, "admin", needs_login=True) as visitor:
        assert (await visitor.post("/topic/create", name="new")).status == 303
        assert await scene.admin.admin.describe_topic("new")


def offers(*grants: tuple[str, str, bool], source: str = "127.0.0.1") -> Offers:
    """Returns what a user with grants is offered: (action, resource, deny)."""
    rows = [GrantState("u", [action], resource, deny) for action, resource, deny in grants]
    return Offers(OwnGrants(UserState("u", False, True), rows, source))


def test_offers_follow_the_rules_of_grants() -> None:
    assert Offers().may("delete", "topic", "t")
    assert not Offers(is_read_only=True).may("delete", "topic", "t")
    assert Offers(is_read_only=True).sees("delete", "topic", "t")
    assert not offers().may_any("pub", "topic")
    some = offers(("pub", "topic:o-*", False), ("pub", "topic:o-1", True))
    assert some.may("pub", "topic", "o-2")
    assert not some.may("pub", "topic", "o-1")
    assert some.may_any("pub", "topic")
    assert not some.may_any("pub", "group")
    assert not offers(("pub", "*", False), ("pub", "topic:*", True)).may_any("pub", "topic")
    assert offers(("all", "*", False)).may_any("create", "group")
    row = GrantState("u", ["pub"], "topic:t", sources=["10.0.0.0/8"])
    for source, is_offered in (("10.0.0.7", True), ("127.0.0.1", False)):
        own = OwnGrants(UserState("u", False, True), [row], source)
        assert Offers(own).may("pub", "topic", "t") is is_offered
    odd = [GrantState("u", ["fly"], "topic:t"), GrantState("u", ["pub"], "moon:t")]
    assert not Offers(OwnGrants(UserState("u", False, True), odd, "")).may("pub", "topic", "t")
