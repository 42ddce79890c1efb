"""What a store shows beside its own stats."""

from pathlib import Path

import pytest

from broker.format.record import decode_record
from broker.metrics.storage import Oldest
from broker.model.errors import Corruption
from broker.model.message import StoredMessage
from broker.store.message_store import MessageStore
from broker.store.reading.patience import Later, NowOrLater
from tests.fakes.clock import START_MS, FakeClock
from tests.fakes.records import record
from tests.metrics.shown import families
from tests.metrics.whole_broker import whole_broker


class Desk:
    """A log with one message of a minute ago, and the age of its oldest one."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log_range = (0, 100)
        self.asked = 0
        self.fault: Exception | None = None
        self.is_cold = False
        self.message = decode_record(record(0, b"x", time_ms=START_MS - 60_000))
        self.oldest = Oldest(lambda: self.log_range, self.message_at, self.clock.wall_ms)

    def message_at(self, physical_offset: int) -> NowOrLater[StoredMessage | None]:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return Later(self._fetched) if self.is_cold else self.message

    async def _fetched(self) -> StoredMessage | None:
        return self.message


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_the_oldest_message_is_read_once(desk: Desk) -> None:
    assert desk.oldest.age_ms() == 0
    for _ in range(3):
        await desk.oldest.refresh()
    assert desk.oldest.age_ms() == 60_000
    assert desk.asked == 1
    desk.clock.advance(5)
    assert desk.oldest.age_ms() == 60_005


async def test_another_one_is_read_when_files_were_let_go(desk: Desk) -> None:
    await desk.oldest.refresh()
    desk.log_range = (50, 100)
    await desk.oldest.refresh()
    assert desk.asked == 2


async def test_an_empty_log_has_no_oldest_message(desk: Desk) -> None:
    desk.log_range = (0, 0)
    await desk.oldest.refresh()
    assert desk.asked == 0
    assert desk.oldest.age_ms() == 0


async def test_a_refresh_waits_for_what_the_disk_has_to_tell(desk: Desk) -> None:
    desk.is_cold = True
    await desk.oldest.refresh()
    assert desk.oldest.age_ms() == 60_000


async def test_damage_does_not_fail_the_scrape(desk: Desk) -> None:
    desk.fault = Corruption(path="p", file_position=0, physical_offset=0, why="bad")
    await desk.oldest.refresh()
    assert desk.oldest.age_ms() == 0


async def test_the_store_is_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with whole_broker(tmp_path / "store", detail="full") as broker:
        await broker.traffic()
        monkeypatch.setattr(MessageStore, "disk_space", lambda store: ("/s", 30, 70))
        shown = families(await broker.page())
        parts = broker.store._structures
        mapped = (parts.log_files.count, parts.queue_files.count, len(parts.index.files))
        mapped_bytes = parts.log_files.size_bytes + parts.queue_files.size_bytes
        mapped_bytes += len(parts.index.files) * parts.index.geometry.file_size
    assert all(mapped)
    wanted = {
        "rocketmq_storage_size_bytes": 30,
        "pocketmq_disk_free_bytes": 70,
        "pocketmq_disk_total_bytes": 100,
        "rocketmq_topic_number": len(broker.store.tables.topics.names()),
        "rocketmq_consumer_group_number": len(broker.store.tables.groups.names()),
        "rocketmq_broker_permission": 6,
        "pocketmq_mapped_files": sum(mapped),
        "pocketmq_mapped_bytes": mapped_bytes,
    }
    assert {name: shown[name].samples[0].value for name in wanted} == wanted
    ends = {
        (s.labels["topic"], s.labels["queue_id"]): s.value
        for s in shown["pocketmq_queue_max_offset"].samples
    }
    assert ends["orders", "0"] == 3
    assert shown["pocketmq_queue_min_offset"].samples[0].value == 0
