"""Records known to be valid: rows, copy and identity agree with the usual way."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.addresses import host_from_text
from pocketmq.format.consume_unit import PRE_BLANK, UNIT, UNIT_SIZE
from pocketmq.format.record import RECORD_SIZE_MIN, topic_field
from pocketmq.model.batch import Destination
from pocketmq.model.reading import ReadRange
from pocketmq.store.read.known_records import are_of_queue, count_in_file, end_of, gathered
from pocketmq.store.read.read_plan import apart, choose
from pocketmq.store.read.record_check import NO_CRC, Asked, _behind_body, is_sound
from tests.kit.rows import encoded
from tests.kit.store_language import put_row

HOST = host_from_text("127.0.0.1:10911")
HOST_V6 = host_from_text("[2001:db8::7]:10911")
FIRST = 7
"""Queue offset of the first record."""
ORIGIN = 4_096
"""Physical offset of the file's begin."""
PART = topic_field("orders")


def record(place: int, number: int, body: str, host: bytes = HOST) -> bytes:
    return encoded(
        Destination("orders", 3, host),
        put_row(body, key="k", tag="t"),
        queue_offset=number,
        physical_offset=place,
        store_timestamp_ms=1_700_000_000_000,
    )


def stored(gaps: list[int], host: bytes = HOST) -> tuple[bytes, bytes]:
    """Returns a file with a record after each gap, and the records' units."""
    content, units = b"", b""
    for count, gap in enumerate(gaps):
        content += bytes(gap)
        place = ORIGIN + len(content)
        added = record(place, FIRST + count, f"body {count}" * (count + 1), host)
        units += UNIT.pack(place, len(added), 0)
        content += added
    return content, units


def is_ours(content: bytes, units: bytes) -> bool:
    count = len(units) // UNIT_SIZE
    records = gathered(content, ORIGIN, units, count)
    return are_of_queue(records, units, count, PART, 3, FIRST)


@given(
    some.lists(some.tuples(some.integers(0, 90), some.integers(RECORD_SIZE_MIN, 300)), max_size=9),
    some.integers(1, 2_000),
)
def test_rows_are_those_that_the_usual_way_chooses(
    rows: list[tuple[int, int]], max_bytes: int
) -> None:
    begins = accumulate((gap + size for gap, size in rows), initial=0)
    places = [begin + gap for begin, (gap, _) in zip(begins, rows, strict=False)]
    sizes = [size for _, size in rows]
    units = b"".join(UNIT.pack(*row, 0) for row in zip(places, sizes, strict=True))
    chosen, _ = choose(units, ReadRange("orders", 3, 0, 9, max_bytes), None)
    count = count_in_file(units, max_bytes, 1 << 40)
    assert count == len(chosen.rows)
    if count:
        last, size, _ = chosen.rows[-1]
        assert end_of(units, count) == last + size
        assert count_in_file(units, max_bytes, last + size) == count
        assert count_in_file(units, max_bytes, last + size - 1) == 0


@given(some.lists(some.integers(-200, 400), min_size=2, max_size=5))
def test_units_out_of_order_are_left_to_the_usual_way(places: list[int]) -> None:
    units = b"".join(UNIT.pack(place, 100, 0) for place in places)
    in_order = places[0] >= 0 and all(b - a >= 100 for a, b in pairwise(places))
    assert (count_in_file(units, 10_000, 1_000) > 0) == in_order


def test_impossible_units_are_left_to_the_usual_way() -> None:
    good = UNIT.pack(ORIGIN, 100, 0)
    for bad in (PRE_BLANK, bytes(UNIT_SIZE), UNIT.pack(ORIGIN + 100, RECORD_SIZE_MIN - 1, 0),
                UNIT.pack(ORIGIN + 100, -1, 0)):  # fmt: skip
        assert count_in_file(bad, 10_000, 1 << 40) == 0
        assert count_in_file(good + bad, 10_000, 1 << 40) == 0


@given(some.lists(some.sampled_from((0, 0, 1, 60)), min_size=1, max_size=6))
def test_the_copy_has_the_records_one_after_another(gaps: list[int]) -> None:
    content, units = stored(gaps)
    rows = [(place, size, 0) for place, size, _ in UNIT.iter_unpack(units)]
    wanted = b"".join(apart(content, ORIGIN, rows))
    assert gathered(content, ORIGIN, units, len(gaps)) == wanted
    assert gathered(memoryview(content), ORIGIN, units, len(gaps)) == wanted
    assert is_ours(content, units)


def test_each_wrong_bit_of_an_identity_is_found() -> None:
    """Where the usual check of known records finds a fault, this one does too."""
    content, units = stored([0, 40, 0])
    asked = Asked("orders", 3, PART, _behind_body(len(PART)), NO_CRC)
    rows = list(UNIT.iter_unpack(units))
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        view = bytes(changed)
        usual = all(
            is_sound(view, place - ORIGIN, place, size, asked, FIRST + number, is_known=True)
            for number, (place, size, _) in enumerate(rows)
        )
        ours = is_ours(view, units)
        assert usual or not ours, f"bit {bit}"


def test_records_of_other_places_and_forms_are_left_to_the_usual_way() -> None:
    content, units = stored([0, 0])
    records = gathered(content, ORIGIN, units, 2)
    assert are_of_queue(records, units, 2, PART, 3, FIRST)
    assert not are_of_queue(records, units, 2, PART, 4, FIRST)
    assert not are_of_queue(records, units, 2, PART, 3, FIRST + 1)
    assert not are_of_queue(records, units, 2, topic_field("other!"), 3, FIRST)
    assert not are_of_queue(records[:-1], units, 2, PART, 3, FIRST)
    assert not are_of_queue(records + b"x", units, 2, PART, 3, FIRST)
    assert not is_ours(*stored([0], HOST_V6))
