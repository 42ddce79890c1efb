"""Heads of stored records, read without decoding them."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.record import decode_record, encode_records, record_sizes
from pocketmq.format.record_heads import attempt_of, queue_offset_of, read_heads, split_pieces
from pocketmq.model.batch import Batch, Destination

HOSTS = st.sampled_from([bytes(8), bytes(20)])
ROWS = st.lists(
    st.tuples(st.binary(max_size=40), HOSTS, st.integers(0, 2**31 - 1)), min_size=1, max_size=6
)


def records_of(rows: list[tuple[bytes, bytes, int]], store_host: bytes, first: int) -> list[bytes]:
    """Returns rows of (body, born host, how often it was retried) as records of one queue."""
    count = len(rows)
    destination = Destination("orders", 3, store_host)
    batch = Batch(
        bodies=[body for body, _, _ in rows],
        property_blocks=[b"TAGS\x01a\x02"] * count,
        unique_keys=[""] * count,
        keys=[""] * count,
        tags=["a"] * count,
        born_ms=[7] * count,
        born_hosts=[host for _, host, _ in rows],
        flags=[0] * count,
        reconsume_times=[times for _, _, times in rows],
    )
    sizes = record_sizes(destination, batch)
    content = encode_records(
        destination, batch, sizes, queue_offset=first, physical_offset=0, store_timestamp_ms=9
    )
    records = []
    for size in sizes:
        records.append(content[:size])
        content = content[size:]
    return records


@given(ROWS, HOSTS, st.integers(0, 2**62), st.lists(st.booleans(), min_size=6, max_size=6))
def test_heads_are_what_the_decoder_finds(
    rows: list[tuple[bytes, bytes, int]], store_host: bytes, first: int, joins: list[bool]
) -> None:
    records = records_of(rows, store_host, first)
    pieces: list[bytes] = []
    for record, joins_last in zip(records, joins, strict=False):
        if joins_last and pieces:
            pieces[-1] += record
        else:
            pieces.append(record)
    decoded = [decode_record(record) for record in records]
    numbers = [message.queue_offset for message in decoded]
    attempts = [message.reconsume_times + 1 for message in decoded]
    assert read_heads(pieces) == (numbers, attempts)
    assert split_pieces(pieces) == records
    assert [queue_offset_of(record) for record in records] == numbers
    assert [attempt_of(record) for record in records] == attempts


@given(ROWS, st.integers(0, 300), st.binary(max_size=8))
def test_of_a_piece_that_is_cut_or_damaged_the_whole_ones_before_are_told(
    rows: list[tuple[bytes, bytes, int]], cut: int, damage: bytes
) -> None:
    records = records_of(rows, bytes(8), 5)
    content = b"".join(records)
    content = content[: max(len(content) - cut, 0)] + damage
    numbers, attempts = read_heads([content])
    split = split_pieces([content])
    assert len(numbers) == len(attempts) == len(split)
    assert content.startswith(b"".join(split))
    whole = sum(len(b"".join(records[: n + 1])) <= len(content) for n in range(len(records)))
    if not damage:
        assert split == records[:whole]


def test_nothing_is_read_of_nothing() -> None:
    assert read_heads([]) == ([], [])
    assert read_heads([b""]) == ([], [])
