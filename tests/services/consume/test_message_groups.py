"""Of which message group a stored message is: what its decoded properties say."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.record import decode_record, encode_records, record_sizes
from pocketmq.model.batch import Destination, batch_of
from pocketmq.model.message import SHARDING_KEY
from pocketmq.services.consume.fifo.receive import message_group_of

PIECES = [SHARDING_KEY, "\x01", "\x02", "a", "é", "KEYS", f"{SHARDING_KEY}\x01g\x02"]
BLOCKS = st.lists(st.sampled_from([p.encode() for p in PIECES] + [b"\xff"]), max_size=9)


@given(BLOCKS.map(b"".join), st.sampled_from([b"", b"body", f"{SHARDING_KEY}\x01body".encode()]))
def test_it_is_what_the_properties_say(block: bytes, body: bytes) -> None:
    destination, batch = Destination("T", 0, bytes(8)), batch_of(body, property_block=block)
    record = encode_records(
        destination, batch, record_sizes(destination, batch), queue_offset=1, physical_offset=0,
        store_timestamp_ms=1,
    )  # fmt: skip
    wanted = decode_record(record).properties.get(SHARDING_KEY, "")
    assert message_group_of(record) == wanted
