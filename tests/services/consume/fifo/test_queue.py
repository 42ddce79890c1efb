"""An ordered queue leases a message group to one receive, in order, and loses nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pocketmq.format.order_changes import ReplayedOrder
from pocketmq.format.order_row import OrderedDelivery, QueueOrder, decode_order, encode_order
from pocketmq.model.consuming import INVISIBLE_MAX_MS, RENEWED_MAX_MS, RENEWED_MS
from pocketmq.services.consume.fifo.queue import (
    BROKER_CLAIM,
    WINDOW_MAX,
    OrderedQueue,
)

LEASE_MS = 30_000
FAR_MS = 900 + INVISIBLE_MAX_MS + 5


def queue_of(*keys: str) -> OrderedQueue:
    queue = OrderedQueue(QueueOrder())
    for number, key in enumerate(keys):
        if number >= queue.skip_settled():
            queue.scan(number, key)
    return queue


def nobody(_: str, __: int) -> bool:
    return False


def is_young(_: str, held_ms: int) -> bool:
    return held_ms < RENEWED_MAX_MS


def received(queue: OrderedQueue, now: int, count: int = 32, claim: str = "") -> list[int]:
    queue.end_leases(now, nobody)
    offsets = queue.ready(count)
    queue.lease(offsets, now, now + LEASE_MS, claim)
    return offsets


def test_a_message_group_waits_for_what_was_given_out_of_it() -> None:
    queue = queue_of("a", "b", "a", "b", "c")
    assert received(queue, 1, 2) == [0, 1]
    assert received(queue, 2) == [4], "the others are held"
    assert queue.settle(0, 1)
    assert received(queue, 3) == [2]
    assert received(queue, 4) == []
    assert queue.next_offset == 1


def test_a_batch_may_hold_several_of_one_group_and_is_settled_in_any_order() -> None:
    queue = queue_of("a", "a", "a")
    assert received(queue, 1, 2) == [0, 1]
    assert queue.settle(1, 1)
    assert received(queue, 2) == [], "an earlier one is not settled"
    assert queue.next_offset == 0
    assert queue.settle(0, 1)
    assert queue.next_offset == 2
    assert received(queue, 2) == [2]


def test_a_lease_that_ends_gives_the_same_message_first_once_more() -> None:
    queue = queue_of("a", "a")
    assert received(queue, 1, 1) == [0]
    assert queue.next_end_ms() == 1 + LEASE_MS
    assert received(queue, LEASE_MS) == []
    assert received(queue, LEASE_MS + 1, 1) == [0]
    assert queue.deliveries(0) == 2
    assert not queue.settle(0, 1), "the handle is of an earlier delivery"
    assert queue.settle(0, LEASE_MS + 1)
    assert not queue.settle(0, LEASE_MS + 1), "it is settled"


def test_a_late_ack_counts_while_nobody_else_was_given_the_message() -> None:
    queue = queue_of("a")
    received(queue, 1)
    queue.end_leases(1 + LEASE_MS, nobody)
    assert queue.ready(1) == [0]
    assert queue.settle(0, 1)
    assert queue.ready(1) == []


def test_a_changed_time_holds_the_group_until_then() -> None:
    queue = queue_of("a", "a", "b")
    received(queue, 1, 1)
    assert queue.change(0, 1, 500_000)
    assert received(queue, 100_000) == [2]
    assert received(queue, 499_999) == [2]
    assert received(queue, 500_000, 1) == [0]
    assert queue.change(0, 500_000, 500_000)
    assert received(queue, 500_000, 1) == [0], "given back at once, and given out at that moment"
    assert not queue.settle(0, 500_000), "its handle is told apart all the same"
    assert queue.settle(0, 500_001)


def test_a_batch_whose_first_comes_back_waits_for_its_last() -> None:
    queue = queue_of("a", "a")
    received(queue, 1)
    assert queue.change(0, 1, 10)
    assert received(queue, 20) == []
    assert queue.settle(1, 1)
    assert received(queue, 20) == [0]


def test_a_claim_gives_the_same_again_without_counting() -> None:
    queue = queue_of("a", "b")
    received(queue, 1, claim="c 1")
    assert queue.claimed("c 1", 2) == [
        (number, OrderedDelivery(1, 1, 1 + LEASE_MS, "c 1")) for number in (0, 1)
    ]
    queue.settle(0, 1)
    assert [number for number, _ in queue.claimed("c 1", 2)] == [1]
    assert queue.claimed("c 1", 1 + LEASE_MS) == []
    assert queue.claimed("c 2", 2) == []
    again = OrderedQueue(queue.order())
    assert [number for number, _ in again.claimed("c 1", 2)] == [1]


def test_what_did_not_reach_its_caller_was_not_given_out() -> None:
    queue = queue_of("a", "a")
    received(queue, 1, 1)
    queue.release([0], 1)
    assert received(queue, 2, 1) == [0]
    assert queue.deliveries(0) == 1


def test_what_an_earlier_receive_never_had_takes_nothing_back_from_a_later_one() -> None:
    queue = queue_of("a")
    received(queue, 1)
    assert received(queue, 1 + LEASE_MS) == [0]
    queue.release([0], 1)
    assert queue.ready(1) == []
    assert queue.deliveries(0) == 2
    queue.release([1], 1)
    assert queue.next_end_ms() == 1 + 2 * LEASE_MS


def test_what_was_taken_back_counts_as_delivered_once_its_handle_is_used() -> None:
    queue = queue_of("a")
    assert received(queue, 1) == [0]
    queue.release([0], 1)
    assert queue.deliveries(0) == 0
    assert queue.change(0, 1, 5)
    assert queue.deliveries(0) == 1
    queue.release([0], 1)
    assert queue.deliveries(0) == 0


def test_a_lease_renews_itself_while_its_client_lives_and_for_three_hours_at_most() -> None:
    queue = queue_of("a")
    queue.lease([0], 1, 1 + RENEWED_MS, "", "client")
    assert queue.end_leases(1 + RENEWED_MS, lambda client, _: client == "client")
    assert queue.ready(1) == []
    assert queue.next_end_ms() == 1 + 2 * RENEWED_MS
    assert not queue.end_leases(1 + RENEWED_MAX_MS, is_young)
    assert queue.ready(1) == [0]


@pytest.mark.parametrize(("left_ms", "is_renewed"), [(1, True), (0, False)])
def test_a_lease_of_three_hours_renews_itself_no_more(left_ms: int, *, is_renewed: bool) -> None:
    queue = queue_of("a")
    queue.lease([0], 1, 1 + RENEWED_MS, "", "client")
    assert queue.end_leases(1 + 3 * 3_600_000 - left_ms, is_young) == is_renewed
    assert queue.ready(1) == ([] if is_renewed else [0])


def test_a_lease_that_was_given_back_does_not_renew_itself() -> None:
    queue = queue_of("a")
    queue.lease([0], 1, 1 + RENEWED_MS, "", "client")
    queue.change(0, 1, 10)
    assert not queue.end_leases(10, lambda *_: True)
    assert queue.ready(1) == [0]


def test_what_is_unwanted_or_gone_from_the_log_is_settled() -> None:
    queue = OrderedQueue(QueueOrder(2))
    queue.pass_by(4)
    queue.scan(6, "a")
    assert queue.next_offset == 6
    queue.pass_by(9)
    queue.settle(6, 0)
    assert received(queue, 1) == [6]
    queue.settle(6, 1)
    assert queue.next_offset == 9


def test_no_more_is_looked_at_than_the_window_holds() -> None:
    queue = queue_of(*["a"] * WINDOW_MAX)
    assert queue.room == 0
    received(queue, 1, 10)
    queue.settle(0, 1)
    assert queue.room == 1


def test_times_that_were_changed_often_take_no_room() -> None:
    queue = queue_of("a", "b")
    received(queue, 1)
    for number in range(1_000):
        queue.change(0, 1, 5_000 + number)
    assert len(queue._ends) < 100
    assert received(queue, 5_998) == []
    queue.settle(1, 1)
    assert received(queue, 5_999) == [0]


def test_after_a_restart_nothing_goes_out_before_the_held_groups_are_known() -> None:
    queue = queue_of("a", "a", "b", "a")
    received(queue, 1, 2)
    queue.settle(0, 1)
    again = OrderedQueue(queue.order())
    assert again.must_scan
    assert again.settle(1, 1), "a handle is good before its message was looked at"
    again = OrderedQueue(queue.order())
    for number, key in ((1, "a"), (2, "b")):
        again.scan(number, key)
    assert received(again, 2) == [2]
    assert again.settle(1, 1)
    again.scan(3, "a")
    assert received(again, 2) == [3]


def test_a_queue_of_which_nothing_is_out_needs_no_look_before_something_goes_out() -> None:
    assert not OrderedQueue(QueueOrder()).must_scan
    assert not OrderedQueue(QueueOrder(7, frozenset({9}))).must_scan


def test_what_was_given_out_before_a_start_may_be_taken_back_before_anybody_looked() -> None:
    """A repeated receive returns it without a scan, and its answer may be lost as well."""
    queue = OrderedQueue(
        QueueOrder(0, frozenset(), {0: OrderedDelivery(1, 5, 5 + LEASE_MS, "c 1")})
    )
    queue.release([0], 5)
    queue.scan(0, "a")
    assert received(queue, 6) == [0]
    assert queue.deliveries(0) == 1


def test_what_the_broker_replaced_when_it_was_killed_waits_for_nobody() -> None:
    """No client has the message, and the broker that had it is gone."""
    queue = queue_of("a", "a", "b")
    minute_later = 60_000
    queue.lease([0], 1, minute_later, BROKER_CLAIM)
    received(queue, 1, 2)
    assert queue.seize(2, 1, minute_later)
    assert received(queue, 2) == []
    again = OrderedQueue(queue.order())
    for number, key in enumerate("aab"):
        again.scan(number, key)
    assert received(again, 2, 3) == [0, 1, 2]
    assert (again.deliveries(0), again.deliveries(2)) == (2, 2)


def given_out(popped_at_ms: int, visible_at_ms: int) -> OrderedQueue:
    """Returns a queue whose first message was given out before a start."""
    delivery = OrderedDelivery(1, popped_at_ms, visible_at_ms)
    return OrderedQueue(QueueOrder(0, frozenset(), {0: delivery}))


@pytest.mark.parametrize(
    ("popped_at_ms", "visible_at_ms", "bounded_ms"),
    [
        (1_001, 1_031, 930),
        (1_001, 1_002, 901),
        (FAR_MS, FAR_MS, 900 + INVISIBLE_MAX_MS),
        (1_001, 900, 900),
        (1_000, 1_030, 1_030),
        (950, 1_950, 1_950),
    ],
    ids=[
        "ahead",
        "ahead-for-a-moment",
        "ahead-without-end",
        "ahead-and-over",
        "of-this-moment",
        "long",
    ],
)
def test_a_lease_of_a_clock_that_was_ahead_lasts_its_own_length_from_the_start(
    popped_at_ms: int, visible_at_ms: int, bounded_ms: int
) -> None:
    """By the clock of now it is 1,000, and the broker began at 900."""
    queue = given_out(popped_at_ms, visible_at_ms)
    queue.bound_ends(1_000, 900)
    assert queue.order().delivered[0].visible_at_ms == bounded_ms


def test_nothing_is_kept_of_what_the_offset_has_passed() -> None:
    queue = queue_of("a", "b", "c")
    received(queue, 1)
    for number in (1, 0):
        assert queue.settle(number, 1)
    assert queue.order() == QueueOrder(2, frozenset(), {2: OrderedDelivery(1, 1, 1 + LEASE_MS)})


@dataclass
class Out:
    """A delivery as the walk knows it; `ends_ms` is 0 once it was taken back."""

    popped_ms: int
    ends_ms: int
    count: int
    claim: str = ""
    client: str = ""
    is_suspended: bool = False


class OrderedWalk(RuleBasedStateMachine):
    """Receives, acks, changes, moves and restarts in any order, beside plain lists.

    Of the clients that keep leases "lives" always does, and "died" does no more.
    """

    @initialize(keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
    def begin(self, keys: list[str]) -> None:
        self.now = 100_000
        self.keys = keys
        self.queue = OrderedQueue(QueueOrder())
        self.settled: set[int] = set()
        self.out: dict[int, Out] = {}
        """By queue offset, what was given out and is not settled."""
        self.old: list[tuple[int, int]] = []
        self.claims: dict[str, list[int]] = {}
        self.written = ReplayedOrder(QueueOrder())

    def _look(self, count: int) -> None:
        for _ in range(count):
            number = self.queue.skip_settled()
            if number < len(self.keys):
                self.queue.scan(number, self.keys[number])

    def _expected(self, count: int) -> list[int]:
        held = {self.keys[n] for n, one in self.out.items() if one.ends_ms > self.now}
        seen = range(self.queue.scanned)
        free = [n for n in seen if n not in self.settled and self.keys[n] not in held]
        return free[:count]

    def _ends_of_groups(self) -> list[int]:
        ends: dict[str, int] = {}
        for n, one in self.out.items():
            if n < self.queue.scanned:
                ends[self.keys[n]] = max(one.ends_ms, ends.get(self.keys[n], 0))
        return [ends_ms for ends_ms in ends.values() if ends_ms > self.now]

    def _end_leases(self) -> None:
        """Ends leases, except those whose client is alive."""
        renewed = [
            one
            for n, one in self.out.items()
            if n < self.queue.scanned
            and one.client == "lives"
            and one.ends_ms <= self.now < one.popped_ms + RENEWED_MAX_MS
        ]
        for one in renewed:
            one.ends_ms = self.now + RENEWED_MS
        is_renewed = self.queue.end_leases(
            self.now, lambda client, held_ms: client == "lives" and is_young(client, held_ms)
        )
        assert is_renewed == bool(renewed)
        next_ms, ends = self.queue.next_end_ms(), self._ends_of_groups()
        if ends:
            assert next_ms is not None
            assert self.now < next_ms <= min(ends)

    @rule(
        count=st.integers(1, 6),
        looked=st.integers(0, 8),
        lasts=st.integers(1, 9),
        claim=st.sampled_from(["", "c 1", "c 2"]),
        client=st.sampled_from(["", "", "lives", "died"]),
    )
    def receive(self, count: int, looked: int, lasts: int, claim: str, client: str) -> None:
        while self.queue.must_scan:
            assert self.queue.ready(count) == []
            self._look(1)
        self._look(looked)
        self._end_leases()
        offsets = self.queue.ready(count)
        assert offsets == self._expected(count)
        until_ms = self.now + lasts * 1_000
        popped = self.queue.lease(offsets, self.now, until_ms, claim, client)
        assert popped >= self.now
        for n in offsets:
            before = self.out.get(n)
            if before is not None:
                self.old.append((n, before.popped_ms))
            tried = before.count - before.is_suspended if before else 0
            self.out[n] = Out(popped, until_ms, tried + 1, claim, client)
            assert self.queue.deliveries(n) == self.queue.attempts(n) == tried + 1
            assert not self.queue.is_ready(n)
        if claim:
            self.claims[claim] = offsets

    def _some_out(self, chosen: int) -> tuple[int, Out]:
        n = sorted(self.out)[chosen % len(self.out)]
        return n, self.out[n]

    def _is_settled(self, number: int) -> None:
        self.settled.add(number)
        self.old.append((number, self.out.pop(number).popped_ms))

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99))
    def settle(self, chosen: int) -> None:
        n, one = self._some_out(chosen)
        assert self.queue.settle(n, one.popped_ms)
        self._is_settled(n)

    @precondition(lambda self: self.old)
    @rule(chosen=st.integers(0, 99))
    def use_an_old_handle(self, chosen: int) -> None:
        number, popped = self.old[chosen % len(self.old)]
        assert not self.queue.settle(number, popped)
        assert not self.queue.change(number, popped, self.now + 1)
        assert self.queue.seize(number, popped, self.now + 1) is None

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99), lasts=st.integers(0, 9))
    def change(self, chosen: int, lasts: int) -> None:
        n, one = self._some_out(chosen)
        one.count += not one.ends_ms  # Taken back before, it is with its caller after all.
        one.ends_ms, one.client = self.now + lasts * 1_000, ""
        assert self.queue.change(n, one.popped_ms, one.ends_ms)

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99))
    def suspend(self, chosen: int) -> None:
        n, one = self._some_out(chosen)
        if one.count:
            self.queue.suspend(n)
            one.is_suspended = True
            assert self.queue.attempts(n) == one.count - 1

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99))
    def take_back(self, chosen: int) -> None:
        n, one = self._some_out(chosen)
        if one.is_suspended:
            return
        for _ in range(2):
            self.queue.release([n], one.popped_ms)
        if one.ends_ms:
            one.ends_ms, one.count, one.claim, one.client = 0, one.count - 1, "", ""

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99), lasts=st.integers(1, 20), is_moved=st.booleans())
    def move(self, chosen: int, lasts: int, *, is_moved: bool) -> None:
        n, one = self._some_out(chosen)
        until_ms = self.now + lasts * 1_000
        before = self.queue.seize(n, one.popped_ms, until_ms)
        assert before is not None
        assert not self.queue.settle(n, one.popped_ms)
        assert self.queue.order().delivered[n].visible_at_ms == max(until_ms, one.ends_ms)
        if is_moved:
            assert self.queue.settle(n, one.popped_ms + 1)
            self._is_settled(n)
        else:
            self.queue.restore(n, before)

    @rule(client=st.sampled_from(["lives", "died"]))
    def leave(self, client: str) -> None:
        kept = [one for one in self.out.values() if one.client == client]
        assert self.queue.leave(client) == bool(kept)
        for one in kept:
            one.ends_ms, one.client = 1, ""

    @rule(count=st.integers(1, 3))
    def pass_by(self, count: int) -> None:
        if not self.queue.must_scan:
            begin = self.queue.skip_settled()
            end = min(begin + count, len(self.keys))
            self.queue.pass_by(max(end, begin))
            self.settled.update(range(begin, end))

    @rule(by=st.one_of(st.integers(0, 9_000), st.just(RENEWED_MAX_MS)))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule(by=st.integers(-9_000, 9_000))
    def the_clock_is_set(self, by: int) -> None:
        self.now = max(self.now + by, 50_000)
        assert self.queue.move_ends(by) == bool(self.out)
        for one in self.out.values():
            one.ends_ms = max(one.ends_ms + by, 1) if one.ends_ms else 0

    @rule()
    def write(self) -> None:
        """Changes applied one by one give the same order as the whole state."""
        self.written.change(self.queue.since())
        row = encode_order(self.queue.order(), 1)
        assert self.written.order() == decode_order(row, committed=0)

    @rule(is_folded=st.booleans())
    def restart(self, *, is_folded: bool) -> None:
        """Begins with the whole saved state, or with the changes since, one by one."""
        self.write()
        order = self.written.order()
        self.queue = OrderedQueue(order)
        if is_folded:
            self.queue.since()
            self.written = ReplayedOrder(order)
        self.out = {n: one for n, one in self.out.items() if one.count}
        for one in self.out.values():
            one.client, one.is_suspended = "", False
        for claim in {*self.claims}:
            self.claims[claim] = sorted(n for n, one in self.out.items() if one.claim == claim)

    @invariant()
    def all_below_the_next_offset_is_settled(self) -> None:
        if not hasattr(self, "queue"):
            return
        expected: Sequence[int] = [n for n in range(len(self.keys) + 1) if n not in self.settled]
        assert self.queue.next_offset == expected[0]
        assert self.queue.delivered_count == len(self.out)
        delivered = self.queue.order().delivered
        assert {n: (d.popped_at_ms, d.visible_at_ms, d.number) for n, d in delivered.items()} == {
            n: (one.popped_ms, one.ends_ms, one.count) for n, one in self.out.items()
        }
        assert self.queue.renewed() == {n: one.client for n, one in self.out.items() if one.client}

    @invariant()
    def a_claim_is_given_what_is_left_of_it(self) -> None:
        for claim, offsets in self.claims.items() if hasattr(self, "queue") else ():
            found = [n for n, _ in self.queue.claimed(claim, self.now)]
            its = [n for n in offsets if n in self.out and self.out[n].claim == claim]
            assert found == [n for n in its if self.out[n].ends_ms > self.now]


TestOrderedWalk = OrderedWalk.TestCase
TestOrderedWalk.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)), st.integers(0, 14))
def test_messages_passed_at_once_are_passed_as_one_by_one(
    settled: set[int], delivered: set[int], end: int
) -> None:
    order = QueueOrder(
        min({*range(14)} - settled),
        frozenset(at for at in settled if at > min({*range(14)} - settled)),
        {at: OrderedDelivery(1, 5, 9) for at in delivered - settled},
    )
    whole, stepwise = OrderedQueue(order), OrderedQueue(order)
    end = max(end, order.next_offset)
    whole.pass_by(end)
    for at in range(order.next_offset + 1, end + 1):
        stepwise.pass_by(max(at, stepwise.scanned))
    assert whole.order() == stepwise.order()
    assert (whole.scanned, whole.next_offset) == (stepwise.scanned, stepwise.next_offset)
    whole.since()
    whole.pass_by(whole.scanned + 1)
    assert whole.since().next_offset == whole.next_offset
