"""A dead letter is sent again as it was sent first, whatever its way was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.dead_letter import reveal
from pocketmq.format.java_hash import java_hash
from pocketmq.format.properties import decode_properties, encode_properties
from pocketmq.model.batch import Destination
from pocketmq.model.errors import OriginUnknown
from pocketmq.model.system_topics import dead, revived, sent_back
from tests.kit.rows import Row, encoded

HOST = b"\x7f\0\0\1\0\0\x1f\x91"
SENT = {"UNIQ_KEY": "A", "WAIT": "true", "KEYS": "k", "TAGS": "t", "own": "x", "CLUSTER": "c"}


def record(properties: dict[str, str], queue_offset: int = 5) -> bytes:
    row = Row(b"body", encode_properties(properties), 7, 11, HOST, "A", "k", "t", 16)
    return encoded(Destination("%DLQ%g", 0, HOST), row, queue_offset=queue_offset, crc=True)


@given(st.lists(st.sampled_from(["back", "lease"]), max_size=4), st.booleans())
def test_properties_are_those_of_the_first_send(way: list[str], is_grouped: bool) -> None:
    sent = SENT | ({"__SHARDINGKEY": "customer-7"} if is_grouped else {})
    properties, topic = dict(sent), "orders"
    for step in way:
        if step == "back":
            disguise = sent_back("g", topic, properties, "ID", 3)
        else:
            disguise = revived("g", topic, properties, 1_000)
        properties, topic = disguise.applied(properties), disguise.place.topic
    properties = dead("g", topic, properties, "ID").applied(properties)
    found = reveal(record(properties), "g", topic="", store_host=HOST, queue_count_of=lambda _: 4)
    destination, batch = found.run
    queue = (java_hash("customer-7") & 0x7FFFFFFF) % 4 if is_grouped else 5 % 4
    assert (destination.topic, destination.queue_id) == ("orders", queue)
    assert decode_properties(batch.property_blocks[0]) == sent
    assert (batch.bodies, batch.reconsume_times, batch.born_ms) == ([b"body"], [0], [11])
    assert (batch.unique_keys, batch.keys, batch.tags, batch.flags) == (["A"], ["k"], ["t"], [7])


def test_one_that_does_not_say_its_topic_is_refused() -> None:
    with pytest.raises(OriginUnknown):
        reveal(record(SENT), "g", topic="", store_host=HOST, queue_count_of=lambda _: 4)
