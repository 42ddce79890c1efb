"""Checkpoints and acks are written as a real broker writes them, and read from either."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.pop_records import (
    Ack,
    Batched,
    Entry,
    PopCheckpoint,
    ack_entry,
    checkpoint_entry,
    read_entry,
)
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import BadRecord, split_record
from pocketmq.model.batch import Destination
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.system_topics import TIMER_TOPIC, revive_topic
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import open_log
from tests.kit.rows import Row, encoded

TOPIC = revive_topic("GoldCluster")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), min_size=1, max_size=9)
COUNTS = st.integers(0, 2**40)
BATCHED = st.builds(Batched, NAMES, NAMES, st.integers(0, 99), COUNTS, COUNTS, NAMES)
OFFSETS = st.lists(st.integers(0, 31), min_size=1, unique=True).map(sorted)


def stored(entry: Entry) -> bytes:
    """Returns an entry as a record of the log."""
    return encoded(Destination(TIMER_TOPIC, 0, bytes(8)), Row(entry.body, entry.property_block))


def test_checkpoints_and_acks_are_those_of_a_real_broker(golden: GoldenStores) -> None:
    log = open_log(golden, "semantics")
    ends: dict[Batched, tuple[int, int]] = {}
    counts = {PopCheckpoint: 0, Ack: 0}
    for _, file, position, size in log.scan(0):
        record = bytes(file.view[position : position + size])
        head, body, topic, topic_end, block, block_end = split_record(record, 0)
        entry = read_entry(record)
        if entry is None or record[topic:topic_end] != TIMER_TOPIC.encode():
            continue
        said, properties = entry
        if properties["REAL_TOPIC"] != TOPIC:
            continue
        if isinstance(said, PopCheckpoint):
            due_ms = said.batched.popped_at_ms + said.invisible_ms
            ends[said.batched] = due_ms, said.revive_queue
            made = checkpoint_entry(said, TOPIC)
        else:
            made = ack_entry(said, *ends[said.batched], TOPIC)
        counts[type(said)] += 1
        assert made.body == record[body : body + head[14]]
        assert made.property_block == record[block:block_end]
        assert (made.unique_key, made.tag) == (properties["UNIQ_KEY"], properties["TAGS"])
    log.close()
    assert counts == {PopCheckpoint: 27, Ack: 45}


@given(BATCHED, OFFSETS, COUNTS, st.integers(0, 7))
def test_a_checkpoint_is_read_as_it_was_made(
    batched: Batched, diffs: list[int], invisible_ms: int, queue: int
) -> None:
    offsets = [batched.start_offset + diff for diff in diffs]
    checkpoint = PopCheckpoint(batched, offsets, invisible_ms, queue)
    read = read_entry(stored(checkpoint_entry(checkpoint, TOPIC)))
    assert read is not None
    assert read[0] == checkpoint


@given(BATCHED, OFFSETS, COUNTS)
def test_acks_are_read_as_they_were_made(batched: Batched, offsets: list[int], end: int) -> None:
    read = read_entry(stored(ack_entry(Ack(batched, offsets), end, 3, TOPIC)))
    assert read is not None
    assert read[0] == Ack(batched, offsets)


def test_messages_that_are_settled_already_are_left_out() -> None:
    body = b'{"bm":5,"bn":"b","c":"G","it":9,"n":3,"pt":7,"q":1,"so":10,"t":"T"}'
    read = read_entry(
        stored(Entry(body, encode_properties({"REAL_TOPIC": TOPIC, "TAGS": "ck"}), "", "ck"))
    )
    assert read is not None
    assert read[0] == PopCheckpoint(Batched("G", "T", 1, 10, 7, "b"), [11], 9, 0)


@given(st.sampled_from(["ck", "ack", "bAck"]), st.binary(max_size=60))
def test_what_only_looks_like_one_is_nothing(tag: str, body: bytes) -> None:
    assert read_entry(stored(Entry(body, encode_properties({"TAGS": tag}), "", tag))) is None
    block = encode_properties({"REAL_TOPIC": "mine", "TAGS": tag})
    assert read_entry(stored(Entry(body, block, "", tag))) is None
    block = encode_properties({"REAL_TOPIC": TOPIC, "TAGS": tag})
    with pytest.raises(BadRecord):
        read_entry(stored(Entry(body, block, "", tag)))


@pytest.mark.parametrize(
    ("tag", "body"),
    [
        ("ck", f'{{"bn":"b","c":"G","it":9,"n":1,"pt":7,"q":1,"so":{OFFSET_MAX + 1},"t":"T"}}'),
        ("ck", '{"bn":"b","c":3,"it":9,"n":1,"pt":7,"q":1,"so":1,"t":"T"}'),
        ("ack", '{"ao":-1,"bn":"b","c":"G","pt":7,"q":1,"so":1,"t":"T"}'),
        ("bAck", '{"ao":1,"bn":"b","c":"G","pt":7,"q":1,"so":1,"t":"T"}'),
        ("bAck", '{"aol":4,"bn":"b","c":"G","pt":7,"q":1,"so":1,"t":"T"}'),
        ("ck", "[" * 5_000),
    ],
)
def test_numbers_and_names_must_be_such(tag: str, body: str) -> None:
    block = encode_properties({"REAL_TOPIC": TOPIC, "TAGS": tag})
    with pytest.raises(BadRecord):
        read_entry(stored(Entry(body.encode(), block, "", tag)))
