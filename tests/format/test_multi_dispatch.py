"""Which further queues a record has units in, told by its properties; records by the column."""

import numpy as np
import pytest

from pocketmq.format.columns.heads import FRONT, read_heads, starts
from pocketmq.format.columns.properties import find_properties
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.columns.records import further_units
from pocketmq.format.multi_dispatch import further_places
from pocketmq.model.message import MULTI_DISPATCH, MULTI_QUEUE_OFFSET
from tests.golden_stores import GoldenStores


def properties(names: str, offsets: str) -> dict[str, str]:
    return {MULTI_DISPATCH: names, MULTI_QUEUE_OFFSET: offsets}


def test_each_name_has_the_offset_that_stands_at_its_place() -> None:
    found = further_places("Mq", 3, properties("%LMQ%a,%LMQ%$parent$b,Other", "7,0,12"))
    assert found == [(("%LMQ%a", 0), 7), (("%LMQ%$parent$b", 0), 0), (("Other", 3), 12)]


@pytest.mark.parametrize(
    ("topic", "names", "offsets"),
    [
        ("Mq", "%LMQ%a", ""),
        ("Mq", "%LMQ%a,%LMQ%b", "1"),
        ("Mq", "%LMQ%a", "-1"),
        ("Mq", "%LMQ%a", "9" * 19),
        ("Mq", "%LMQ%a/../../b", "1"),
        ("Mq", "..", "1"),
        ("%RETRY%G", "%LMQ%a", "1"),
        ("SCHEDULE_TOPIC_XXXX", "%LMQ%a", "1"),
        ("rmq_sys_wheel_timer", "%LMQ%a", "1"),
    ],
)
def test_what_has_no_further_units(topic: str, names: str, offsets: str) -> None:
    assert further_places(topic, 0, properties(names, offsets)) == []


def test_all_records_of_a_chunk_are_told(golden: GoldenStores) -> None:
    content = (golden.store("lmq") / "commitlog" / "00000000000000000000").read_bytes()
    name = b"INNER_MULTI_QUEUE_OFFSET\x01"
    buffer = bytearray(FRONT) + content + name + bytes(65_536)
    heads = read_heads(buffer, starts(buffer, FRONT, len(buffer)))
    queues = QueueTable()
    queue = queues.number(buffer, heads)
    told = find_properties(buffer, heads).multi_queue_offset
    found = further_units(buffer, heads, queue, queues, told)
    assert (np.diff(found.record) >= 0).all()
    of_one = found.queue_offset[found.queue == queues.keys.index(("%LMQ%one", 0))]
    assert of_one.tolist() == list(range(90))
    assert len(found.record) == 180
