"""Units that lead into damage name the messages that are lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.consume_unit import PRE_BLANK, UNIT
from broker.tools.repair.actions import Loss
from broker.tools.repair.losses import QueueWitness
from tests.fakes.damaged_store import DamagedStore
from tests.golden_stores import GoldenStores


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> DamagedStore:
    return DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")


@pytest.fixture
def witness(store: DamagedStore) -> Iterator[QueueWitness]:
    made = QueueWitness(Disk(), store.directory, store.sizes)
    yield made
    made.close()


def units(golden: GoldenStores) -> dict[tuple[str, int, int], int]:
    """Place by (topic, queue id, queue offset), as a real broker told them."""
    return {
        (queue["topic"], queue["queueId"], queue["maxOffset"] - len(queue["units"]) + number): place
        for queue in golden.manifest("rebuild-base")["queues"]
        for number, (place, size, _) in enumerate(queue["units"])
        if size != 2**31 - 1
    }


def test_the_messages_of_a_range(
    golden: GoldenStores, store: DamagedStore, witness: QueueWitness
) -> None:
    begin, end = store.places[10], store.places[40]
    lost = [key for key, place in units(golden).items() if begin <= place < end]
    told = witness.losses(begin, end)
    assert [
        (loss.topic, loss.queue_id, loss.first + number)
        for loss in told
        for number in range(loss.messages)
    ] == sorted(lost)
    assert witness.losses(store.end, store.end + 1_000) == ()


def test_a_queue_that_cannot_be_read_says_nothing(store: DamagedStore) -> None:
    queue = next(path for path in (store.directory / "consumequeue").rglob("0") if path.is_dir())
    next(queue.iterdir()).write_bytes(b"short")
    (store.directory / "consumequeue/no topic/0").mkdir(parents=True)
    (store.directory / "consumequeue/orders/x").mkdir(parents=True)
    witness = QueueWitness(Disk(), store.directory, store.sizes)
    losses = witness.losses(0, store.end)
    assert losses
    assert queue.parent.name not in {loss.topic for loss in losses if loss.queue_id == 0}
    witness.close()


def test_messages_lost_before_are_not_counted_again(tmp_path: Path, store: DamagedStore) -> None:
    queue = tmp_path / "c" / "consumequeue/T/0"
    queue.mkdir(parents=True)
    content = UNIT.pack(0, 100, 0) + PRE_BLANK + UNIT.pack(200, 100, 0)
    size = store.sizes.consume_queue_file_size_bytes
    (queue / f"{0:020d}").write_bytes(content.ljust(size, b"\0"))
    witness = QueueWitness(Disk(), tmp_path / "c", store.sizes)
    assert witness.losses(0, 1_000) == (Loss("T", 0, 0, 2),)
    witness.close()
