"""Entries of the journal as bytes: what encode_records and index_entries make of the same."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.dispatch_batch import units_of
from pocketmq.format.index_entries import index_entries
from pocketmq.format.index_layout import STYLE_5_3, STYLE_5_5
from pocketmq.format.journal_records import JournalRecords
from pocketmq.format.pop_records import (
    Ack,
    Batched,
    Entry,
    PopCheckpoint,
    ack_entry,
    checkpoint_entry,
)
from pocketmq.format.record import encode_records, record_sizes
from pocketmq.format.record_scan import tags_codes_of
from pocketmq.model.batch import Batch, Destination, Written
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.system_topics import TIMER_TOPIC

NAMES = st.text("abcXYZ%_-09", min_size=1, max_size=30)
TIMES = st.integers(1, 2**45)
OFFSETS = st.sets(st.integers(0, 2**40), min_size=1, max_size=32).map(sorted)
HOSTS = st.sampled_from([b"\x7f\0\0\1\0\0\x1f\x91", bytes(range(20))])


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    at = draw(OFFSETS)
    batched = Batched(draw(NAMES), draw(NAMES), draw(st.integers(0, 9)), at[0], draw(TIMES), "b-a")
    if draw(st.booleans()):
        return checkpoint_entry(PopCheckpoint(batched, at, draw(TIMES), 3), "rmq_sys_REVIVE_LOG_c")
    return ack_entry(Ack(batched, at), draw(TIMES), 3, "rmq_sys_REVIVE_LOG_c")


@given(
    st.lists(entries(), min_size=1, max_size=5), HOSTS, st.sampled_from([STYLE_5_3, STYLE_5_5]),
    st.integers(0, 2**50), TIMES, TIMES, st.integers(0, 2**40),
)  # fmt: skip
def test_the_bytes_are_those_of_the_columns(
    some: list[Entry], host: bytes, style: str, place: int, now_ms: int, time_ms: int, number: int
) -> None:
    records = JournalRecords(TIMER_TOPIC, host, style)
    assert records.take(some)
    destination, count = Destination(TIMER_TOPIC, 0, host), len(some)
    bodies, blocks, keys, tags = map(list, zip(*some, strict=True))
    batch = Batch(
        bodies=bodies, property_blocks=blocks, unique_keys=keys, keys=[""] * count, tags=tags,
        born_ms=[now_ms] * count, born_hosts=[host] * count, flags=[0] * count,
        reconsume_times=[0] * count,
    )  # fmt: skip
    sizes = record_sizes(destination, batch)
    wanted = encode_records(
        destination, batch, sizes, queue_offset=number, physical_offset=place,
        store_timestamp_ms=time_ms,
    )  # fmt: skip
    next_offsets = {(TIMER_TOPIC, 0): number}
    assert records.encode(next_offsets, place, now_ms, time_ms) == wanted
    assert records.size_sum == len(wanted)
    places = [place + sum(sizes[:n]) for n in range(count)]
    told = Written(
        destination, number, physical_offsets=places, sizes=sizes,
        tags_codes=tags_codes_of(destination, batch, time_ms, DelayLevels()),
        store_time_ms=time_ms, unique_keys=keys, keys=[""] * count, tags=tags,
    )  # fmt: skip
    assert records.taken == {(TIMER_TOPIC, 0): number + count}
    (written,) = records.written
    assert (written.destination, written.queue_offset) == (destination, number)
    assert (written.physical_offsets, written.sizes) == (places, sizes)
    assert (written.tags_codes, written.store_time_ms) == (told.tags_codes, time_ms)
    assert (written.units, written.entries) == (units_of(told), index_entries([told], style))


def test_what_is_not_plain_is_not_taken() -> None:
    records = JournalRecords(TIMER_TOPIC, bytes(8), STYLE_5_5)
    assert not records.take([Entry(b"", b"", "ä", "ck")])
    assert not records.take([Entry(b"", bytes(1 << 15), "a", "ck")])
