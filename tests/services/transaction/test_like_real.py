"""Transactions are written as a real RocketMQ writes them, and one that it left goes on here."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.half_message import Half, checked, committed, given_up, read_half
from pocketmq.format.op_message import op_run, read_op
from pocketmq.format.record import encode_records, record_sizes, split_record
from pocketmq.format.transaction_id import transaction_id
from pocketmq.model.batch import Run
from pocketmq.model.errors import TransactionDecided
from pocketmq.model.message import FIRST_HALF_OFFSET
from pocketmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import open_log
from tests.kit.store_language import store_at
from tests.kit.transacting import COMMIT, ROLLBACK, TransactionDesk
from tests.sim.clock import FakeClock

STOPPED_MS = 1_795_221_493_564
REAL_TOPICS = ("TxT", "GTx")


def topic_of(record: bytes) -> str:
    """Returns the topic in a record."""
    _, _, begin, end, _, _ = split_record(record, 0)
    return record[begin:end].decode()


def put(run: Run, like: bytes) -> bytes:
    """Returns the record that a run becomes at the place and time of another one."""
    destination, batch = run
    head = split_record(like, 0)[0]
    sizes = record_sizes(destination, batch, property_crc=False)
    return encode_records(
        destination, batch, sizes, queue_offset=head[5], physical_offset=head[6],
        store_timestamp_ms=head[10], property_crc=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def real(golden: GoldenStores) -> dict[int, bytes]:
    """All records of the golden store by their places."""
    log = open_log(golden, "semantics")
    found = {
        int.from_bytes(record[28:36]): record
        for _, file, position, size in log.scan(0)
        for record in [bytes(file.view[position : position + size])]
    }
    log.close()
    return found


@pytest.fixture(scope="module")
def halves(real: dict[int, bytes]) -> list[Half]:
    """The half messages of the golden store, in their order."""
    return [read_half(record) for record in real.values() if topic_of(record) == HALF_TOPIC]


def test_a_commit_is_put_byte_by_byte_as_by_a_real_broker(real: dict[int, bytes]) -> None:
    count = 0
    for record in real.values():
        if topic_of(record) in REAL_TOPICS and (place := split_record(record, 0)[0][13]):
            assert put(committed(read_half(real[place])), record) == record
            count += 1
    assert count == 20


def test_a_check_and_a_message_given_up_are_but_for_where_the_message_was_first(
    real: dict[int, bytes], halves: list[Half]
) -> None:
    by_key: dict[str, Half] = {}
    copies = 0
    for half in halves:
        before = by_key.get(half.place.unique_key)
        by_key[half.place.unique_key] = half
        if before is None:
            assert (half.checks, half.first_offset) == (0, half.place.queue_offset)
            continue
        own = put(checked(before, store_host=split_record(half.record, 0)[0][11]), half.record)
        properties = read_half(own).pairs
        assert properties.pop(FIRST_HALF_OFFSET.encode()) == str(before.first_offset).encode()
        assert list(properties.items()) == list(half.pairs.items())
        assert half.checks == before.checks + 1
        copies += 1
    assert copies == 13
    for record in real.values():
        if topic_of(record) == GIVEN_UP_TOPIC:
            last = by_key[read_half(record).place.unique_key]
            host = split_record(record, 0)[0][11]
            assert put(given_up(last, store_host=host), record) == record


def test_what_tells_of_done_ones_is_put_byte_by_byte_as_by_a_real_broker(
    real: dict[int, bytes],
) -> None:
    found = [record for record in real.values() if topic_of(record) == OP_HALF_TOPIC]
    assert len(found) == 3
    for record in found:
        head = split_record(record, 0)[0]
        run = op_run(read_op(record), store_host=head[11], now_ms=head[8])
        assert put(run, record) == record


async def test_a_real_brokers_store_goes_on_where_it_stopped(
    golden: GoldenStores, tmp_path: Path, halves: list[Half]
) -> None:
    directory = golden.copy("semantics", tmp_path / "s")
    shape = {k: v for k, v in golden.shape("semantics").items() if k != "index_style"}
    async with store_at(directory, clock=FakeClock(STOPPED_MS), disk=Disk(), **shape) as talking:
        desk = TransactionDesk(talking)
        await desk.transactions.recover()
        assert desk.transactions.open_count == 0
        desk.listen("PG_tx")
        desk.listen("GTx")
        await desk.run(60_000)
        assert desk.asked == []
        end = desk.store.appended
        told = []
        for half in halves:
            text = transaction_id(half.place)
            said = [
                (await desk.decide(resolution, text, group=half.group))[0]
                for resolution in (COMMIT, ROLLBACK)
            ]
            refusal = next(filter(None, said))
            assert isinstance(refusal, TransactionDecided)
            told.append(refusal.first.partition(",")[0])
        assert desk.store.appended == end
        assert told[:9] == [
            "committed", "rolled back", "given up", "committed", "rolled back", "committed",
            "committed", "rolled back", "given up",
        ]  # fmt: skip
        assert {word: told.count(word) for word in told} == {
            "committed": 21, "rolled back": 19, "given up": 12,
        }  # fmt: skip
        sent = await desk.half("new", topic="TxT", queue_id=2)
        await desk.commit(sent)
        assert desk.bodies("TxT", 2)[-1] == "new"
        await desk.transactions.close()
