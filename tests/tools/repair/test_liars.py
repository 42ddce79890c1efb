"""A record whose head was changed is told by its unit; a queue with a true gap is left alone."""

from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.model.message import TRANSACTION_PREPARED
from broker.rebuild.sequential import rebuild
from broker.tools.repair.liars import lying_records
from broker.tools.repair.losses import QueueWitness
from broker.tools.store_access import Sizes, view_settings
from tests.fakes.log_bytes import EVERYTHING, SMALL, LogBytes

SIZES = Sizes(4096, SMALL.consume_queue_file_bytes, IndexGeometry(*SMALL.geometry), time_zone="UTC")
QUEUE_ID, QUEUE_OFFSET, SYSTEM_FLAG = (12, 4), (20, 8), (36, 4)


class Store:
    """A log of two queues in turn, its views, and then heads that are changed."""

    def __init__(self, directory: Path, offsets: list[int]) -> None:
        self.log = LogBytes(directory)
        for queue_offset in offsets:
            for queue_id in (0, 1):
                self.log.add("T", queue_id, queue_offset=queue_offset)
        self.log.close()
        rebuild(self.log.found(), SMALL, directory, upto=EVERYTHING)

    def change(self, number: int, field: tuple[int, int], value: int) -> None:
        """Write another value into a field of a record's head."""
        position, size = field
        file = self.log.found()[0]
        content = bytearray(Path(file.path).read_bytes())
        at = self.log.places[number] + position
        content[at : at + size] = value.to_bytes(size)
        Path(file.path).write_bytes(content)

    def liars(self) -> list[int]:
        witness = QueueWitness(Disk(), self.log.store, SIZES)
        settings = view_settings(SIZES, check_crc=True)
        try:
            found = lying_records(self.log.found(), settings, witness)
        finally:
            witness.close()
        return [self.log.places.index(liar.physical_offset) for liar in found]


CHANGES = [
    (QUEUE_OFFSET, 999),
    (QUEUE_OFFSET, 1 << 40),
    (QUEUE_ID, 7),
    (SYSTEM_FLAG, TRANSACTION_PREPARED),
]


@pytest.mark.parametrize("number", [2, 6, 7, 15])
@pytest.mark.parametrize(("field", "value"), CHANGES)
def test_a_changed_head_is_told(
    tmp_path: Path, number: int, field: tuple[int, int], value: int
) -> None:
    store = Store(tmp_path, list(range(10)))
    store.change(number, field, value)
    assert store.liars() == [number]


@pytest.mark.parametrize("value", [999, 1 << 40])
def test_the_first_message_does_not_take_the_others_with_it(tmp_path: Path, value: int) -> None:
    """By its offset all that follow it would be repeats."""
    store = Store(tmp_path, list(range(10)))
    store.change(0, QUEUE_OFFSET, value)
    assert store.liars() == [0]


def test_two_of_one_queue(tmp_path: Path) -> None:
    store = Store(tmp_path, list(range(10)))
    store.change(4, QUEUE_OFFSET, 0)
    store.change(12, QUEUE_ID, 1)
    assert store.liars() == [4, 12]


@pytest.mark.parametrize("offsets", [[0, 1, 5, 6], [0, 1, 2, 9], [3, 4, 4, 5], [0, 1, 0, 1]])
def test_true_gaps_and_repeats_are_no_lies(tmp_path: Path, offsets: list[int]) -> None:
    assert Store(tmp_path, offsets).liars() == []


def test_the_last_message_may_stand_behind_a_true_gap(tmp_path: Path) -> None:
    store = Store(tmp_path, list(range(10)))
    store.change(18, QUEUE_OFFSET, 30)
    assert store.liars() == []


def test_without_units_nothing_is_proved(tmp_path: Path) -> None:
    store = Store(tmp_path, list(range(10)))
    store.change(6, QUEUE_OFFSET, 999)
    for path in (tmp_path / "consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    assert store.liars() == []
