"""Ids of transactions, half messages, and the messages that tell which of them are done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.half_message import checked, committed, given_up, read_half
from pocketmq.format.op_message import OP_BODY_SIZE_MAX, op_bodies, op_run, read_op, read_op_body
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import BadRecord, encode_records, record_sizes
from pocketmq.format.transaction_id import HalfPlace, read_transaction_id, transaction_id
from pocketmq.model.batch import Destination, Run
from pocketmq.model.errors import PropertiesTooLarge
from pocketmq.model.message import OFFSET_MAX, TRANSACTION_COMMIT
from pocketmq.model.system_topics import QueuePlace
from pocketmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST

OFFSETS = st.integers(0, OFFSET_MAX)
TEXTS = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1)
HALF = {"REAL_TOPIC": "orders", "REAL_QID": "3", "PGROUP": "g", "UNIQ_KEY": "K"}


def record_of(run: Run, *, queue_offset: int = 7, physical_offset: int = 99) -> bytes:
    """Returns a run of one message as it is stored."""
    destination, messages = run
    sizes = record_sizes(destination, messages, property_crc=False)
    return encode_records(
        destination, messages, sizes, queue_offset=queue_offset,
        physical_offset=physical_offset, store_timestamp_ms=BORN_MS + 1, property_crc=False,
    )  # fmt: skip


def half_of(properties: dict[str, str], body: bytes = b"x") -> bytes:
    """Returns the record of a half message."""
    row = Row(body, encode_properties(properties), 5, BORN_MS, BORN_HOST, "K")
    return record_of((Destination(HALF_TOPIC, 0, STORE_HOST), batch(row)))


@given(st.builds(HalfPlace, OFFSETS, OFFSETS, TEXTS))
def test_an_id_is_read_as_it_was_written(place: HalfPlace) -> None:
    assert read_transaction_id(transaction_id(place)) == place


@given(st.text())
def test_a_text_is_an_id_only_in_the_form_they_are_written_in(text: str) -> None:
    place = read_transaction_id(text)
    assert place is None or transaction_id(place) == text


@pytest.mark.parametrize(
    "text", ["", "K", "1.2", "1.2.", "01.2.K", "1.-2.K", "a.2.K", "1.8000000000000000.K", "..K"]
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert read_transaction_id(text) is None


@given(st.lists(OFFSETS, min_size=1, max_size=2_000))
def test_bodies_name_each_offset_in_order_and_stay_small(offsets: list[int]) -> None:
    bodies = op_bodies(offsets)
    assert max(map(len, bodies)) <= OP_BODY_SIZE_MAX
    assert [at for body in bodies for at in read_op_body(body)] == offsets


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"12", [12]),
        (b"12,13,", [12, 13]),
        (b"", []),
        (b"x,7,-1,+2, 3,", [7, 2]),
        (b"12,x,13,", [12, 13]),
        (b"9" * 30, []),
    ],
)
def test_bodies_of_other_brokers_are_read(body: bytes, named: list[int]) -> None:
    assert read_op_body(body) == named


def test_a_message_of_done_ones_is_read_as_it_was_put() -> None:
    run = op_run([3, 4], store_host=STORE_HOST, now_ms=BORN_MS)
    assert run[0].queue == (OP_HALF_TOPIC, 0)
    assert read_op(record_of(run)) == [3, 4]
    with pytest.raises(BadRecord):
        read_op(b"short")


@given(
    st.dictionaries(TEXTS, TEXTS, max_size=8),
    st.integers(0, 2**31 - 1),
    st.binary(min_size=1, max_size=64),
)
def test_a_commit_is_its_half_message_but_for_where_it_waited(
    own: dict[str, str], queue_id: int, body: bytes
) -> None:
    said = {**own, **HALF, "REAL_QID": str(queue_id)}
    half = read_half(half_of(said, body))
    assert half.real == QueuePlace("orders", queue_id)
    assert (half.group, half.place, half.checks) == ("g", HalfPlace(7, 99, "K"), 0)
    destination, messages = committed(half)
    assert destination == Destination("orders", queue_id, STORE_HOST, TRANSACTION_COMMIT, 99)
    left = {k: v for k, v in said.items() if k not in ("REAL_TOPIC", "REAL_QID", "__CRC32#")}
    left.pop("TRAN_PREPARED_QUEUE_OFFSET", None)
    assert messages.property_blocks == [encode_properties(left)]
    assert (messages.bodies, messages.flags, messages.born_ms) == ([body], [5], [BORN_MS])


def test_one_that_is_checked_counts_checks_and_remembers_where_it_was_first() -> None:
    half = read_half(half_of(HALF))
    for count in (1, 2):
        run = checked(half, store_host=STORE_HOST)
        assert run[0] == Destination(HALF_TOPIC, 0, STORE_HOST)
        half = read_half(record_of(run, queue_offset=7 + count))
        assert (half.checks, half.first_offset) == (count, 7)
    run = given_up(half, store_host=STORE_HOST)
    assert run[0] == Destination(GIVEN_UP_TOPIC, 0, STORE_HOST)


def test_one_without_room_for_a_count_cannot_be_checked() -> None:
    half = read_half(half_of({**HALF, "mine": "x" * 32_680}))
    with pytest.raises(PropertiesTooLarge):
        checked(half, store_host=STORE_HOST)


@pytest.mark.parametrize("text", ["", "x", "-1", "99999999999"])
def test_one_that_does_not_say_where_it_goes_has_no_place(text: str) -> None:
    assert read_half(half_of({**HALF, "REAL_QID": text})).real is None


def test_times_it_asked_for_are_read() -> None:
    assert read_half(half_of(HALF)).immunity_ms is None
    half = read_half(half_of({**HALF, "CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}))
    assert half.immunity_ms == 60_000
