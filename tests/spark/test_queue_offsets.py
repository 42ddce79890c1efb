"""The plans of streams of queues: what is read next, what was lost, and by how many tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.spark.queue_offsets import (
    SPAN_SIZE_MIN,
    Held,
    MessagesLost,
    QueueSpan,
    check_losses,
    first_offsets,
    later_offsets,
    shared,
    spans_between,
)

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
HELD: Held = {A0: range(3, 10), A1: range(0), B0: range(5, 6)}


def test_streams_begin_where_asked() -> None:
    assert first_offsets("earliest", HELD) == {A0: 3, A1: 0, B0: 5}
    assert first_offsets("latest", HELD) == {A0: 10, A1: 0, B0: 6}
    assert first_offsets({A0: 7, B0: -1}, HELD) == {A0: 7, A1: 0, B0: 6}
    assert first_offsets({A0: 1, B0: 99, A1: -2}, HELD) == {A0: 3, A1: 0, B0: 6}
    with pytest.raises(ValueError, match="queue 4 of a, which is not read"):
        first_offsets({("a", 4): 0}, HELD)


def test_without_a_limit_all_that_is_there_is_read() -> None:
    assert later_offsets({A0: 4}, HELD, None) == {A0: 10, A1: 0, B0: 6}
    gone = ("gone", 0)
    assert later_offsets({A0: 4, gone: 9}, HELD, None)[gone] == 9


def test_a_new_queue_begins_at_its_oldest_message() -> None:
    assert spans_between({A0: 4}, {A0: 10, B0: 6}, HELD) == [
        QueueSpan("a", 0, 4, 10),
        QueueSpan("b", 0, 5, 6),
    ]


QUEUES = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9)),
    st.tuples(st.integers(0, 50), st.integers(0, 60)).map(lambda pair: range(pair[0], sum(pair))),
    min_size=1,
)


@given(QUEUES, st.integers(1, 30))
def test_limited_batches_read_each_message_once_and_end(held: Held, limit: int) -> None:
    start = first_offsets("earliest", held)
    read: list[QueueSpan] = []
    for _ in range(sum(map(len, held.values())) + 1):
        end = later_offsets(start, held, limit)
        spans = spans_between(start, end, held)
        assert sum(span.end - span.begin for span in spans) <= limit
        read += spans
        if end == start:
            break
        start = end
    assert start == first_offsets("latest", held)
    for key, one in held.items():
        found = [n for *other, begin, end in read if (*other,) == key for n in range(begin, end)]
        assert found == list(one)


def test_more_queues_than_messages_are_served_in_turn() -> None:
    held = {("a", number): range(1_000) for number in range(50)}
    start = first_offsets("earliest", held)
    for _ in range(50):
        start = later_offsets(start, held, 7)
    assert min(start.values()) > 0


def test_losses_are_told() -> None:
    check_losses({A0: 3, B0: 6, ("a", 7): 4}, HELD)
    for start, told in [
        ({A0: 2}, "messages 2 to 2 of queue 0 of a were removed"),
        ({A0: 11}, "queue 0 of a ends at 10, before the checkpoint's 11"),
        ({("c", 0): 0}, "topic c is gone"),
    ]:
        with pytest.raises(MessagesLost, match=told):
            check_losses(start, HELD)


def test_tolerated_losses_continue_at_the_oldest_message() -> None:
    assert spans_between({A0: 1}, later_offsets({A0: 1}, HELD, None), HELD)[0] == QueueSpan(
        "a", 0, 3, 10
    )
    assert spans_between({A0: 90}, later_offsets({A0: 90}, HELD, None), HELD)[0][2:] == (3, 10)
    assert later_offsets({A0: 90}, HELD, 2)[A0] in (4, 5)


def test_partitions_are_of_one_size_and_keep_queues_in_order() -> None:
    size = SPAN_SIZE_MIN
    spans = [
        QueueSpan("a", 0, 0, size),
        QueueSpan("a", 1, 10, 10 + 5 * size),
        QueueSpan("b", 0, 0, 2 * size),
    ]
    lots = shared(spans, 4)
    assert [sum(span.end - span.begin for span in lot) for lot in lots] == [2 * size] * 4
    assert [lot[0].topic + str(lot[0].queue_id) for lot in lots] == ["a0", "a1", "a1", "b0"]
    assert lots[1] == [QueueSpan("a", 1, 10 + size, 10 + 3 * size)]
    assert shared(spans[:1], 4) == [spans[:1]]
    assert shared([], 4) == []
