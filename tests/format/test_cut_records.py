"""A record whose end is not in the buffer tells nothing, wherever the cut is."""

import pytest

from broker.format.properties import encode_properties
from broker.format.record import BadRecord, decode_record, split_record
from broker.format.record_scan import written_at
from broker.model.delay_levels import DelayLevels
from tests.fakes.records import record

LEVELS = DelayLevels()
WHOLE = record(0, b"body", properties=encode_properties({"KEYS": "k1 k2", "TAGS": "TagA"}))


@pytest.mark.parametrize("before", [b"", b"???"], ids=["at the start", "behind other bytes"])
@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_cut_record_is_refused_by_every_reader(length: int, before: bytes) -> None:
    """Cut within its properties it would else be read as a record with fewer of them."""
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
