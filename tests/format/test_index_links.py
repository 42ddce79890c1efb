"""Index entries chained in a loop: what RocketMQ does one by one, whatever the slots hold."""

from struct import pack, pack_into, unpack_from

from hypothesis import example, given, settings
from hypothesis import strategies as some

from pocketmq.format.index_layout import ENTRY, second_difference
from pocketmq.format.index_links import chained, slots_of

Entry = tuple[int, int, int]
"""Key hash, physical offset, store time."""

INT32_MAX = 2**31 - 1
hashes = some.one_of(some.integers(0, 12), some.integers(0, INT32_MAX))
entries = some.lists(some.tuples(hashes, some.integers(0, 2**63 - 1), some.integers(0, 2**62)))


def one_by_one(
    rows: list[Entry], table: bytearray, number: int, begin_ms: int
) -> tuple[bytes, int]:
    """IndexFile.putKey for each row; the table of slots is changed as it changes it."""
    made, used = b"", 0
    for key_hash, place, time_ms in rows:
        position = key_hash % (len(table) // 4) * 4
        (previous,) = unpack_from(">i", table, position)
        if not 0 < previous <= number:
            previous = 0
            used += 1
        made += ENTRY.pack(key_hash, place, second_difference(time_ms, begin_ms), previous)
        pack_into(">i", table, position, number)
        if number <= 1:
            begin_ms = time_ms
        number += 1
    return made, used


@settings(max_examples=400, deadline=1_000)
@given(
    entries,
    some.lists(some.integers(-(2**31), INT32_MAX), min_size=1, max_size=9),
    some.sampled_from([1, 2, 3, 1_000, INT32_MAX - 1_000]),
    some.one_of(some.just(0), some.integers(-5, 2**62)),
)
@example([(5, 100, 2_000), (5, 200, 3_000), (8, 300, 1)], [0, 7, 3], 7, 999)
@example([(5, 100, 2_000), (6, 200, 3_000)], [2], 1, 0)
@example([(5, 100, 2**62), (INT32_MAX, 200, 1_000 * INT32_MAX)], [2], 7, 1)
def test_rows_are_those_that_one_by_one_makes(
    rows: list[Entry], slots: list[int], number: int, begin_ms: int
) -> None:
    table = bytearray(b"".join(pack(">i", slot) for slot in slots))
    content = b"".join(pack(">iqq", *row) for row in rows)
    found = slots_of(content, len(slots))
    places = [unpack_from(">q", found, 8 * at)[0] for at in range(len(rows))]
    heads = b"".join(bytes(table[4 * place : 4 * place + 4]) for place in places)
    made, numbers, used = chained(content, heads, len(slots), number, begin_ms)
    for at, place in enumerate(places):
        table[4 * place : 4 * place + 4] = numbers[4 * at : 4 * at + 4]
    wanted = bytearray(b"".join(pack(">i", slot) for slot in slots))
    assert (made, used) == one_by_one(rows, wanted, number, begin_ms)
    assert table == wanted


def test_nothing_makes_nothing() -> None:
    assert slots_of(b"", 5) == b""
    assert chained(b"", b"", 5, 1, 0) == (b"", b"", 0)
