"""Walking records: where a walk stops and why, and what the views are told of a record."""

from typing import NamedTuple

import pytest

from pocketmq.format.layout import Buffer, is_zero
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import (
    BadRecord,
    decode_record,
    encode_blank,
    split_record,
)
from pocketmq.format.record_scan import (
    PAGE_SIZE,
    RecordScan,
    tags_codes_of,
    written_at,
)
from pocketmq.model.batch import Destination
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.topic import SCHEDULE_TOPIC
from tests.kit.records import HOST, TIME_MS, columns_of, record
from tests.kit.rows import Row, batch, encoded

BASE = 131_072
"""Physical offset of the first byte of the file."""
SIZES = [150, 92, 300]
"""The second has no body and is as small as a record can be."""
FIRST, SECOND, THIRD = 0, 150, 242
DATA_END = 542
TAG_A = 2_598_919
LEVELS = DelayLevels()


class Found(NamedTuple):
    """All that a finished scan tells."""

    places: list[tuple[int, int]]
    end: ScanEnd
    position: int
    blank: bool
    reason: str


def data(base: int = BASE) -> bytes:
    """Three records, as they lie at the start of a file."""
    places = zip([FIRST, SECOND, THIRD], SIZES, strict=True)
    return b"".join(record(base + start, size=size) for start, size in places)


def scan(content: bytes, position: int = 0, *, base: int = BASE, crc: bool = False) -> Found:
    walk = RecordScan(content, base, position, crc=crc)
    places = list(walk)
    return Found(places, walk.end, walk.position, walk.blank, walk.reason)


def changed(content: bytes, position: int, replacement: bytes) -> bytes:
    return content[:position] + replacement + content[position + len(replacement) :]


ALL_PLACES = list(zip([FIRST, SECOND, THIRD], SIZES, strict=True))


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behind", "has_blank"),
    [
        (b"", False), (b"\xff", False), (b"\xff" * 7, False),
        *((bytes(left), False) for left in (8, 9, 20, PAGE_SIZE, 3 * PAGE_SIZE)),
        *((encode_blank(left).ljust(left, b"\0"), True) for left in (8, 9, 475)),
        *((encode_blank(left).ljust(left, b"\xff"), True) for left in (9, 475)),
        (bytes(PAGE_SIZE - DATA_END) + b"x" * 100, False),
    ],
)  # fmt: skip
def test_data_end_with_the_file_zeros_or_a_blank(behind: bytes, has_blank: bool) -> None:
    """Fewer bytes than a blank are not looked at, nor what lies in a later page than zeros."""
    assert scan(data() + behind) == (ALL_PLACES, ScanEnd.END_OF_DATA, DATA_END, has_blank, "")


@pytest.mark.parametrize("content", [b"", bytes(PAGE_SIZE), encode_blank(100).ljust(100, b"\0")])
def test_a_file_may_hold_nothing_or_a_blank(content: bytes) -> None:
    assert scan(content) == ([], ScanEnd.END_OF_DATA, 0, len(content) == 100, "")


@pytest.mark.parametrize("gap", [8, 91, PAGE_SIZE - DATA_END - 1])
def test_zeros_with_bytes_behind_them_in_their_page_are_a_tear(gap: int) -> None:
    found = scan((data() + bytes(gap) + b"x").ljust(2 * PAGE_SIZE, b"\0"))
    assert found[:3] == (ALL_PLACES, ScanEnd.TORN, DATA_END)
    assert found.reason == "zeros followed by other bytes"


@pytest.mark.parametrize("cut", [THIRD + 8, THIRD + 36, THIRD + 87, DATA_END - 200, DATA_END - 8])
def test_a_record_that_ends_in_zeros_is_torn(cut: int) -> None:
    found = scan(data()[:cut].ljust(PAGE_SIZE, b"\0"), crc=True)
    assert found[:3] == (ALL_PLACES[:2], ScanEnd.TORN, THIRD)
    assert found.reason


def test_a_record_that_lacks_its_first_sector_is_torn() -> None:
    found = scan(changed(data().ljust(PAGE_SIZE, b"\0"), THIRD, bytes(100)))
    assert found[:3] == (ALL_PLACES[:2], ScanEnd.TORN, THIRD)


SECOND_IS_BAD = {
    "magic 0xDAA320A8 is not that of a record": (4, b"\xda\xa3\x20\xa8"),
    "size 2147483647 is too small or extends beyond its file": (0, b"\x7f\xff\xff\xff"),
    "size -1 is too small or extends beyond its file": (0, b"\xff\xff\xff\xff"),
    "size 0 is too small or extends beyond its file": (0, b"\0\0\0\0"),
    "its lengths disagree with its size": (0, b"\0\0\0\x5d"),
    "its own physical offset is 131072": (35, b"\0"),
    "a BLANK of the wrong size": (0, encode_blank(475)),
}


@pytest.mark.parametrize("reason", SECOND_IS_BAD)
def test_anything_else_is_bad(reason: str) -> None:
    position, replacement = SECOND_IS_BAD[reason]
    found = scan(changed(data(), SECOND + position, replacement) + b"x" * 50)
    assert found == (ALL_PLACES[:1], ScanEnd.BAD, SECOND, False, reason)


@pytest.mark.parametrize(
    ("content", "places", "position", "reason"),
    [
        (
            data() + bytes([0, 0, 0, 12]) + bytes(100),
            ALL_PLACES,
            DATA_END,
            "magic 0x00000000 is",
        ),
        (b"This is no commit log but a text.", [], 0, "magic 0x20697320 is not"),
        (data()[:-1], ALL_PLACES[:2], THIRD, "size 300 is too small or extends beyond its file"),
        (data(base=0), [], 0, "its own physical offset is 0"),
    ],
    ids=["a number too small", "text", "a record that leaves its file", "another place in the log"],
)
def test_what_is_no_record_is_bad(
    content: bytes, places: list[tuple[int, int]], position: int, reason: str
) -> None:
    found = scan(content)
    assert found[:3] == (places, ScanEnd.BAD, position)
    assert found.reason.startswith(reason)


def test_a_flip_in_a_body_is_found_only_where_one_looks_for_it() -> None:
    content = changed(data(), THIRD + 100, b"y")
    assert scan(content).places == ALL_PLACES
    found = scan(content, crc=True)
    assert found[:3] == (ALL_PLACES[:2], ScanEnd.BAD, THIRD)
    assert found.reason == "the CRC of its body is wrong"


def test_a_wrong_property_crc_is_found_too() -> None:
    content = encoded(
        Destination("T", 0, HOST),
        Row(b"body", b"a\x01b\x02", born_host=HOST),
        physical_offset=BASE,
        store_timestamp_ms=TIME_MS,
        crc=True,
    )
    assert scan(content, crc=True).end is ScanEnd.END_OF_DATA
    assert (
        scan(changed(content, 97, b"X"), crc=True).reason == "the CRC over its properties is wrong"
    )


# --- walking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_walked(kind: type[bytes | bytearray | memoryview]) -> None:
    walk = RecordScan(kind(data().ljust(PAGE_SIZE, b"\0")), BASE, crc=True)
    assert list(walk) == ALL_PLACES
    assert walk.end is ScanEnd.END_OF_DATA


@pytest.mark.parametrize(
    ("position", "count"), [(FIRST, 3), (SECOND, 2), (THIRD, 1), (DATA_END, 0)]
)
def test_a_walk_may_start_at_any_record(position: int, count: int) -> None:
    found = scan(data() + bytes(100), position)
    assert found.places == ALL_PLACES[3 - count :]
    assert (found.end, found.position) == (ScanEnd.END_OF_DATA, DATA_END)


def test_a_walk_that_starts_within_a_record_ends_there() -> None:
    found = scan(data(), SECOND + 1)
    assert (found.places, found.end, found.position) == ([], ScanEnd.BAD, SECOND + 1)


def test_the_position_is_behind_the_last_record_that_was_asked_for() -> None:
    walk = RecordScan(data(), BASE)
    steps = iter(walk)
    positions = [(next(steps), walk.position) for _ in range(2)]
    assert positions == [(ALL_PLACES[0], FIRST), (ALL_PLACES[1], SECOND)]


def test_a_walk_accepts_no_record_that_was_changed_where_it_is_checked() -> None:
    """Nothing checks numbers, times and hosts, the topic's letter, the CRC of an empty body."""
    content, unseen = data(), set()
    for begin, size in ALL_PLACES:
        for position in range(begin, begin + size):
            for mask in (0x01, 0x80, 0xFF):
                damaged = changed(content, position, bytes([content[position] ^ mask]))
                places = scan(damaged, crc=True).places
                assert places == ALL_PLACES[: len(places)]
                if (begin, size) in places:
                    unseen.add(position)
    unchecked = {
        position
        for begin, size in ALL_PLACES
        for position in (*range(begin + 12, begin + 28), *range(begin + 36, begin + 84))
    }
    letters = {begin + size - 3 for begin, size in ALL_PLACES}
    assert unseen == unchecked | letters | set(range(SECOND + 8, SECOND + 12))


# --- what the views are told ----------------------------------------------------------------------


def stored(
    properties: dict[str, str], topic: str = "T", *, system_flag: int = 0, queue_id: int = 0
) -> bytes:
    """Encodes one record that lies at BASE, stored at TIME_MS with queue offset 7."""
    return encoded(
        Destination(topic, queue_id, HOST, system_flag),
        Row(b"body", encode_properties(properties), born_host=HOST),
        queue_offset=7,
        physical_offset=BASE,
        store_timestamp_ms=TIME_MS,
    )


def code_of(topic: str, tag: str, block: bytes) -> int:
    """The tags code of a message that is about to be stored at TIME_MS."""
    made = batch(Row(block=block, tag=tag))
    (code,) = tags_codes_of(Destination(topic, 0), made, TIME_MS, LEVELS)
    return code


def test_an_entry_holds_what_the_views_need() -> None:
    content = stored({"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "U"}, queue_id=3)
    found = written_at(b"??" + content, 2, LEVELS)
    assert columns_of(found) == (
        *(BASE, len(content), TAG_A, TIME_MS, "T", 3, 7),
        *("U", "k1 k2", "TagA", TRANSACTION_NONE),
    )


def test_an_entry_of_a_record_without_properties() -> None:
    found = columns_of(written_at(stored({}), 0, LEVELS))
    assert found[2] == 0
    assert found[7:] == ("", "", "", TRANSACTION_NONE)


@pytest.mark.parametrize(
    ("system_flag", "transaction"),
    [
        (0x00, TRANSACTION_NONE),
        (0x05, TRANSACTION_PREPARED),
        (0x7FB, TRANSACTION_COMMIT),
        (0x0E, TRANSACTION_ROLLBACK),
    ],
)
def test_an_entry_tells_the_transaction_bits_only(system_flag: int, transaction: int) -> None:
    found = written_at(stored({}, system_flag=system_flag), 0, LEVELS)
    assert found.destination.transaction == transaction


@pytest.mark.parametrize(
    ("topic", "delay", "code"),
    [
        (SCHEDULE_TOPIC, "1", TIME_MS + 1_000), (SCHEDULE_TOPIC, "3", TIME_MS + 10_000),
        (SCHEDULE_TOPIC, "18", TIME_MS + 7_200_000), (SCHEDULE_TOPIC, "19", TIME_MS + 7_200_000),
        (SCHEDULE_TOPIC, "0", TAG_A), (SCHEDULE_TOPIC, "-1", TAG_A),
        (SCHEDULE_TOPIC, "soon", TAG_A), (SCHEDULE_TOPIC, None, TAG_A), ("T", "3", TAG_A),
        (f"{SCHEDULE_TOPIC}2", "3", TAG_A),
    ],
)  # fmt: skip
def test_the_code_of_a_scheduled_record_is_when_it_is_due(
    topic: str, delay: str | None, code: int
) -> None:
    properties = {"TAGS": "TagA"} | ({"DELAY": delay} if delay else {})
    assert written_at(stored(properties, topic), 0, LEVELS).tags_codes == [code]
    assert code_of(topic, "TagA", encode_properties(properties)) == code


def test_a_scheduled_record_without_a_tag_has_a_due_time_too() -> None:
    assert code_of(SCHEDULE_TOPIC, "", b"DELAY\x012\x02") == TIME_MS + 5_000
    assert code_of(SCHEDULE_TOPIC, "", b"") == code_of("T", "", b"") == 0


WHOLE = record(0, b"body", properties=encode_properties({"KEYS": "k1 k2", "TAGS": "TagA"}))


@pytest.mark.parametrize("before", [b"", b"???"], ids=["at the start", "behind other bytes"])
@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_cut_record_is_refused_by_every_reader(length: int, before: bytes) -> None:
    """Cuts within its properties it would else be read as a record with fewer of them."""
    cut = before + WHOLE[:length]
    with pytest.raises(BadRecord):
        split_record(cut, len(before))
    with pytest.raises(BadRecord):
        decode_record(memoryview(cut), len(before))
    with pytest.raises(BadRecord):
        written_at(bytearray(cut), len(before), LEVELS)


def test_a_whole_record_may_end_with_its_buffer() -> None:
    assert split_record(b"???" + WHOLE, 3)[-1] == len(WHOLE) + 3
    assert decode_record(WHOLE).tag == "TagA"
    assert written_at(WHOLE, 0, LEVELS).keys == ["k1 k2"]


LENGTH = 10_000


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_zeros_are_zeros_in_any_buffer(kind: type[bytes | bytearray | memoryview]) -> None:
    buffer: Buffer = kind(bytes(LENGTH))
    assert is_zero(buffer, 0, LENGTH)
    assert is_zero(buffer, 4_095, 4_097)
    assert is_zero(buffer, 7, 7)


@pytest.mark.parametrize("position", [0, 1, 4_095, 4_096, 4_097, 8_191, 9_999])
def test_one_byte_makes_the_difference(position: int) -> None:
    buffer = bytearray(LENGTH)
    buffer[position] = 1
    assert not is_zero(buffer, 0, LENGTH)
    assert not is_zero(buffer, position, position + 1)
    assert is_zero(buffer, 0, position)
    assert is_zero(buffer, position + 1, LENGTH)
