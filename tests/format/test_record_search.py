"""Searching sound records behind damage, in bytes of one file."""

from broker.format.record import encode_blank
from broker.format.record_scan import is_sound_at, next_sound_position
from tests.fakes.records import record

BASE = 1_000_000
TIME_MS = 1_700_000_000_000


def a_file(count: int, size: int = 4_096) -> tuple[bytearray, list[int]]:
    """Records one after the other, each a ms later than the one before, and where they lie."""
    content, places = bytearray(), []
    for number in range(count):
        places.append(len(content))
        content += record(
            physical_offset=BASE + len(content),
            queue_offset=number,
            time_ms=TIME_MS + number,
            body=b"body",
        )
    return content + bytes(size - len(content)), places


def search(content: bytearray, begin: int, last_time_ms: int = 0) -> int | None:
    def read_piece(position: int, size: int) -> bytes:
        return bytes(content[position : position + size])

    return next_sound_position(content, BASE, begin, last_time_ms, read_piece)


def test_lengths_lead_on() -> None:
    content, places = a_file(5)
    content[places[1] + 90] ^= 1
    assert search(content, places[1]) == places[2]


def test_over_several_damaged_records() -> None:
    content, places = a_file(6)
    for number in (1, 2, 3):
        content[places[number] + 90] ^= 1
    assert search(content, places[1]) == places[4]


def test_a_lost_head_is_searched_over() -> None:
    content, places = a_file(5)
    content[places[1] : places[1] + 40] = bytes(40)
    assert search(content, places[1]) == places[2]


def test_nothing_sound_behind() -> None:
    content, places = a_file(3)
    content[places[2] + 90] ^= 1
    assert search(content, places[2]) is None
    assert search(content, len(content) - 4) is None


def test_what_is_older_than_the_last_record_does_not_count() -> None:
    content, places = a_file(5)
    content[places[1] + 90] ^= 1
    assert search(content, places[1], TIME_MS + 2) == places[2]
    assert search(content, places[1], TIME_MS + 4) == places[4]
    assert search(content, places[1], TIME_MS + 5) is None


def test_a_record_of_another_place_is_none() -> None:
    content, places = a_file(2)
    assert is_sound_at(content, BASE, places[1], 0)
    assert not is_sound_at(content, BASE + 1, places[1], 0)
    assert not is_sound_at(content, BASE, places[1] + 1, 0)


def test_a_blank_is_none() -> None:
    content = bytearray(encode_blank(64)) + bytes(56)
    assert not is_sound_at(content, BASE, 0, 0)
    assert not is_sound_at(content, BASE, 60, 0)
