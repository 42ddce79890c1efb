"""Login, sessions, tokens, origins and headers of the console."""

from pathlib import Path

import pytest

from pocketmq.client import AsyncClient, errors
from pocketmq.client.values import GrantState
from pocketmq.console.protection import is_sure_host
from pocketmq.console.visitors import IDLE_S, SESSIONS_MAX, Visitors
from tests.console.test_serving import page
from tests.kit.browser import HOST, BrowserVisit, application_of, console_of
from tests.kit.chromium import listening
from tests.running_broker import RunningBroker, broker_with

SECRET = "a-secret-of-the-admin"


def with_admin(folder: Path) -> tuple[str, ...]:
    """Returns settings of a broker that checks users, and has the admin `admin`."""
    file = folder / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    return ("access.check=on", f"access.admin_secret_path={file}", "rpc.tls=false")


async def log_in(visitor: BrowserVisit, access_key: str, secret: str = SECRET) -> int:
    """Logs a visitor in; returns the status of the answer."""
    await visitor.get("/login")
    done = await visitor.post("/login", access_key=access_key, secret=secret, next="/topics")
    return done.status


def users_of(broker: RunningBroker) -> AsyncClient:
    """Returns a client of the admin."""
    return AsyncClient(broker.addresses["grpc"], retry_ms=0, access_key="admin", secret_key=SECRET)


async def test_a_user_logs_in_sees_pages_and_logs_out(tmp_path: Path) -> None:
    settings = with_admin(tmp_path)
    async with (
        broker_with(tmp_path / "store", *settings) as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        assert (await visitor.get("/topics?sort=size")).place == (
            "/login?next=%2Ftopics%3Fsort%3Dsize"
        )
        assert await log_in(visitor, "admin", "wrong") == 401
        before = dict(visitor.cookies)
        assert await log_in(visitor, "admin") == 303
        assert visitor.cookies != before  # a known id does not become a session
        assert (await visitor.get("/topics")).status == 200
        number = dict(visitor.cookies)
        assert (await visitor.post("/logout")).place == "/login"
        visitor.cookies = number
        assert (await visitor.get("/topics")).status == 303


async def test_the_login_of_a_broker_that_checks_no_users_shows_the_way_on(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", "rpc.tls=false") as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        page = await visitor.get("/login")
        assert "This broker checks no users: continue without a login ." in page.text
        assert "pocketmq user add admin --admin" in page.text
        assert "--set access.check=users" in page.text
    async with (
        broker_with(tmp_path / "store", *with_admin(tmp_path)) as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        assert "continue without" not in (await visitor.get("/login")).text


async def test_a_user_may_do_what_the_broker_grants(tmp_path: Path) -> None:
    settings = with_admin(tmp_path)
    async with (
        broker_with(tmp_path / "store", *settings) as broker,
        console_of(broker.addresses["grpc"]) as visitor,
        users_of(broker) as admin,
    ):
        await admin.admin.create_topic("orders")
        await admin.admin.access.create_user("reader", SECRET)
        for resource in ("topic:*", "group:*"):
            grant = GrantState("reader", ["get", "list"], resource)
            await admin.admin.access.add_grant(grant)
        assert await log_in(visitor, "reader") == 303
        assert "orders" in (await visitor.get("/topics")).text
        assert "You see what your grants allow" in (await visitor.get("/")).text
        refused = await visitor.post("/topic/create", name="more")
        assert refused.status == 403
        assert "You may not do this" in refused.text
        with pytest.raises(errors.TopicNotFound):
            await admin.admin.describe_topic("more")


async def test_an_action_needs_the_token_of_its_visitor(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", "rpc.tls=false") as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        await visitor.get("/topics")
        token = visitor.token
        other = BrowserVisit(visitor._app)
        await other.get("/topics")
        assert other.token != token
        for body in ("name=orders", "name=orders&token=", f"name=orders&token={other.token}"):
            assert (await visitor.post_raw("/topic/create", body)).status == 403
        foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        form = f"name=orders&token={token}"
        assert (await visitor.post_raw("/topic/create", form, foreign)).status == 403
        own = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
        with pytest.raises(errors.TopicNotFound):
            await broker.client.admin.describe_topic("orders")
        assert (await visitor.post_raw("/topic/create", form, own)).status == 303
        assert await broker.client.admin.describe_topic("orders")


async def test_each_answer_has_the_strict_headers(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", "rpc.tls=false") as broker,
        console_of(broker.addresses["grpc"], token="the-token") as visitor,
    ):
        for target in ("/", "/nothing", "/assets/style.css", "/assets/nothing"):
            headers = (await visitor.get(target)).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["connection"] == "close"
        page = await visitor.get("/")
        assert page.headers["cache-control"] == "no-store"
        for banned in ("<script>", " style=", " onclick=", "javascript:", "http://www", "//cdn"):
            assert banned not in page.html
        visitor.cookies = {}
        cookie = (await visitor.get("/topics")).headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie


async def test_a_name_that_another_site_controls_gets_no_data(tmp_path: Path) -> None:
    async with (
        broker_with(tmp_path / "store", "rpc.tls=false") as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        visitor.host = "evil.example:5558"
        page = await visitor.get("/topics")
        assert page.status == 403
        assert "could have been made to point here" in page.text


async def test_no_secret_is_taken_where_others_can_read_it() -> None:
    async with console_of("127.0.0.1:1", is_private=False) as visitor:
        page = await visitor.get("/login")
        assert "no secret may be sent" in page.text
        assert "password" not in page.html
        assert (await visitor.post("/login", access_key="a", secret="b")).status == 403


async def test_a_defect_reveals_nothing_of_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*given: object, **named: object) -> None:
        raise RuntimeError("an inner secret")

    monkeypatch.setattr("pocketmq.console.listing.FoundList.page", fail)
    async with (
        broker_with(tmp_path / "store", "rpc.tls=false") as broker,
        application_of(broker.addresses["grpc"]) as app,
        listening(app) as address,
    ):
        answer = await page(address.removeprefix("http://"), "/topics")
        assert answer.startswith("HTTP/1.1 500")
        assert "inner secret" not in answer
        assert "default-src 'none'" in answer


async def test_a_form_has_a_limit(tmp_path: Path) -> None:
    async with console_of("127.0.0.1:1") as visitor:
        await visitor.get("/login")
        many = f"token={visitor.token}" + "&a=1" * 2_000
        assert (await visitor.post_raw("/topic/create", many)).status == 413


@pytest.mark.parametrize(
    ("host", "is_sure"),
    [
        ("127.0.0.1:5558", True), ("[::1]:5558", True), ("localhost:5558", True),
        ("LOCALHOST", True), ("10.0.0.7", True), ("evil.example:5558", False), ("", False),
        ("127.0.0.1.evil.example", False), ("localhost.evil.example:80", False),
    ],
)  # fmt: skip
def test_only_addresses_and_localhost_are_sure(host: str, is_sure: bool) -> None:
    assert is_sure_host(host) is is_sure


def test_a_session_ends_when_it_is_idle_and_the_oldest_makes_room() -> None:
    now = [100.0]
    visitors: Visitors[str] = Visitors(lambda key, secret: key or "nobody", lambda: now[0])
    one = visitors.enter("a", "a")
    now[0] += IDLE_S - 1
    assert visitors.visitor(one.number).access_key == "a"
    now[0] += IDLE_S - 1
    assert visitors.visitor(one.number).access_key == "a"
    now[0] += IDLE_S
    assert visitors.visitor(one.number).access_key == ""
    assert visitors.ended == ["a"]
    first = visitors.enter("first", "first")
    for number in range(SESSIONS_MAX):
        visitors.enter(f"u{number}", f"u{number}")
    assert visitors.visitor(first.number).access_key == ""
    assert "first" in visitors.ended
    assert visitors.visitor("short").number != "short"
