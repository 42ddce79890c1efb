"""What goes out of an ordered queue: one receive a message group, each in order, nothing lost."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.format.order_changes import ReplayedOrder
from broker.format.order_row import Delivery, QueueOrder, decode_order, encode_order
from broker.services.consume.order_queue import RENEWED_MAX_MS, RENEWED_MS, WINDOW_MAX, OrderedQueue

LEASE_MS = 30_000


def queue_of(*keys: str) -> OrderedQueue:
    queue = OrderedQueue(QueueOrder())
    for number, key in enumerate(keys):
        if number >= queue.skip_settled():
            queue.scan(number, key)
    return queue


def nobody(_: str) -> bool:
    return False


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
        (number, Delivery(1, 1, 1 + LEASE_MS, "c 1")) for number in (0, 1)
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


def test_a_lease_renews_itself_while_its_client_lives_and_for_three_hours_at_most() -> None:
    queue = queue_of("a")
    queue.lease([0], 1, 1 + RENEWED_MS, "", "client")
    assert queue.end_leases(1 + RENEWED_MS, lambda client: client == "client")
    assert queue.ready(1) == []
    assert queue.next_end_ms() == 1 + 2 * RENEWED_MS
    assert not queue.end_leases(1 + RENEWED_MAX_MS, lambda _: True)
    assert queue.ready(1) == [0]


def test_a_lease_that_was_given_back_does_not_renew_itself() -> None:
    queue = queue_of("a")
    queue.lease([0], 1, 1 + RENEWED_MS, "", "client")
    queue.change(0, 1, 10)
    assert not queue.end_leases(10, lambda _: True)
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


def test_what_was_given_out_before_a_start_may_be_taken_back_before_anybody_looked() -> None:
    """A receive that is made again is given it without a look, and its answer may be lost too."""
    queue = OrderedQueue(QueueOrder(0, frozenset(), {0: Delivery(1, 5, 5 + LEASE_MS, "c 1")}))
    queue.release([0], 5)
    queue.scan(0, "a")
    assert received(queue, 6) == [0]
    assert queue.deliveries(0) == 1


class OrderedWalk(RuleBasedStateMachine):
    """Receives, acks, changes and restarts in any order, beside plain lists."""

    @initialize(keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
    def begin(self, keys: list[str]) -> None:
        self.now = 1_000
        self.keys = keys
        self.queue = OrderedQueue(QueueOrder())
        self.settled: set[int] = set()
        self.out: dict[int, tuple[int, int, int]] = {}
        """Queue offset -> (handle's time, ends, deliveries)."""
        self.old: list[tuple[int, int]] = []
        self.written = ReplayedOrder(QueueOrder())

    def _look(self, count: int) -> None:
        for _ in range(count):
            number = self.queue.skip_settled()
            if number < len(self.keys):
                self.queue.scan(number, self.keys[number])

    def _expected(self, count: int) -> list[int]:
        held = {
            self.keys[n] for n, (_, _, _) in self.out.items() if n not in self.settled
            and self._is_group_held(self.keys[n])
        }  # fmt: skip
        seen = range(self.queue.scanned)
        free = [n for n in seen if n not in self.settled and self.keys[n] not in held]
        return free[:count]

    def _is_group_held(self, key: str) -> bool:
        return any(
            ends > self.now
            for n, (_, ends, _) in self.out.items()
            if self.keys[n] == key and n not in self.settled
        )

    @rule(count=st.integers(1, 6), looked=st.integers(0, 8), lasts=st.integers(1, 9))
    def receive(self, count: int, looked: int, lasts: int) -> None:
        while self.queue.must_scan:
            self._look(1)
        self._look(looked)
        self.queue.end_leases(self.now, nobody)
        offsets = self.queue.ready(count)
        assert offsets == self._expected(count)
        popped = self.queue.lease(offsets, self.now, self.now + lasts * 1_000)
        for number in offsets:
            before = self.out.get(number)
            if before is not None:
                self.old.append((number, before[0]))
            deliveries = (before[2] if before else 0) + 1
            self.out[number] = (popped, self.now + lasts * 1_000, deliveries)
            assert self.queue.deliveries(number) == deliveries

    def _some_out(self, chosen: int) -> int:
        return sorted(self.out)[chosen % len(self.out)]

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99))
    def settle(self, chosen: int) -> None:
        number = self._some_out(chosen)
        assert self.queue.settle(number, self.out[number][0]) == (number not in self.settled)
        self.settled.add(number)

    @precondition(lambda self: self.old)
    @rule(chosen=st.integers(0, 99))
    def settle_by_an_old_handle(self, chosen: int) -> None:
        number, popped = self.old[chosen % len(self.old)]
        assert not self.queue.settle(number, popped)

    @precondition(lambda self: self.out)
    @rule(chosen=st.integers(0, 99), lasts=st.integers(0, 9))
    def change(self, chosen: int, lasts: int) -> None:
        number = self._some_out(chosen)
        popped, _, deliveries = self.out[number]
        until = self.now + lasts * 1_000
        assert self.queue.change(number, popped, until) == (number not in self.settled)
        self.out[number] = (popped, until, deliveries)

    @rule(by=st.integers(0, 9_000))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule()
    def write(self) -> None:
        self.written.change(self.queue.since())

    @rule(is_folded=st.booleans())
    def restart(self, *, is_folded: bool) -> None:
        """Begin with what was written whole, or with what changed since, change by change."""
        row = encode_order(self.queue.order(), 1)
        self.write()
        order = decode_order(row, committed=0)
        assert self.written.order() == order
        self.queue = OrderedQueue(order)
        if is_folded:
            self.queue.since()
            self.written = ReplayedOrder(order)

    @invariant()
    def all_below_the_next_offset_is_settled(self) -> None:
        if not hasattr(self, "queue"):
            return
        expected: Sequence[int] = [n for n in range(len(self.keys) + 1) if n not in self.settled]
        assert self.queue.next_offset == expected[0]
        unsettled = {n for n in self.out if n not in self.settled}
        assert self.queue.delivered_count == len(unsettled)


TestOrderedWalk = OrderedWalk.TestCase
TestOrderedWalk.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
