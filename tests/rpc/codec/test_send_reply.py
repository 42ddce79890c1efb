"""Numbers as a reply has them, and a reply whose status changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.index_layout import key_hash
from pocketmq.format.put_records import write_entry
from pocketmq.native.machine import BytesWriter
from pocketmq.rpc.codec.protobuf_write import varint_size, write_varint, write_wide
from pocketmq.rpc.codec.send_reply import with_status, write_hex
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_reply import varint

EDGES = sorted({0} | {(1 << bit) + near for bit in range(1, 63) for near in (-1, 0, 1)})


@pytest.mark.parametrize("value", EDGES)
def test_numbers_are_written_as_any_reader_takes_them(value: int) -> None:
    out = BytesWriter()
    write_varint(out, value)
    assert out.getvalue() == varint(value)
    assert varint_size(value) == len(varint(value))
    for width in (5, 7, 9):
        if value < 1 << 7 * width:
            out.truncate(0)
            write_wide(out, 5, value, width)
            wide = out.getvalue()
            assert len(wide) == 1 + width
            assert pb.SendResult.FromString(wide).queue_offset == value
    out.truncate(0)
    write_hex(out, value)
    assert out.getvalue() == b"%016X" % value


@given(some.integers(-(2**63), 2**63 - 1), some.integers(0, 2**62))
def test_an_entry_has_the_hash_of_its_key(hashed: int, place: int) -> None:
    _check_entry(hashed, place)


@pytest.mark.parametrize("hashed", [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, -1])
def test_entries_at_the_edges_of_hashes(hashed: int) -> None:
    _check_entry(hashed, 5)


def _check_entry(hashed: int, place: int) -> None:
    out = BytesWriter()
    write_entry(out, hashed, place, 77)
    wanted = key_hash(hashed & 0xFFFF_FFFF)
    parts = wanted.to_bytes(4), place.to_bytes(8), (77).to_bytes(8)
    assert out.getvalue() == b"".join(parts)


@given(some.lists(some.text(max_size=200), min_size=1, max_size=4))
def test_all_results_get_another_status(ids: list[str]) -> None:
    results = [pb.SendResult(message_id=one, status=pb.SEND_OK) for one in ids]
    raw = pb.SendMessageResponse(results=results).SerializeToString()
    changed = pb.SendMessageResponse.FromString(with_status(raw, pb.FLUSH_DISK_TIMEOUT))
    assert [result.message_id for result in changed.results] == ids
    assert {result.status for result in changed.results} == {pb.FLUSH_DISK_TIMEOUT}
