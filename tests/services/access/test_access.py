"""The signature identifies the caller; an anonymous caller learns nothing about users."""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.format.signature import authorization_of, date_from_ms, page_token_of
from pocketmq.model.access import Action, Need, ResourceKind, User
from pocketmq.model.errors import AccessDenied, AdminsOnly, Unauthenticated
from pocketmq.model.topic import RETRY_PREFIX
from pocketmq.services.access.access import LOGGED_MAX, Access
from pocketmq.store.tables.users import UserTable
from tests.kit.users import (
    DATE,
    SECRET,
    WINDOW_MS,
    access_of,
    grant_of,
    signed,
)
from tests.sim.clock import START_MS, FakeClock
from tests.sim.disk import SimDisk

HOST = b"\x0a\0\0\x07" + b"\0\0\0\0"
PUB_ORDERS = Need((Action.PUB,), ResourceKind.TOPIC, "orders")
SUB_RETRY = Need((Action.SUB,), ResourceKind.GROUP, f"{RETRY_PREFIX}orders")


def caller(access: Access, metadata: dict[str, str]) -> str:
    """Returns the caller of a call, or why it has none."""
    try:
        found = access.caller(metadata.get("authorization"), metadata.get("x-mq-date-time"))
    except Unauthenticated as error:
        return error.why
    return found.user.access_key


def test_who_signs_is_known_each_time() -> None:
    access = access_of()
    assert [caller(access, signed(user)) for user in ("app", "app", "admin")] == [
        "app", "app", "admin",
    ]  # fmt: skip
    assert access.refused.values == {}


def test_a_wrong_secret_an_unknown_key_and_one_turned_off_look_alike() -> None:
    access = access_of()
    tried = [signed("app", "wrong"), signed("nobody"), signed("off")]
    assert {caller(access, one) for one in tried} == {"the access key or the signature is wrong"}
    assert access.refused.values == {("wrong",): 3}


def test_a_date_that_was_not_signed_is_wrong() -> None:
    other = date_from_ms(START_MS + 1_000)
    mixed = {**signed(), "x-mq-date-time": other}
    assert caller(access_of(), mixed) == "the access key or the signature is wrong"


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"authorization": "Bearer x", "x-mq-date-time": DATE},
        {"x-mq-date-time": DATE},
        {"authorization": signed()["authorization"]},
        {"authorization": "MQv2-HMAC-SHA1 Credential=,", "x-mq-date-time": DATE},
    ],
)
def test_a_call_without_a_signature_says_so(metadata: dict[str, str]) -> None:
    access = access_of()
    assert caller(access, metadata) == "the call has no signature"
    assert access.refused.values == {("unsigned",): 1}


@pytest.mark.parametrize("by_ms", [-WINDOW_MS - 1_000, WINDOW_MS + 1_000])
def test_a_date_out_of_the_window_is_told_also_of_a_known_signature(by_ms: int) -> None:
    clock = FakeClock()
    access = access_of(clock=clock)
    assert caller(access, signed()) == "app"
    clock.wall += by_ms
    told = caller(access, signed())
    assert "301 s from the broker's clock" in told
    assert "access.date_window_ms is 300 s" in told
    access.take(0)
    assert caller(access, signed()) == "app"


@pytest.mark.parametrize("by_ms", [-WINDOW_MS, 0, WINDOW_MS])
def test_a_date_at_the_end_of_the_window_is_in_it(by_ms: int) -> None:
    clock = FakeClock()
    clock.wall += by_ms
    assert caller(access_of(clock=clock), signed()) == "app"


def test_how_far_a_date_is_from_the_clock_is_told_in_whole_seconds() -> None:
    clock = FakeClock()
    clock.wall += 1_000_999
    assert ", 1000 s from the broker's clock" in caller(access_of(clock=clock), signed())


def test_any_text_is_a_date_where_there_is_no_window() -> None:
    access = access_of()
    assert caller(access, signed(date="Friday")) == "its 'Friday' is no date"
    access.take(0)
    assert caller(access, signed(date="Friday")) == "app"


def test_changes_hold_at_once_also_for_known_signatures() -> None:
    access = access_of()
    rights = access.caller(*signed().values())
    roster = access.table.roster
    roster.change("app", secret="another")
    access.refresh()
    assert caller(access, signed()) == "the access key or the signature is wrong"
    assert caller(access, signed(secret="another")) == "app"
    with pytest.raises(Unauthenticated):
        access.current(rights)
    rights = access.caller(*signed(secret="another").values())
    roster.grant(grant_of("app", "pub", "topic:orders"))
    access.refresh()
    assert access.current(rights).user.secret == "another"
    roster.remove("app")
    access.refresh()
    with pytest.raises(Unauthenticated):
        access.current(rights)


def test_who_is_made_again_or_turned_on_again_is_another_user() -> None:
    access = access_of()
    roster = access.table.roster
    first = access.caller(*signed().values())
    ended: list[str] = []
    forget = access.when_gone(first, lambda: ended.append("forgotten"))
    access.when_gone(first, lambda: ended.append("first"))
    forget()
    roster.remove("app")
    access.refresh()
    roster.add(User("app", SECRET))
    access.refresh()
    second = access.caller(*signed().values())
    for is_enabled in (False, True):
        roster.change("app", is_enabled=is_enabled)
        access.refresh()
    for before in (first, second):
        assert not access.may(before, HOST, PUB_ORDERS)
        with pytest.raises(Unauthenticated):
            access.current(before)
    assert access.current(access.caller(*signed().values())).generation > second.generation
    assert ended == ["first"]


def test_what_only_an_admin_may_do_ends_with_its_rights() -> None:
    access = access_of()
    roster = access.table.roster
    roster.change("app", is_admin=True)
    access.refresh()
    rights, ended = access.caller(*signed().values()), list[str]()
    access.when_gone(rights, lambda: ended.append("admin's"), needs_admin=True)
    access.when_gone(rights, lambda: ended.append("user's"))
    access.refresh()
    assert not ended
    roster.change("app", is_admin=False)
    access.refresh()
    assert ended == ["admin's"]
    roster.change("app", is_enabled=False)
    access.refresh()
    assert ended == ["admin's", "user's"]
    assert not access._open


def test_what_begins_after_its_user_is_gone_ends_at_once() -> None:
    access, ended = access_of(), list[str]()
    rights = access.caller(*signed().values())
    access.table.roster.remove("app")
    access.refresh()
    access.when_gone(rights, lambda: ended.append("late"))()
    assert ended == ["late"]
    assert not access._open


async def test_what_is_saved_holds_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    access = access_of()
    rights = access.caller(*signed().values())
    access.table.roster.grant(grant_of("app", "pub", "topic:orders"))
    await access.save("app: allow topic:orders changed", "admin")
    access.check(access.current(rights), [PUB_ORDERS], HOST)
    (record,) = caplog.records
    told = vars(record)
    assert record.message == "access.changed"
    assert (told["what"], told["by"]) == ("app: allow topic:orders changed", "admin")


async def test_what_was_saved_holds_after_a_crash() -> None:
    disk, place = SimDisk(), Path("/store")
    access = Access(UserTable(disk, place), FakeClock(), WINDOW_MS)
    access.table.roster.add(User("app", SECRET))
    await access.save("app: added", "")
    found = UserTable(SimDisk(disk.image), place)
    found.load()
    assert caller(Access(found, FakeClock(), WINDOW_MS), signed()) == "app"


def test_a_rule_for_a_network_holds_for_hosts_in_it_whatever_their_port() -> None:
    access = access_of(grant_of("app", "pub", "topic:orders", sources=("10.0.0.7",)))
    rights = access.caller(*signed().values())
    for port in (b"\0\0\0\0", b"\0\0\x12\x67"):
        for address, is_inside in ((b"\x0a\0\0\x07", True), (b"\x0a\0\0\x08", False)):
            assert access.may(rights, address + port, PUB_ORDERS) is is_inside
    access.check(rights, [PUB_ORDERS], HOST)
    with pytest.raises(AccessDenied):
        access.check(rights, [PUB_ORDERS], b"\x0a\0\0\x08" + bytes(4))


def test_an_admin_may_do_everything_also_later() -> None:
    access = access_of()
    rights = access.caller(*signed("admin").values())
    assert access.may(rights, HOST, PUB_ORDERS)
    access.table.roster.change("admin", is_admin=False)
    access.refresh()
    assert not access.may(rights, HOST, PUB_ORDERS)


def test_a_retry_topic_is_that_of_its_group_until_others_are_known_to_own_it() -> None:
    access = access_of(grant_of("app", "sub", "group:orders"))
    rights = access.caller(*signed().values())
    access.check(rights, [SUB_RETRY], HOST)
    assert access.may(rights, HOST, SUB_RETRY)
    access.know_owners(lambda topic: ["orders", f"owner of {topic}"])
    assert not access.may(rights, HOST, SUB_RETRY)
    with pytest.raises(AccessDenied) as caught:
        access.check(rights, [SUB_RETRY], HOST)
    assert caught.value.resource == "group:orders", "which other groups there are is not told"


def test_who_may_send_to_a_topic_named_like_a_retry_topic_needs_no_group() -> None:
    topic = Need((Action.PUB,), ResourceKind.TOPIC, f"{RETRY_PREFIX}orders")
    access = access_of(grant_of("app", "pub", f"topic:{RETRY_PREFIX}orders"))
    access.know_owners(lambda _: ["nobody's"])
    assert access.may(access.caller(*signed().values()), HOST, topic)


def test_no_more_signatures_are_known_than_fit() -> None:
    access = access_of()
    access.take(0)
    for number in range(4_096 + 5):
        assert caller(access, signed(date=str(number))) == "app"
    assert len(access._verified) == 5


def test_a_refusal_says_who_what_on_what_and_what_to_do() -> None:
    access = access_of(
        grant_of("app", "sub", "topic:orders"),
        grant_of("app", "pub", "topic:audit", is_allowed=False),
    )
    rights = access.caller(*signed().values())
    with pytest.raises(AccessDenied) as caught:
        access.check(rights, [PUB_ORDERS], HOST)
    assert str(caught.value) == (
        "user app may not pub 'topic:orders': no rule allows it; an admin changes that: "
        "pocketmq acl grant app pub 'topic:orders'"
    )
    with pytest.raises(AccessDenied, match=r"acl revoke --deny app pub 'topic:audit'"):
        access.check(rights, [Need((Action.PUB,), ResourceKind.TOPIC, "audit")], HOST)
    with pytest.raises(AdminsOnly, match="which is for admins"):
        access.check(rights, [Need((Action.SUB,), ResourceKind.TOPIC, "SCHEDULE_TOPIC_XXXX")], HOST)
    with pytest.raises(AdminsOnly, match="user app may not stop the broker"):
        access.check_admin(rights, "stop the broker")
    assert access.refused.values == {("forbidden",): 4}


def test_all_needs_of_a_call_have_to_be_met() -> None:
    access = access_of(grant_of("app", "pub", "topic:orders"))
    rights = access.caller(*signed().values())
    access.check(rights, [PUB_ORDERS], HOST)
    with pytest.raises(AccessDenied, match="group:g"):
        access.check(rights, [PUB_ORDERS, Need((Action.SUB,), ResourceKind.GROUP, "g")], HOST)


def basic(user: str, secret: str) -> str:
    """Returns the authorization that sends the secret itself."""
    return "Basic " + b64encode(f"{user}:{secret}".encode()).decode()


def bearer(user: str, secret: str) -> str:
    """Returns the authorization of a reader with a token."""
    return f"Bearer {page_token_of(user, secret)}"


@pytest.mark.parametrize("authorization", [basic, bearer])
def test_a_reader_of_pages_has_the_secret_or_a_token(
    authorization: Callable[[str, str], str],
) -> None:
    access = access_of()
    rights = access.of_reader(authorization("app", SECRET), is_private=True)
    assert rights.user.access_key == "app"
    for key, secret in (("app", "wrong"), ("nobody", SECRET), ("off", SECRET), ("", "")):
        with pytest.raises(Unauthenticated, match="access key or the signature is wrong"):
            access.of_reader(authorization(key, secret), is_private=True)


@pytest.mark.parametrize("text", ["", "Basic", "Basic !", "Basic YQ==", "Bearer x", "Digest YTpi"])
def test_what_is_neither_a_secret_nor_a_token_is_unsigned(text: str) -> None:
    with pytest.raises(Unauthenticated, match="without access key and secret, or a token"):
        access_of().of_reader(text, is_private=True)


def test_where_others_read_along_a_token_is_taken_and_the_secret_is_not() -> None:
    access = access_of()
    assert access.of_reader(bearer("app", SECRET), is_private=False).user.access_key == "app"
    for secret in (SECRET, "wrong"):
        with pytest.raises(Unauthenticated, match="sends the secret itself"):
            access.of_reader(basic("app", secret), is_private=False)
    assert SECRET not in page_token_of("app", SECRET)
    with pytest.raises(Unauthenticated):
        access.of_reader(basic("app", bearer("app", SECRET)), is_private=True)


def test_the_first_refusal_of_each_action_and_resource_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    access = access_of(clock=clock)
    rights = access.caller(*signed().values())

    def refuse(*needs: Need) -> list[str]:
        caplog.clear()
        for need in needs:
            with pytest.raises(AccessDenied):
                access.check(rights, [need], HOST)
        return [vars(record)["what"] for record in caplog.records]

    read = Need((Action.GET,), ResourceKind.GROUP, "billing")
    assert refuse(read, PUB_ORDERS, read) == ["get group:billing", "pub topic:orders"]
    clock.advance(30_000)
    assert refuse(PUB_ORDERS, read._replace(name="other")) == ["get group:other"]
    clock.advance(30_000)
    assert refuse(PUB_ORDERS, read._replace(name="other")) == ["pub topic:orders"]
    many = [read._replace(name=f"g{number}") for number in range(2 * LOGGED_MAX)]
    assert len(refuse(*many)) < LOGGED_MAX
    clock.advance(60_000)
    assert refuse(many[-1]) == [f"get group:g{2 * LOGGED_MAX - 1}"]


def test_a_stranger_writes_one_line_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    access = access_of()
    for second in range(20):
        date = f"20200101T0000{second:02}Z"
        signature = {"authorization": authorization_of("app", SECRET, date), "date": date}
        with pytest.raises(Unauthenticated, match="correct the client's clock"):
            access.caller(*signature.values())
        caller(access, signed("app", "guess"))
    assert [vars(record)["reason"] for record in caplog.records] == ["stale", "wrong"]


def test_refusals_are_logged_now_and_then_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    access = access_of(clock=clock)
    for _ in range(3):
        caller(access, signed("app", "guess"))
    clock.advance(59_999)
    caller(access, signed("app", "guess"))
    assert len(caplog.records) == 1
    clock.advance(1)
    caller(access, signed("app", "guess"))
    assert [record.message for record in caplog.records] == ["access.refused"] * 2
    assert "guess" not in str([vars(record) for record in caplog.records])
