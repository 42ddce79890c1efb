"""Recent consumers are known, however many there are, for as long as it matters."""

import pytest

from pocketmq.services.admin import members
from pocketmq.services.admin.members import PULL, RECEIVE, SEEN_MS, Members
from tests.sim.clock import FakeClock


def names(kept: Members, group: str = "g") -> list[str]:
    return [member.client_id or member.address for member in kept.of_group(group)]


def test_the_last_one_heard_of_is_first() -> None:
    clock = FakeClock()
    kept = Members(clock)
    kept.saw("g", "orders", "a", "ipv4:10.0.0.1:1", RECEIVE)
    clock.advance(1)
    kept.saw("g", "bills", "b", "ipv4:10.0.0.2:2", PULL)
    kept.saw("other", "bills", "c", "ipv4:10.0.0.2:2", PULL)
    assert names(kept) == ["b", "a"]
    clock.advance(1)
    kept.saw("g", "bills", "a", "ipv4:10.0.0.1:9", RECEIVE)
    first = kept.of_group("g")[0]
    assert (first.client_id, first.address, first.mode) == ("a", "ipv4:10.0.0.1:9", RECEIVE)
    assert first.topics == ["bills", "orders"]
    assert first.seen_ms - first.since_ms == 2


def test_one_without_a_name_is_told_apart_by_its_address() -> None:
    kept = Members(FakeClock())
    kept.saw("g", "orders", "", "ipv4:10.0.0.1:1", PULL)
    kept.saw("g", "orders", "", "ipv4:10.0.0.1:2", PULL)
    assert [(m.client_id, m.address[-1]) for m in kept.of_group("g")] == [("", "1"), ("", "2")]


def test_who_says_nothing_is_forgotten() -> None:
    clock = FakeClock()
    kept = Members(clock)
    kept.saw("g", "orders", "a", "x", PULL)
    clock.advance(SEEN_MS)
    assert names(kept) == []


def test_no_more_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "KEPT_MAX", 10)
    monkeypatch.setattr(members, "TOPICS_MAX", 2)
    clock = FakeClock()
    kept = Members(clock)
    for number in range(25):
        clock.advance(1)
        kept.saw("g", "orders", str(number), "x", PULL)
        assert names(kept)[0] == str(number)
        assert len(names(kept)) <= 10
    for topic in "abc":
        kept.saw("g", topic, "24", "x", PULL)
    assert kept.of_group("g")[0].topics == ["b", "c"]


def test_connections_are_counted_by_group_and_way() -> None:
    kept = Members(FakeClock())
    kept.saw("g", "orders", "a", "x", PULL)
    kept.saw("g", "orders", "b", "x", PULL)
    kept.saw("CID_RMQ_SYS_x", "orders", "b", "x", RECEIVE)
    (gauge,) = kept.stats
    assert gauge.read() == {
        ("g", "other", "v1", "pull", "grpc", "false"): 2,
        ("CID_RMQ_SYS_x", "other", "v1", "pop", "grpc", "true"): 1,
    }
