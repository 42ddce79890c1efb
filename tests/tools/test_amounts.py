"""Amounts by group are what counting one by one gives."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from broker.model.message import StoredMessage
from broker.tools.amounts import DIMENSIONS, count_by
from broker.tools.selection import LogSearch, Selection
from tests.fakes.log_bytes import golden_files
from tests.golden_stores import GoldenStores

GROUPS: dict[str, Callable[[StoredMessage], str]] = {
    "topic": lambda m: m.topic,
    "queue": lambda m: f"{m.topic}:{m.queue_id}",
    "hour": lambda m: f"{datetime.fromtimestamp(m.store_timestamp_ms / 1000, UTC):%Y-%m-%dT%H}:00Z",
    "day": lambda m: f"{datetime.fromtimestamp(m.store_timestamp_ms / 1000, UTC):%Y-%m-%d}",
    "tag": lambda m: m.tag or "",
}


def log_of(golden: GoldenStores) -> LogSearch:
    return LogSearch(golden_files(golden, "basic"), Selection(with_system=True))


@pytest.mark.parametrize("dimension", GROUPS)
def test_groups(golden: GoldenStores, dimension: str) -> None:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for message in log_of(golden).messages():
        counts[GROUPS[dimension](message)] += 1
        sizes[GROUPS[dimension](message)] += message.store_size
    found = count_by(log_of(golden), dimension)
    assert {amount.group: amount.messages for amount in found} == counts
    assert {amount.group: amount.record_bytes for amount in found} == sizes
    assert [amount.group for amount in found] == sorted(counts)


def test_sizes_and_times(golden: GoldenStores) -> None:
    found = count_by(log_of(golden), "size")
    assert sum(amount.messages for amount in found) == 2871
    for amount in found:
        limit = int(amount.group.split()[1])
        assert limit // 2 < amount.body_bytes_max <= limit or limit == 1
        assert 0 < amount.first_stored_ms <= amount.last_stored_ms
    assert set(DIMENSIONS) == {*GROUPS, "size"}
