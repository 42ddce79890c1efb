"""What a store shows beside its own stats."""

from types import SimpleNamespace

import pytest

from broker.format.record import decode_record
from broker.metrics.storage import Storage, queue_gauges
from broker.model.cold_read import ColdRead
from broker.model.errors import Corruption
from broker.model.message import StoredMessage
from tests.fakes.clock import START_MS, FakeClock
from tests.fakes.records import record


class Table:
    """Topics or groups."""

    def __init__(self, *names: str) -> None:
        self._names = [*names]

    def names(self) -> list[str]:
        return self._names


class Desk:
    """A store with one message of a minute ago, and what is shown of it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.min_offset = 0
        self.appended = 100
        self.asked = 0
        self.fault: Exception | None = None
        self.message = decode_record(record(0, b"x", time_ms=START_MS - 60_000))
        self.storage = Storage(
            self,
            self.clock.wall_ms,
            topics=Table("T", "U"),
            groups=Table("G"),
            find_files=lambda: [
                SimpleNamespace(count=2, size_bytes=100),
                SimpleNamespace(count=1, size_bytes=7),
            ],
            permission=6,
        )

    def disk_space(self) -> tuple[str, int, int]:
        return ("/s", 30, 70)

    def message_at(self, physical_offset: int, /) -> StoredMessage | None:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return self.message

    def forgive(self) -> None:
        self.fault = None

    def shown(self, name: str) -> float:
        (gauge,) = [gauge for gauge in self.storage.gauges if gauge.name == name]
        read = gauge.read()
        assert isinstance(read, float)
        return read


RESERVE = "rocketmq_storage_message_reserve_time_milliseconds"


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("rocketmq_storage_size_bytes", 30),
        ("pocketmq_disk_free_bytes", 70),
        ("pocketmq_disk_total_bytes", 100),
        ("rocketmq_topic_number", 2),
        ("rocketmq_consumer_group_number", 1),
        ("rocketmq_broker_permission", 6),
        ("pocketmq_mapped_files", 3),
        ("pocketmq_mapped_bytes", 107),
    ],
)
def test_numbers_are_read_when_somebody_looks(desk: Desk, name: str, number: float) -> None:
    assert desk.shown(name) == number


async def test_the_oldest_message_is_read_once(desk: Desk) -> None:
    assert desk.shown(RESERVE) == 0
    for _ in range(3):
        await desk.storage.refresh()
    assert desk.shown(RESERVE) == 60_000
    assert desk.asked == 1
    desk.clock.advance(5)
    assert desk.shown(RESERVE) == 60_005


async def test_another_one_is_read_when_files_were_let_go(desk: Desk) -> None:
    await desk.storage.refresh()
    desk.min_offset = 50
    await desk.storage.refresh()
    assert desk.asked == 2


async def test_an_empty_log_has_no_oldest_message(desk: Desk) -> None:
    desk.appended = 0
    await desk.storage.refresh()
    assert desk.asked == 0
    assert desk.shown(RESERVE) == 0


async def test_what_the_disk_has_to_tell_is_known_a_refresh_later(desk: Desk) -> None:
    desk.fault = ColdRead(desk.forgive)
    await desk.storage.refresh()
    assert desk.shown(RESERVE) == 0
    await desk.storage.refresh()
    assert desk.shown(RESERVE) == 60_000


async def test_damage_does_not_fail_the_scrape(desk: Desk) -> None:
    desk.fault = Corruption(path="p", file_position=0, physical_offset=0, why="bad")
    await desk.storage.refresh()
    assert desk.shown(RESERVE) == 0


def test_queues_show_where_they_begin_and_end() -> None:
    lowest, highest = queue_gauges(lambda: [("T", 0, 5, 9), ("T", 1, 0, 3)])
    assert lowest.read() == {("T", "0"): 5, ("T", "1"): 0}
    assert highest.read() == {("T", "0"): 9, ("T", "1"): 3}
