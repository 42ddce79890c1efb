"""Changes of an ordered queue, written one by one."""

from pocketmq.format.order_changes import OrderChange, ReplayedOrder, whole_change
from pocketmq.format.order_row import OrderedDelivery, QueueOrder

OLD, NEW = OrderedDelivery(1, 100, 200), OrderedDelivery(2, 300, 400)


def test_a_whole_change_leaves_nothing_of_before() -> None:
    replayed = ReplayedOrder(QueueOrder(5, frozenset({8}), {6: OLD}))
    replayed.change(OrderChange(False, 5, [9], [(7, OLD)]))
    replayed.change(whole_change(QueueOrder(2, frozenset({4}), {3: NEW})))
    assert replayed.order() == QueueOrder(2, frozenset({4}), {3: NEW})


def test_a_change_adds_to_what_was_before() -> None:
    replayed = ReplayedOrder(QueueOrder(5, frozenset({8}), {6: OLD}))
    replayed.change(OrderChange(False, 5, [9], [(7, NEW), (6, NEW)]))
    assert replayed.order() == QueueOrder(5, frozenset({8, 9}), {6: NEW, 7: NEW})


def test_what_was_taken_back_counts_as_not_given_out() -> None:
    replayed = ReplayedOrder(QueueOrder(5, frozenset(), {6: OLD}))
    replayed.change(OrderChange(False, 5, [], [(6, OrderedDelivery(0, 100, 0))]))
    assert replayed.order() == QueueOrder(5, frozenset(), {})
