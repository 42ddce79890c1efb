"""The scan of protobuf fields finds what the generated classes find, or nothing at all."""

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.native.machine import BytesWriter
from pocketmq.rpc.codec.protobuf_scan import (
    END,
    FIELD_NUMBER_MAX,
    NOT_PLAIN,
    NUMBER_BITS,
    SIZE_BITS,
    FieldScan,
    MapEntry,
    bits,
    varint_at,
)
from pocketmq.rpc.codec.protobuf_write import (
    number_size,
    text_size,
    write_entry,
    write_number,
    write_text,
)
from pocketmq.rpc.v1.send_reply import varint

EDGES = sorted({(1 << bit) + near for bit in range(1, 64) for near in (-1, 0, 1)})
TEXTS, NUMBERS = (1, 2, 3, 15, 16, 31), (4, 5, 14, 17, 30)
REPEATED = (2, 5, 16)
Field = tuple[int, bytes] | tuple[int, int]


def scanned(raw: bytes, **table: int) -> list[Field] | None:
    """Returns the fields that a scan finds, None where they are not plain."""
    scan = FieldScan(bits(*TEXTS), bits(*NUMBERS), repeated=bits(*REPEATED), **table)
    found: list[Field] = []
    scan.enter(0, len(raw))
    while (number := scan.step(raw)) > 0:
        if number in TEXTS:
            found.append((number, raw[scan.begin : scan.end]))
            assert scan.end - scan.begin == scan.size
        else:
            found.append((number, scan.value))
    return found if number == END else None


def written(fields: list[Field]) -> bytes:
    """Returns fields as the codecs write them."""
    out = BytesWriter()
    for number, value in fields:
        if isinstance(value, bytes):
            write_text(out, number, value)
        else:
            write_number(out, number, value)
    return out.getvalue()


def parsed(raw: bytes) -> list[Field]:
    """Returns the fields that the generated classes find."""
    fields = UnknownFieldSet(Empty.FromString(raw))
    return [(fields[at].field_number, fields[at].data) for at in range(len(fields))]


FIELDS = some.lists(
    some.tuples(some.sampled_from(TEXTS), some.binary(min_size=1, max_size=200))
    | some.tuples(some.sampled_from(NUMBERS), some.integers(0, 2**63 - 1)),
    max_size=8,
    unique_by=lambda field: (field[0], field[1] if field[0] in REPEATED else None),
)


@given(FIELDS)
def test_fields_in_their_order_are_found(fields: list[Field]) -> None:
    fields.sort(key=lambda field: field[0])
    raw = written(fields)
    assert scanned(raw) == fields == parsed(raw)


@given(FIELDS)
def test_fields_in_any_other_order_are_not_plain(fields: list[Field]) -> None:
    numbers = [number for number, _ in fields]
    is_sorted = numbers == sorted(numbers)
    assert scanned(written(fields)) == (fields if is_sorted else None)


@given(FIELDS, some.data())
def test_a_field_twice_is_plain_only_where_it_may_repeat(
    fields: list[Field], data: some.DataObject
) -> None:
    fields.sort(key=lambda field: field[0])
    if fields:
        at = data.draw(some.integers(0, len(fields) - 1))
        fields.insert(at, fields[at])
        is_repeated = fields[at][0] in REPEATED
        assert scanned(written(fields)) == (fields if is_repeated else None)


@given(some.binary(max_size=40) | FIELDS.map(written), some.integers(0, 400), some.integers(0, 255))
def test_whatever_the_bytes_are_what_is_found_is_what_is_parsed(
    raw: bytes, place: int, byte: int
) -> None:
    changed = bytearray(raw)
    if place < len(changed):
        changed[place] = byte
    raw = bytes(changed)
    found = scanned(raw)
    if found is not None:
        assert parsed(raw) == found
    assert scanned(raw[:place]) is None or scanned(raw[:place]) == parsed(raw[:place])


def test_a_field_again_is_plain_only_where_it_repeats() -> None:
    again: list[Field] = [(2, b"x"), (2, b"y"), (3, b"x")]
    assert scanned(written(again)) == again
    assert scanned(written([*again, (3, b"x")])) is None
    assert scanned(written([*again, (2, b"x")])) is None


def test_a_text_ends_within_its_message() -> None:
    raw = written([(1, b"message"), (2, b"behind")])
    scan = FieldScan(bits(1))
    for end in range(2, 9):
        scan.enter(0, end)
        assert scan.step(raw) == NOT_PLAIN
    scan.enter(0, 9)
    assert (scan.step(raw), scan.step(raw)) == (1, END)


def test_a_field_that_the_table_lacks_is_not_plain() -> None:
    for number in range(1, 40):
        is_text, is_number = number in TEXTS, number in NUMBERS
        assert (scanned(written([(number, b"x")])) is not None) == is_text, number
        assert (scanned(written([(number, 1)])) is not None) == is_number, number
    assert scanned(b"\x02\x01x") is None  # the number 0
    assert scanned(b"\x8a\x00\x01x") is None  # 1, in two bytes
    assert scanned(b"\x0d\0\0\0\0") is None
    assert scanned(b"\x09\0\0\0\0\0\0\0\0") is None
    assert FIELD_NUMBER_MAX == 31


def test_required_fields_are_there_and_texts_are_not_empty() -> None:
    both: list[Field] = [(1, b"x"), (4, 0)]
    assert scanned(written(both), required=bits(1, 4)) == both
    for number in (0, 1):
        assert scanned(written(both[number : number + 1]), required=bits(1, 4)) is None
    assert scanned(b"\x0a\x00") is None
    assert scanned(b"\x0a\x00", empty=bits(1)) == [(1, b"")]
    assert scanned(b"\x0a\x00", empty=bits(2)) is None


def test_a_scan_begins_anew_with_each_message() -> None:
    scan = FieldScan(bits(1), required=bits(1))
    raw = written([(1, b"one")]) * 2
    for begin in (0, len(raw) // 2):
        scan.enter(begin, begin + len(raw) // 2)
        assert (scan.step(raw), raw[scan.begin : scan.end], scan.step(raw)) == (1, b"one", END)
    scan.enter(0, 0)
    assert scan.step(raw) == NOT_PLAIN


@given(some.binary(min_size=1, max_size=300), some.binary(min_size=1, max_size=300))
def test_an_entry_of_a_map_has_a_name_and_a_value(name: bytes, value: bytes) -> None:
    out = BytesWriter()
    write_entry(out, 11, name, value)
    raw, entry = out.getvalue(), MapEntry()
    begin = len(raw) - text_size(len(name)) - text_size(len(value))
    assert entry.read(raw, begin, len(raw))
    assert raw[entry.name : entry.name + entry.name_size] == name
    assert raw[entry.value : entry.value + entry.value_size] == value
    middle = begin + text_size(len(name))
    assert not entry.read(raw, begin, middle)
    assert not entry.read(raw, middle, len(raw))
    assert not entry.read(raw + raw[middle:], begin, 2 * len(raw) - middle)
    assert not entry.read(raw, begin, len(raw) - 1)
    assert not entry.read(b"\x0a\x00\x12\x01x", 0, 5)


@pytest.mark.parametrize("value", EDGES)
def test_sizes_are_those_of_what_is_written(value: int) -> None:
    if value < 1 << 63:
        assert number_size(value) == len(written([(15, value)]))
    for size in (0, 1, 127, 128, 16_383, 16_384):
        assert text_size(size) == len(written([(15, bytes(size))]))


@pytest.mark.parametrize("value", EDGES)
def test_a_number_with_the_sign_bit_is_none(value: int) -> None:
    raw = varint(value) + b"\x01"
    found = varint_at(raw, 0, len(raw), NUMBER_BITS)
    assert found == ((value, len(raw) - 1) if value < 1 << 63 else (-1, len(raw)))
    assert (scanned(b"\x20" + varint(value)) is not None) == (value < 1 << 63)


@pytest.mark.parametrize("value", EDGES)
def test_a_length_of_more_than_four_bytes_is_none(value: int) -> None:
    raw = varint(value) + b"\x01"
    found = varint_at(raw, 0, len(raw), SIZE_BITS)
    assert found == ((value, len(raw) - 1) if value < 1 << 28 else (-1, len(raw)))
    assert scanned(b"\x0a" + raw) == ([(1, b"\x01")] if value == 1 else None)


@pytest.mark.parametrize("bit_count", [NUMBER_BITS, SIZE_BITS])
def test_a_number_that_does_not_end_is_none(bit_count: int) -> None:
    for size in range(1, 12):
        assert varint_at(b"\xff" * size, 0, size, bit_count) == (-1, size)


def test_bytes_the_classes_refuse_are_not_plain() -> None:
    for raw in (b"\x0a", b"\x0a\x05x", b"\x20", b"\x20\x80", b"\x82", b"\x0b"):
        with pytest.raises(DecodeError):
            Empty.FromString(raw)
        assert scanned(raw) is None
