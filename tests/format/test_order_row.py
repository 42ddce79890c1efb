"""Rows of ordered queues: a real broker's are read, and ours say to it what it can know."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.order_row import OrderedDelivery, QueueOrder, decode_order, encode_order

REAL = {
    "cm": 5, "i": 60000, "l": 1795221452479, "o": [3, 1, 2], "oc": {}, "popTime": 1795221452479,
}  # fmt: skip
"""Of the golden store `semantics`: 3, 4 and 5 were received, 3 and 5 acknowledged."""
OFFSETS = st.integers(0, 2**62)
TIMES = st.integers(0, 2**45)
DELIVERIES = st.builds(OrderedDelivery, st.integers(1, 40), TIMES, TIMES, st.text(max_size=9))


@st.composite
def orders(draw: st.DrawFn) -> QueueOrder:
    begin = draw(OFFSETS)
    settled = draw(st.frozensets(st.integers(begin + 1, begin + 300), max_size=60))
    free = st.integers(begin, begin + 300).filter(lambda offset: offset not in settled)
    return QueueOrder(begin, settled, draw(st.dictionaries(free, DELIVERIES, max_size=70)))


def test_what_a_real_broker_left_unsettled_is_hidden_until_its_time() -> None:
    found = decode_order(REAL, committed=4)
    assert found.next_offset == 4
    assert found.settled == {5}
    assert found.delivered == {4: OrderedDelivery(1, 1795221452479, 1795221512479)}
    late = decode_order(REAL, committed=3)
    assert late == found, "the committed offset lags behind the row"


def test_times_and_counts_of_a_real_row_are_those_of_each_message() -> None:
    row = {**REAL, "cm": 0, "oc": {4: 2}, "ot": {3: 7}, "a": "again", "o": [3, 1]}
    assert decode_order(row, committed=0).delivered == {
        3: OrderedDelivery(1, 1795221452479, 7, " again"),
        4: OrderedDelivery(3, 1795221452479, 1795221512479, " again"),
    }


def test_a_committed_offset_behind_a_real_row_leaves_nothing_of_it() -> None:
    assert decode_order(REAL, committed=6) == QueueOrder(6)


@given(orders())
def test_a_row_is_read_as_it_was_written(order: QueueOrder) -> None:
    assert decode_order(encode_order(order, 1), committed=0) == order


def _names(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value, *(name for own in value.values() for name in _names(own))]
    return [name for own in value for name in _names(own)] if isinstance(value, list) else []


@given(orders())
def test_a_real_broker_can_pass_over_what_it_does_not_know(order: QueueOrder) -> None:
    """It stops at a name that is a number, which goes without quotes."""
    names = _names(encode_order(order, 1)["pocketmq"])
    assert not [name for name in names if str(name).isdigit()]


def test_a_row_of_an_earlier_form_is_read() -> None:
    own = {"next": 3, "settled": [[5, 6]], "delivered": {4: [2, 7, 9, "who"], "x": [1, 1, 1, ""]}}
    found = decode_order({**REAL, "pocketmq": own}, committed=0)
    assert found == QueueOrder(3, frozenset({5}), {4: OrderedDelivery(2, 7, 9, "who")})


@given(orders())
def test_a_real_broker_knows_of_the_first_messages_which_are_settled(order: QueueOrder) -> None:
    row = {k: v for k, v in encode_order(order, 1).items() if k != "pocketmq"}
    assert -(2**63) <= row["cm"] < 2**63
    assert len(row["o"]) <= 64
    found = decode_order(row, committed=order.next_offset)
    shown = {row["o"][0] + (distance if n else 0) for n, distance in enumerate(row["o"])}
    known = sorted({*order.settled, *order.delivered})
    assert sorted(shown) == known[:64]
    assert {o: d.visible_at_ms for o, d in found.delivered.items()} == {
        o: d.visible_at_ms for o, d in order.delivered.items() if o in shown
    }
    assert {o: d.number for o, d in found.delivered.items()} == {
        o: d.number for o, d in order.delivered.items() if o in shown
    }


MEMBERS = st.sampled_from(["cm", "i", "o", "oc", "ot", "popTime", "a", "pocketmq", "next"])
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
NESTED = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(MEMBERS, NESTED), OFFSETS)
def test_whatever_stands_in_a_row_the_committed_offset_holds(
    row: dict[str, object], committed: int
) -> None:
    found = decode_order(row, committed)
    assert found.next_offset >= committed
    assert all(offset > found.next_offset for offset in found.settled)
    assert all(offset >= found.next_offset for offset in found.delivered)
    assert not found.settled & found.delivered.keys()
