"""Origins of a dead letter, as far as the broker that made it recorded them."""

import pytest

from pocketmq.model.message import DLQ_ORIGIN_TOPIC, RETRY_TOPIC
from pocketmq.model.system_topics import sent_first


@pytest.mark.parametrize(
    ("properties", "topic"),
    [
        ({DLQ_ORIGIN_TOPIC: "orders", RETRY_TOPIC: "paid"}, "orders"),
        ({DLQ_ORIGIN_TOPIC: "", RETRY_TOPIC: "paid"}, "paid"),
        ({RETRY_TOPIC: "paid"}, "paid"),
        ({DLQ_ORIGIN_TOPIC: "%RETRY%g_orders"}, "orders"),
        ({RETRY_TOPIC: "%RETRY%g_orders"}, "orders"),
    ],
)
def test_it_is_what_its_properties_say(properties: dict[str, str], topic: str) -> None:
    found = sent_first("g", properties)
    assert found is not None
    assert (found[0], found[1].place.topic) == (topic, topic)


@pytest.mark.parametrize("properties", [{}, {DLQ_ORIGIN_TOPIC: "", RETRY_TOPIC: ""}])
def test_without_an_origin_it_is_nowhere(properties: dict[str, str]) -> None:
    assert sent_first("g", properties) is None
