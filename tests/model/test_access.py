"""Rules: what they are about, which of them decide, and how they are changed."""

import pytest

from pocketmq.model.access import (
    Action,
    Need,
    ResourceKind,
    User,
    actions_from_text,
    resource_from_text,
    source_from_text,
    text_from_actions,
)
from pocketmq.model.errors import (
    GrantNotFound,
    IllegalGrant,
    IllegalUser,
    UserExists,
    UserNotFound,
)
from pocketmq.model.rights import KNOWN_MAX, Rights, Verdict
from pocketmq.model.roster import Roster
from tests.kit.users import grant_of

HERE, THERE = b"\x0a\0\0\x07", b"\xc0\0\x02\x01"
USER = User("app", "s")


def verdict(need: Need, *grants: tuple[str, str] | tuple[str, str, str], at: bytes = HERE) -> str:
    """Returns what rules of (actions, resource, what more) say: yes or no, and why."""
    found = []
    for actions, resource, *more in grants:
        options: dict[str, object] = {}
        if more and more[0] == "deny":
            options["is_allowed"] = False
        elif more:
            options["sources"] = (source_from_text(more[0]),)
        found.append(grant_of("app", actions, resource, **options))
    rights = Rights(USER, found)
    told = rights.verdict(need, at)
    assert rights.may(need, at) == rights.may(need, at) == told.is_allowed
    return told.why


def topic(name: str, *actions: Action) -> Need:
    return Need(actions or (Action.PUB,), ResourceKind.TOPIC, name)


YES, NO, DENIED = "a rule allows it", "no rule allows it", "a rule denies it"


@pytest.mark.parametrize(
    ("need", "grants", "why"),
    [
        (topic("orders"), [], NO),
        (topic("orders"), [("pub", "topic:orders")], YES),
        (topic("orders"), [("sub,get", "topic:orders")], NO),
        (topic("orders"), [("all", "topic:orders")], YES),
        (topic("orders"), [("pub", "topic:orders-*")], NO),
        (topic("orders-eu"), [("pub", "topic:orders-*")], YES),
        (topic("orders"), [("pub", "topic:*")], YES),
        (topic("orders"), [("pub", "*")], YES),
        (topic("orders"), [("pub", "group:orders")], NO),
        (topic("orders", Action.PUB, Action.GET), [("get", "topic:orders")], YES),
        (topic("orders"), [("pub", "topic:*"), ("pub", "topic:orders", "deny")], DENIED),
        (topic("orders"), [("pub", "topic:orders"), ("all", "topic:*", "deny")], DENIED),
        (topic("others"), [("pub", "topic:*"), ("pub", "topic:orders", "deny")], YES),
        (topic("*", Action.LIST), [("list", "topic:a*")], NO),
        (topic("*", Action.LIST), [("list", "topic:*")], YES),
        (topic("orders"), [("pub", "topic:orders", "10.0.0.0/8")], YES),
        (topic("orders"), [("pub", "topic:orders", "10.0.0.8")], NO),
        (topic("orders"), [("pub", "topic:orders", "2001:db8::/32")], NO),
        (Need((Action.PUB,), ResourceKind.CLUSTER, "c"), [("pub", "cluster:c")], YES),
    ],
)
def test_the_rules_decide(need: Need, grants: list[tuple[str, str]], why: str) -> None:
    assert verdict(need, *grants) == why


def test_a_rule_holds_only_where_it_says() -> None:
    rule = ("pub", "topic:orders", "10.0.0.0/8")
    assert verdict(topic("orders"), rule, at=HERE) == YES
    assert verdict(topic("orders"), rule, at=THERE) == NO


@pytest.mark.parametrize(
    "need",
    [topic("SCHEDULE_TOPIC_XXXX"), Need((Action.SUB,), ResourceKind.GROUP, "CID_RMQ_SYS_TRANS")],
)
def test_what_belongs_to_the_broker_is_for_admins_alone(need: Need) -> None:
    assert "belongs to the broker" in verdict(need, ("all", "*"))
    assert Rights(USER._replace(is_admin=True), ()).may(need, HERE)


def test_an_admin_may_everything_unless_turned_off() -> None:
    admin = User("admin", "s", is_admin=True)
    assert Rights(admin, ()).verdict(topic("t"), HERE) == Verdict(
        True, "an admin may do everything"
    )
    off = Rights(admin._replace(is_enabled=False), ()).verdict(topic("t"), HERE)
    assert off == Verdict(False, "the user is disabled")


def test_of_several_actions_one_that_nothing_denies_is_enough() -> None:
    """A consumer that must not send still finds its topic."""
    either = topic("t", Action.PUB, Action.SUB, Action.GET)
    no_sends = ("pub", "topic:t", "deny")
    assert verdict(either, ("sub", "topic:t"), no_sends) == YES
    assert verdict(either, ("pub", "topic:t"), no_sends) == DENIED
    assert verdict(either, no_sends) == DENIED
    assert verdict(either, ("all", "*"), ("all", "topic:t", "deny")) == DENIED


def test_an_address_of_ipv4_that_is_written_as_one_of_ipv6_is_the_same() -> None:
    """As behind balancers, and ports for both, clients may look."""
    mapped = bytes(10) + b"\xff\xff" + HERE
    rules = [("pub", "topic:t", "10.0.0.0/8")]
    assert verdict(topic("t"), *rules, at=mapped) == YES
    denial = grant_of("app", "pub", "topic:t", is_allowed=False, sources=("10.0.0.0/8",))
    assert not Rights(USER, [grant_of("app", "all", "*"), denial]).may(topic("t"), mapped)
    assert verdict(topic("t"), ("pub", "topic:t", "::/0"), at=mapped) == NO


def test_answers_are_kept_of_so_many_things_and_no_more() -> None:
    rights = Rights(USER, [grant_of("app", "pub", "topic:t1*")])
    for number in range(KNOWN_MAX + 10):
        assert rights.may(topic(f"t{number}"), HERE) == str(number).startswith("1")
    assert not rights.may(topic("t2"), HERE)


@pytest.mark.parametrize(
    "text",
    ["", "topic", "topic:", "queue:q", "topic:a*b", "**x:", "topic:\n", "topic:" + 256 * "x"],
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(IllegalGrant, match="resource"):
        resource_from_text(text)


def test_texts_are_read_in_any_case_and_written_in_one() -> None:
    assert text_from_actions(actions_from_text("SUB, Pub")) == "pub,sub"
    assert str(resource_from_text("Topic:A-*")) == "topic:A-*"
    assert str(resource_from_text("*")) == "*"
    assert source_from_text("10.1.2.3/8") == "10.0.0.0/8"
    with pytest.raises(IllegalGrant, match="not one of all, pub"):
        actions_from_text("pub,write")
    with pytest.raises(IllegalGrant, match="network"):
        source_from_text("nowhere")


@pytest.mark.parametrize("key", ["", "a b", "a/b", "a,b", "a:b", "ä", 65 * "x"])
def test_a_key_that_clients_could_not_send_is_refused(key: str) -> None:
    with pytest.raises(IllegalUser):
        Roster().add(User(key, "secret"))


@pytest.mark.parametrize("secret", ["", "a b", "ä", "a\n", 257 * "x"])
def test_a_secret_that_clients_could_not_send_is_refused_and_not_told(secret: str) -> None:
    with pytest.raises(IllegalUser) as caught:
        Roster().add(User("key", secret))
    assert not secret or secret not in str(caught.value)


def test_users_come_change_and_go_with_their_rules() -> None:
    roster = Roster([USER])
    with pytest.raises(UserExists):
        roster.add(USER)
    roster.change(USER.access_key, is_admin=True)
    assert roster.existing("app").is_admin
    roster.grant(grant_of("app", "pub", "topic:t"))
    roster.remove("app")
    assert (roster.users, roster.grants) == ({}, [])
    for ask in (roster.existing, roster.remove):
        with pytest.raises(UserNotFound):
            ask("app")
    with pytest.raises(UserNotFound):
        roster.grant(grant_of("app", "pub", "topic:t"))


def test_actions_are_added_to_a_rule_and_taken_out_of_it() -> None:
    roster = Roster([USER])
    one = grant_of("app", "pub", "topic:t")
    roster.grant(one)
    assert roster.grant(grant_of("app", "sub", "topic:t")) == grant_of("app", "pub,sub", "topic:t")
    far = grant_of("app", "pub", "topic:t", sources=("10.0.0.0/8",))
    denial = grant_of("app", "pub", "topic:t", is_allowed=False)
    roster.grant(far)
    roster.grant(denial)
    assert len(roster.grants) == 3
    left = roster.revoke("app", frozenset({Action.PUB}), resource_from_text("topic:t"))
    assert left == [grant_of("app", "sub", "topic:t"), denial]
    with pytest.raises(GrantNotFound, match="allows pub on topic:t"):
        roster.revoke("app", frozenset({Action.PUB}), resource_from_text("topic:t"))
    roster.revoke("app", frozenset({Action.ALL}), resource_from_text("topic:t"), is_allowed=False)
    assert roster.grants == [grant_of("app", "sub", "topic:t")]


def test_all_is_one_action_and_all_others_without_one() -> None:
    roster = Roster([USER])
    assert roster.grant(grant_of("app", "pub,all", "*")).actions == {Action.ALL}
    roster.revoke("app", frozenset({Action.PUB}), resource_from_text("*"))
    (left,) = roster.grants
    assert left.actions == frozenset(Action) - {Action.ALL, Action.PUB}
