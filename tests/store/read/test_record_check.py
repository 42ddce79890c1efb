"""Every bit of a record that some check covers: the quick look and the full one agree."""

import pytest

from pocketmq.format.addresses import host_from_text
from pocketmq.format.record import (
    RECORD_HEAD,
    record_head,
    topic_field,
)
from pocketmq.model.batch import Destination
from pocketmq.store.read.record_check import NO_CRC, Asked, _behind_body, is_sound, why_unsound
from tests.kit.rows import encoded
from tests.kit.store_language import put_row

PLACE = 4096
NUMBER = 7
HOST = host_from_text("127.0.0.1:10911")
HOST_V6 = host_from_text("[2001:db8::7]:10911")
BEFORE = b"\xda\xa3\x20\xa7 what lies before it"
UNCHECKED = ("flag", "system_flag", "born_timestamp", "born_host", "store_timestamp", "store_host",
             "reconsume_times", "prepared_offset")  # fmt: skip
"""Fields that nothing but a property CRC covers."""


def asked(topic: str = "orders", queue_id: int = 3) -> Asked:
    part = topic_field(topic)
    return Asked(topic, queue_id, part, _behind_body(len(part)), NO_CRC)


def record(*, topic: str = "orders", crc: bool = False, host: bytes = HOST) -> bytes:
    return encoded(
        Destination(topic, 3, host),
        put_row("the body of it", key="k", tag="t"),
        queue_offset=NUMBER,
        physical_offset=PLACE,
        store_timestamp_ms=1_700_000_000_000,
        crc=crc,
    )


def verdicts(content: bytes, size: int, wanted: Asked, number: int = NUMBER) -> tuple[bool, bool]:
    """Returns the verdicts of the quick and the full check of a record behind some bytes."""
    view = memoryview(BEFORE + content)
    quick = is_sound(view, len(BEFORE), PLACE, size, wanted, number)
    return quick, not why_unsound(content[:size], PLACE, size, wanted, number)


FORMS = {
    "plain": record(),
    "crc": record(crc=True),
    "v6": record(host=HOST_V6),
    "long": record(topic="o" * 200),
}


def wanted_of(form: str) -> Asked:
    return asked("o" * 200) if form == "long" else asked()


@pytest.mark.parametrize("form", FORMS)
def test_a_sound_record_is_believed_for_the_message_it_is(form: str) -> None:
    content, wanted = FORMS[form], wanted_of(form)
    assert verdicts(content + b"more", len(content), wanted) == (True, True)
    assert verdicts(content, len(content), wanted, NUMBER + 1) == (False, False)
    assert verdicts(content, len(content), wanted._replace(queue_id=4)) == (False, False)
    assert verdicts(content, len(content), asked("orderz")) == (False, False)
    assert verdicts(content, len(content), asked("order")) == (False, False)
    for size in (len(content) - 1, len(content) + 1, 0, -1, 90, 2**31 - 1):
        assert verdicts(content, size, wanted) == (False, False)


@pytest.mark.parametrize("form", FORMS)
def test_every_flipped_bit_that_can_be_seen_is_seen(form: str) -> None:
    content, wanted = FORMS[form], wanted_of(form)
    undetected: set[str] = set()
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        quick, full = verdicts(bytes(changed), len(content), wanted)
        assert quick == full
        if quick:
            undetected.add(field_of(content, bit // 8))
    assert undetected <= {*UNCHECKED, "properties"}
    if form == "crc":
        assert not undetected


def test_where_every_record_has_a_crc_one_without_is_damaged() -> None:
    wanted = asked()._replace(crc_from=PLACE)
    assert verdicts(FORMS["crc"], len(FORMS["crc"]), wanted) == (True, True)
    assert verdicts(FORMS["plain"], len(FORMS["plain"]), wanted) == (False, False)
    later = wanted._replace(crc_from=PLACE + 1)
    assert verdicts(FORMS["plain"], len(FORMS["plain"]), later) == (True, True)


def field_of(content: bytes, position: int) -> str:
    """The field of the head a byte belongs to, or what lies behind it."""
    is_v6 = content == FORMS["v6"]
    head = record_head(8, 20) if is_v6 else RECORD_HEAD
    if position >= content.index(b"KEYS"):
        return "properties"
    begins = {begin: name for name, begin in head.positions.items() if begin <= position}
    head_end = head.size
    if begins[max(begins)] == "body_length" and position >= head_end:
        return "body or topic"
    return begins[max(begins)]
