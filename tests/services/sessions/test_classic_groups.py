"""Members and subscriptions of classic groups, as heartbeats, farewells and silence leave them."""

import pytest

from pocketmq.model.errors import CapacityReached, TooManyElements
from pocketmq.services.sessions import classic_groups
from pocketmq.services.sessions.classic_groups import (
    SILENCE_MS,
    SUBSCRIPTIONS_MAX,
    ClassicConsumer,
    ClassicGroups,
    ClassicSubscription,
    Heartbeat,
)


def subscription(topic: str, expression: str = "*", version: int = 1) -> ClassicSubscription:
    return ClassicSubscription(topic, expression, "TAG", version)


def beat(
    client_id: str, *topics: str | ClassicSubscription, group: str = "g", producer: str = ""
) -> Heartbeat:
    wanted = tuple(subscription(one) if isinstance(one, str) else one for one in topics)
    consumer = ClassicConsumer(group, True, False, "CONSUME_FROM_FIRST_OFFSET", wanted)
    return Heartbeat(client_id, (producer,) if producer else (), (consumer,), "JAVA", 479)


@pytest.fixture
def groups() -> ClassicGroups:
    """The group g with the clients a and b, on connections 1 and 2, both subscribed to t."""
    found = ClassicGroups()
    assert found.beat(1, beat("a", "t"), 0) == ["g"]
    assert found.beat(2, beat("b", "t"), 0) == ["g"]
    return found


def test_a_heartbeat_that_changes_nothing_changes_no_group(groups: ClassicGroups) -> None:
    assert groups.beat(1, beat("a", "t"), 1) == []
    assert groups.consumer_ids("g") == ["a", "b"]


def test_another_client_on_a_connection_takes_its_place(groups: ClassicGroups) -> None:
    assert groups.beat(1, beat("c", "t"), 1) == ["g"]
    assert groups.consumer_ids("g") == ["c", "b"]


def test_topics_that_come_or_go_change_a_group(groups: ClassicGroups) -> None:
    assert groups.beat(1, beat("a", "t", "u"), 1) == ["g"]
    assert groups.beat(1, beat("a", "u"), 2) == ["g"]
    found = groups.group("g")
    assert found is not None
    assert [*found.subscriptions] == ["u"]


@pytest.mark.parametrize(("version", "expression"), [(0, "*"), (1, "*"), (2, "A || B")])
def test_a_newer_subscription_replaces_the_known_one(
    groups: ClassicGroups, version: int, expression: str
) -> None:
    groups.beat(2, beat("b", subscription("t", "A || B", version)), 1)
    found = groups.group("g")
    assert found is not None
    assert found.subscriptions["t"].expression == expression


def test_who_unregisters_leaves_and_only_the_client_itself_can(groups: ClassicGroups) -> None:
    assert groups.leave(1, "b", producer_group="", consumer_group="g") == []
    assert groups.leave(1, "a", producer_group="", consumer_group="g") == ["g"]
    assert groups.leave(1, "a", producer_group="", consumer_group="g") == []
    assert groups.consumer_ids("g") == ["b"]


def test_a_group_ends_with_its_last_member(groups: ClassicGroups) -> None:
    assert groups.gone(1) == ["g"]
    assert groups.gone(2) == ["g"]
    assert (groups.group("g"), groups.consumer_groups, groups.consumer_ids("g")) == (None, [], [])


def test_producers_are_known_by_group_until_they_leave() -> None:
    groups = ClassicGroups()
    groups.beat(1, beat("a", "t", producer="p"), 0)
    groups.beat(2, beat("b", "t", producer="p"), 0)
    assert [one.client_id for one in groups.producers("p").values()] == ["a", "b"]
    groups.leave(1, "a", producer_group="p", consumer_group="")
    assert [*groups.producers("p")] == [2]
    groups.gone(2)
    assert groups.producer_groups == []


def test_silent_members_are_removed_with_their_connections(groups: ClassicGroups) -> None:
    groups.beat(2, beat("b", "t", producer="p"), SILENCE_MS)
    assert groups.expire(SILENCE_MS) == ([], [])
    assert groups.expire(SILENCE_MS + 1) == (["g"], [1])
    assert groups.consumer_ids("g") == ["b"]
    assert groups.expire(2 * SILENCE_MS + 1) == (["g"], [2])
    assert groups.producer_groups == []


def test_a_client_is_found_by_its_id(groups: ClassicGroups) -> None:
    assert groups.connection_of("g", "b") == 2
    assert groups.connection_of("g", "c") is None
    assert groups.connection_of("none", "b") is None


def test_members_and_subscriptions_are_bounded_and_a_refusal_adds_nothing(
    groups: ClassicGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classic_groups, "MEMBERS_MAX", 3)
    groups.beat(3, beat("c", "t"), 0)
    with pytest.raises(CapacityReached, match="at most 3 members"):
        groups.beat(4, beat("d", "t"), 0)
    groups.beat(3, beat("c", "t"), 1)
    with pytest.raises(TooManyElements):
        groups.beat(3, beat("c", *map(str, range(SUBSCRIPTIONS_MAX + 1))), 1)
    groups.gone(3)
    groups.beat(4, beat("d", "t"), 0)
    assert groups.consumer_ids("g") == ["a", "b", "d"]
