"""Gates count the calls of a class, and refuse those beyond its limit or a caller's share."""

import pytest

from pocketmq.format.addresses import host_from_text
from pocketmq.model.errors import Draining, ShareTaken, TooManyRequests
from pocketmq.rpc.admission import (
    ADMIN_SLOTS,
    DEFAULT_LIMITS,
    Admission,
    CallClass,
    Gate,
    Holder,
    Shares,
    address_name,
)


def gate_of(limit: int) -> Gate:
    return Admission({**DEFAULT_LIMITS, CallClass.POLL: limit}).gate(CallClass.POLL)


def caller(address: str = "10.0.0.7:4711", user: str = "", *, is_admin: bool = False) -> Holder:
    """Returns who calls from an address, as a user where one is named."""
    host = address if ":" in address else f"{address}:4711"
    found = Holder(f"ipv4:{host}", host_from_text(host))
    return found.of(user, is_admin=is_admin) if user else found


def fill(gate: Gate, *holders: Holder) -> int:
    """Begins calls in turn while they are admitted; returns how many were."""
    count, left = 0, list(holders)
    while left:
        for holder in [*left]:
            if gate.refusal(holder) is None:
                gate.enter(holder.weights)
                count += 1
            else:
                left.remove(holder)
    return count


def test_a_gate_refuses_what_is_too_much() -> None:
    admission = Admission({**DEFAULT_LIMITS, CallClass.POLL: 1})
    gate, holder = admission.gate(CallClass.POLL), caller()
    assert gate.refusal(holder) is None
    gate.enter(holder.weights)
    refusal = gate.refusal(holder)
    assert isinstance(refusal, TooManyRequests)
    assert (refusal.field, refusal.limit) == ("poll", 1)
    assert admission.inflight_count() == 1
    gate.leave(holder.weights)
    assert gate.refusal(holder) is None


def test_a_gate_counts_right_or_not_at_all() -> None:
    gate, holder = gate_of(1), caller()
    with pytest.raises(AssertionError):
        gate.leave(holder.weights)
    gate.enter(holder.weights, 1 + ADMIN_SLOTS)
    with pytest.raises(AssertionError):
        gate.enter(holder.weights)


def test_only_sends_are_refused_when_the_broker_drains() -> None:
    admission = Admission()
    admission.close_sends()
    sends, holder = admission.gate(CallClass.SEND), caller()
    assert isinstance(sends.refusal(holder), Draining)
    assert isinstance(sends.refusal_of_all(), Draining)
    assert admission.gate(CallClass.POLL).refusal(holder) is None


def test_one_user_alone_gets_three_quarters_and_is_told_whose_share_that_is() -> None:
    gate, alice = gate_of(1_000), caller(user="alice")
    assert fill(gate, alice) == 750
    refusal = gate.refusal(alice)
    assert isinstance(refusal, ShareTaken)
    assert (refusal.holder, refusal.count, refusal.limit) == ("user alice", 750, 1_000)


def test_who_holds_nothing_is_let_in_beside_users_who_take_all_they_get() -> None:
    gate = gate_of(1_000)
    greedy = [caller(f"10.0.0.{n}", f"greedy{n}") for n in range(20)]
    fill(gate, *greedy)
    assert gate.refusal(greedy[0]) is not None
    assert gate.refusal(caller("10.0.1.1", "bob")) is None


def test_connections_of_one_user_share_what_the_user_gets() -> None:
    gate = gate_of(1_000)
    fill(gate, *[caller(f"10.0.0.7:{port}", "alice") for port in range(1, 50)])
    assert gate.held("user alice") == 750


def test_without_users_a_connection_and_an_address_have_shares() -> None:
    gate = gate_of(1_024)
    assert fill(gate, caller("10.0.0.7:1")) == 960
    fill(gate, *[caller(f"10.0.0.7:{port}") for port in range(2, 100)])
    assert gate.held("address 10.0.0.7") == 992
    assert gate.refusal(caller("10.0.0.7:100")) is not None
    assert gate.refusal(caller("10.0.0.8:1")) is None


def test_what_ends_gives_others_room() -> None:
    gate, alice, bob = gate_of(100), caller(user="alice"), caller(user="bob")
    fill(gate, alice, bob)
    for holder in (alice, bob):
        gate.leave(holder.weights, gate.held(f"user {holder.user}"))
    assert gate.count == 0
    assert fill(gate, alice) == 75


def test_admins_have_slots_when_all_others_are_taken() -> None:
    gate, root = gate_of(64), caller(user="root", is_admin=True)
    gate.enter((), 64)
    assert isinstance(gate.refusal(caller(user="alice")), TooManyRequests)
    assert gate.refusal_of_all() is None
    assert fill(gate, root) == ADMIN_SLOTS
    assert gate.refusal_of_all() is not None


@pytest.mark.parametrize("limit", [1, 7, 64, 1_000])
def test_there_is_room_for_as_many_as_may_enter_one_by_one(limit: int) -> None:
    for others in range(limit + 1):
        shares = Shares(limit)
        shares.enter((("user bob", 3),), others)
        weights = caller(user="alice").weights
        room = shares.room(weights)
        entered = 0
        while shares.count < limit and not shares.binding(weights):
            shares.enter(weights)
            entered += 1
        assert room == entered


def test_no_share_binds_below_the_mark_that_is_looked_at_first() -> None:
    for limit in (1, 2, 3, 4, 64, 1_000):
        gate, holder = gate_of(limit), caller(user="alice")
        assert fill(gate, holder) >= gate.tight


def test_a_customer_of_ipv6_has_one_address() -> None:
    one, other = (host_from_text(f"[2001:db8:1:2::{n}]:1") for n in (1, 2))
    assert address_name(one) == address_name(other) == "address 2001:db8:1:2::/64"
    assert address_name(host_from_text("[2001:db8:1:3::1]:1")) != address_name(one)
