"""Sound records beside damage, and units that lead into it, tell what is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK, UNIT
from pocketmq.model.finding import Loss
from pocketmq.tools.repair.neighbours import Neighbour, Neighbours, store_time_position
from pocketmq.tools.verify.losses import QueueWitness
from pocketmq.walk.log_walk import TOO_OLD, Hole, LogWalk
from pocketmq.walk.reader import Chunk
from pocketmq.walk.source import LogSource
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import DamagedStore
from tests.kit.log_bytes import IPV4, IPV6, TIME_MS, LogBytes


@pytest.fixture
def log(tmp_path: Path) -> LogBytes:
    """Thirty records in several files, each a second younger than the one before."""
    log = LogBytes(tmp_path / "s", 1024, base=1024)
    for number in range(30):
        log.add(queue_offset=number, time_ms=TIME_MS + 1_000 * number)
    return log


def numbers(log: LogBytes, found: Neighbour | None) -> int | None:
    return None if found is None else log.places.index(found.physical_offset)


@pytest.mark.parametrize("number", [0, 1, 7, 12, 29])
def test_beside_one_damaged_record(log: LogBytes, number: int) -> None:
    begin = log.places[number]
    log.damage(begin + 92, b"??")
    beside = Neighbours(log.close().found())
    assert beside.at(begin) is None
    assert numbers(log, beside.before(begin)) == (number - 1 if number else None)
    assert numbers(log, beside.before(begin + 1)) == (number - 1 if number else None)
    assert numbers(log, beside.after(begin)) == (number + 1 if number < 29 else None)


def test_a_file_that_is_damaged_as_a_whole(log: LogBytes) -> None:
    log.damage(2048, b"?" * 1024)
    beside = Neighbours(log.close().found())
    before, after = beside.before(3072), beside.after(2048)
    assert before is not None
    assert after is not None
    assert before.physical_offset < 2048 <= 3072 == after.physical_offset


def test_sound_records_in_known_damage_are_too_old(log: LogBytes) -> None:
    files = log.close().found()
    hole = Hole(files[1].path, files[1].base, files[1].end, TOO_OLD, False)
    before = Neighbours(files, [hole]).before(files[2].base)
    assert before is not None
    assert before.physical_offset < hole.begin


def test_a_file_is_walked_once_for_all_records_in_it(
    log: LogBytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over holes, with one record between two; asked out of order, the answers stay so."""
    for number in range(1, 29, 2):
        log.damage(log.places[number] + 92, b"??")
    files, walked = log.close().found(), [0]
    wanted = [Neighbours(files).before(place) for place in log.places]
    over = LogWalk.over

    def counted(walk: LogWalk, source: LogSource, begin: int, upto: int) -> Iterator[Chunk | Hole]:
        walked[0] += min(upto, source.base + source.size) - begin
        return over(walk, source, begin, upto)

    monkeypatch.setattr(LogWalk, "over", counted)
    beside = Neighbours(files)
    assert [beside.before(place) for place in log.places] == wanted
    assert walked[0] <= 2 * (log.end - log.places[0])
    assert [beside.before(place) for place in reversed(log.places)] == wanted[::-1]


def test_nothing_starts_in_a_record_behind_the_log_or_at_a_blank(log: LogBytes) -> None:
    beside = Neighbours(log.close().found())
    assert beside.at(log.places[3]) == (log.places[3], 96, TIME_MS + 3_000, False)
    for place in (log.places[3] + 1, 1 << 40, 2048 - 8, 2048 - 64, log.end):
        assert beside.at(place) is None


def test_the_last_record(log: LogBytes) -> None:
    assert numbers(log, Neighbours(log.close().found()).before(1 << 60)) == 29


def test_a_record_with_a_property_crc_is_told(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(block=b"a\x01b\x02__CRC32#\x010123456789\x02")
    log.close()
    # The CRC is wrong, so this is no record; the one without is.
    assert Neighbours(log.found()).at(0) is None


@pytest.mark.parametrize("born", [b"", IPV6])
def test_where_the_store_time_stands(tmp_path: Path, born: bytes) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(born=born or IPV4)
    position = store_time_position(bytes(log.files[0]))
    assert int.from_bytes(log.files[0][position : position + 8]) == TIME_MS


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> DamagedStore:
    return DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")


@pytest.fixture
def witness(store: DamagedStore) -> QueueWitness:
    return QueueWitness(Disk(), store.directory)


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


def test_a_queue_without_readable_units_shows_nothing(store: DamagedStore) -> None:
    queue = store.directory / "consumequeue/RebuildTopic/0"
    for path in queue.iterdir():
        path.write_bytes(b"short")
    (store.directory / "consumequeue/no topic/0").mkdir(parents=True)
    (store.directory / "consumequeue/orders/x").mkdir(parents=True)
    losses = QueueWitness(Disk(), store.directory).losses(0, store.end)
    assert losses
    assert not [loss for loss in losses if loss[:2] == ("RebuildTopic", 0)]


def test_messages_lost_before_are_not_counted_again(tmp_path: Path, store: DamagedStore) -> None:
    queue = tmp_path / "c" / "consumequeue/T/0"
    queue.mkdir(parents=True)
    content = UNIT.pack(0, 100, 0) + PRE_BLANK + UNIT.pack(200, 100, 0)
    size = store.sizes.consume_queue_file_size_bytes
    (queue / f"{0:020d}").write_bytes(content.ljust(size, b"\0"))
    witness = QueueWitness(Disk(), tmp_path / "c")
    assert witness.losses(0, 1_000) == (Loss("T", 0, 0, 1), Loss("T", 0, 2, 1))


def test_a_unit_that_is_not_between_its_neighbours_counts_where_they_are(tmp_path: Path) -> None:
    queue = tmp_path / "consumequeue/T/0"
    queue.mkdir(parents=True)
    places = [0, 100, 2**40, 300, 5, 500]
    (queue / f"{0:020d}").write_bytes(b"".join(UNIT.pack(each, 100, 0) for each in places))
    witness = QueueWitness(Disk(), tmp_path)
    assert witness.losses(0, 200) == (Loss("T", 0, 0, 3),)
    assert witness.losses(300, 1_000) == (Loss("T", 0, 3, 3),)
    assert QueueWitness(Disk(), tmp_path, {("T", 0): [(0, 1), (2, 6)]}).losses(0, 2**41) == (
        Loss("T", 0, 1, 1),
    )
