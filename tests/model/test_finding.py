"""Findings of a verification: the text of lost messages says what the broker's own topics hold."""

import pytest

from pocketmq.model.finding import shown_loss


@pytest.mark.parametrize(
    ("topic", "meaning"),
    [
        ("orders", ""),
        ("%RETRY%billing", "the group failed to consume"),
        ("%RETRY%billing_orders", "the group failed to consume"),
        ("%DLQ%billing", "the group gave up"),
    ],
)
def test_a_loss_of_a_group_s_own_topic_is_explained(topic: str, meaning: str) -> None:
    text = shown_loss(topic, 0, 30, 2)
    assert text.startswith(f"{topic}:0 from offset 30 on: 2")
    assert meaning in text
    assert ("(" in text) == bool(meaning)
