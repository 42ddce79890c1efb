"""Messages encoded and decoded without the generated classes equal those of the classes."""

import gzip
from collections.abc import Sequence
from random import Random

import pytest
from google.protobuf.message import DecodeError

from pocketmq.format.properties import encode_properties
from pocketmq.format.record import encode_records, record_sizes
from pocketmq.model.batch import Batch, Destination
from pocketmq.model.consuming import Settled, SettleStatus
from pocketmq.model.message import FLAG_COMPRESSED
from pocketmq.rpc.codec.v2_ack import read_ack
from pocketmq.rpc.codec.v2_messages import V2Messages
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.ack import acked, read_acks
from pocketmq.rpc.v2.delivered import message_of
from tests.kit.mutated import mutated
from tests.kit.official import name

PLAIN = {
    "UNIQ_KEY": ("0102FC00000001167A0B125C4B00000000", "x" * 200),
    "KEYS": ("k", "k1 k2 k3", " k  l "),
    "TAGS": ("A", "\xfc"),
    "__BORNHOST": ("client-host",),
    "BORN_TIMESTAMP": ("1700000000000",),
    "PGROUP": ("orders",),
    "RECONSUME_TIME": ("0",),
    "TRACE_CONTEXT": ("00-ab",),
    "__SHARDINGKEY": ("g1",),
    "colour": ("blue", "x" * 300),
    "\u20ac": ("\U0001f600",),
    "TIMER_ROLL_TIMES": ("1",),
    "CLUSTER": ("DefaultCluster",),
}
RARE = {
    "TRAN_MSG": ("true", "false"),
    "TIMER_DELIVER_MS": ("1795000000000", "never"),
    "DELAY": ("3",),
    "_SYS_MSG_PRIORITY_": ("4", "x"),
    "DLQ_ORIGIN_TOPIC": ("orders",),
}
HOSTS = (bytes((10, 0, 0, 7)) + (4711).to_bytes(4), bytes(15) + b"\1" + bytes(4))
TIMES = (0, 1, 999, 1_700_000_000_123, 253_402_300_799_999, 253_402_300_800_000, 2**62)


def record(random: Random, *, is_plain: bool) -> bytes:
    """Returns a stored message."""
    known = PLAIN if is_plain else PLAIN | RARE
    names = random.sample(sorted(known), random.randrange(len(known)))
    topic = "orders" if is_plain else random.choice(("orders", "%DLQ%g", "%RETRY%g_orders"))
    host = HOSTS[0] if is_plain else random.choice(HOSTS)
    flag = random.choice((0, FLAG_COMPRESSED))
    destination = Destination(topic, random.choice((0, 7, 300)), host, flag)
    body = random.randbytes(random.choice((1, 127, 128, 5_000)))
    if flag and (is_plain or random.choice((True, False))):
        body = gzip.compress(body)
    batch = Batch(
        bodies=[body],
        property_blocks=[encode_properties({one: random.choice(known[one]) for one in names})],
        unique_keys=[""],
        keys=[""],
        tags=[""],
        born_ms=[random.choice(TIMES[:5] if is_plain else TIMES)],
        born_hosts=[host],
        flags=[0],
        reconsume_times=[random.choice((0, 3))],
    )
    return encode_records(
        destination,
        batch,
        record_sizes(destination, batch),
        queue_offset=random.choice((0, 1, 2**40)),
        physical_offset=4096,
        store_timestamp_ms=random.choice(TIMES[:5]),
    )


def answered(records: Sequence[bytes], random: Random) -> list[bytes]:
    """Returns what is written of records, seen to be what the generated classes say of each."""
    topic = pb.Resource(name="orders", resource_namespace=random.choice(("", "shop")))
    handles = [f"handle {number}" for number in range(len(records))]
    attempts = [random.choice((1, 2, 300)) for _ in records]
    written = V2Messages().answers(
        [b"".join(records[:3]), *records[3:]], handles, attempts, topic.SerializeToString()
    )
    rows = zip(written, records, handles, attempts, strict=True)
    for answer, one, handle, attempt in rows:
        if answer:
            found = pb.ReceiveMessageResponse.FromString(answer)
            assert found.message == message_of(one, topic, attempt=attempt, handle=handle)
            # Only the order of a map differs between the two encoders.
            assert len(answer) == found.ByteSize()
    return written


@pytest.mark.parametrize("seed", range(20))
def test_a_plain_record_is_written_as_the_generated_classes_write_it(seed: int) -> None:
    random = Random(seed)
    assert all(answered([record(random, is_plain=True) for _ in range(20)], random))


@pytest.mark.parametrize("seed", range(20))
def test_a_rare_record_is_written_so_or_left_to_them(seed: int) -> None:
    random = Random(seed)
    written = answered([record(random, is_plain=False) for _ in range(30)], random)
    assert b"" in written


def test_a_property_that_is_no_text_is_left_to_them() -> None:
    random = Random(1)
    one = record(random, is_plain=True)
    spoilt = one[:-7] + b"a\x01\xff\xfe\x02bc"
    assert answered([one, spoilt], random)[1] == b""


def acks(random: Random) -> pb.AckMessageRequest:
    entries = [
        pb.AckMessageEntry(
            message_id=random.choice(("id", "x" * 200) * 20 + ("", "\xfc")),
            receipt_handle=random.choice(("h 1", "h 2", "y" * 130) * 20 + ("\xfc", "")),
        )
        for _ in range(random.choice((0, 1, 2, 32)))
    ]
    if entries and random.random() < 0.1:
        entries[-1].lite_topic = "l"
    return pb.AckMessageRequest(
        group=name(random.choice(("g", "g", ""))), topic=name("orders"), entries=entries
    )


def test_acks_are_read_and_answered_as_the_generated_classes_do() -> None:
    random, count = Random(3), 0
    for number in range(3_000):
        raw = acks(random).SerializeToString()
        raw = mutated(random, raw) if number % 3 == 2 else raw
        plain = read_ack(raw)
        if plain is None:
            continue
        count += 1
        try:
            request = pb.AckMessageRequest.FromString(raw)
        except DecodeError:
            with pytest.raises(DecodeError):
                read_acks(raw)
            continue
        assert plain.handles == [entry.receipt_handle for entry in request.entries]
        read = read_acks(raw)
        assert (read.group, read.topic) == (request.group, request.topic)
        settled = [Settled(SettleStatus.OK, handle) for handle in plain.handles]
        assert plain.all_settled() == acked(request, settled).SerializeToString(), raw.hex()
    assert count > 300


def test_numbers_that_a_fault_made_negative_are_left_to_them() -> None:
    random = Random(1)
    one = record(random, is_plain=True)
    queue = one[:12] + b"\xff" + one[13:]
    queue_offset = one[:20] + b"\xff" + one[21:]
    assert answered([one, queue, queue_offset], random)[1:] == [b"", b""]


PLAIN_ACK = pb.AckMessageRequest(
    group=name("g"),
    topic=name("orders"),
    entries=[pb.AckMessageEntry(message_id=f"id {n}", receipt_handle=f"h {n}") for n in range(3)],
)
UNKNOWN_FIELDS = (b"\x78\x01", b"\x7a\x01x", b"\x7d\x01\x02\x03\x04", b"\x79" + bytes(8))
"""Fields of number 15, of every kind that is in use."""


def with_entry(at: int, entry: bytes) -> bytes:
    """Returns the plain ack with another entry in the place of one of its own."""
    entries = [one.SerializeToString() for one in PLAIN_ACK.entries]
    entries[at] = entry
    head = pb.AckMessageRequest(group=PLAIN_ACK.group, topic=PLAIN_ACK.topic).SerializeToString()
    return head + b"".join(b"\x1a" + bytes((len(one),)) + one for one in entries)


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("more", [*UNKNOWN_FIELDS, b"\x1a\x04lite", b"\x12\x03h 9", b"\x0a\x02id"])
def test_an_entry_with_more_than_an_id_and_a_handle_is_left_to_the_classes(
    at: int, more: bytes
) -> None:
    """A field that comes later changes what is asked; some day one does that is not known yet."""
    entry = PLAIN_ACK.entries[at].SerializeToString()
    assert read_ack(with_entry(at, entry)) is not None
    for odd in (entry + more, more + entry):
        raw = with_entry(at, odd)
        assert read_ack(raw) is None
        request = pb.AckMessageRequest.FromString(raw)
        assert read_acks(raw).handles == [one.receipt_handle for one in request.entries]


@pytest.mark.parametrize("more", [*UNKNOWN_FIELDS, b"\x0a\x00", b"\x12\x00", b"\x1a\x00"])
def test_an_ack_with_more_fields_is_left_to_the_classes(more: bytes) -> None:
    raw = PLAIN_ACK.SerializeToString()
    assert read_ack(raw) is not None
    assert read_ack(raw + more) is None


def test_an_ack_without_one_of_its_fields_is_not_plain() -> None:
    for field in ("group", "topic", "entries"):
        request = pb.AckMessageRequest()
        request.CopyFrom(PLAIN_ACK)
        request.ClearField(field)
        assert read_ack(request.SerializeToString()) is None
