"""Decisions about transactions: each names a half message that there is."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.op_message import is_op_body
from pocketmq.model.batch import Destination, Run
from pocketmq.model.message import TRANSACTION_COMMIT
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.tools.pending.halves import open_halves
from pocketmq.tools.verify.collector import Fold
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row, small_settings, store_at
from tests.kit.tool_sizes import golden_tool_sizes, shape_of

NOW_MS = 1_800_000_000_000


def run_of(topic: str, *bodies: str, queue_id: int = 0) -> Run:
    return Destination(topic, queue_id, STORE_HOST), batch(*map(put_row, bodies))


def commit_of(half: int, body: str) -> Run:
    return Destination("paid", 0, STORE_HOST, TRANSACTION_COMMIT, half), batch(put_row(body))


async def made(directory: Path, *runs: Run) -> list[int]:
    """Makes a store of these runs; returns the physical offsets of their first records."""
    async with store_at(directory) as store:
        put = await store.store.writing.put(list(runs))
        await store.settled()
    return [result.physical_offsets[0] for result in put]


def verified(directory: Path) -> Verification:
    return verify(
        Disk(), directory, shape_of(small_settings(directory)), VerifyOptions(fold=Fold.NONE)
    )


def test_decisions_of_halves_that_there_are(tmp_path: Path) -> None:
    store = tmp_path / "s"
    (first,) = asyncio.run(made(store, run_of(HALF_TOPIC, "a", "b", "c")))
    asyncio.run(made(store, commit_of(first, "a"), run_of(OP_HALF_TOPIC, "0,1,")))
    found = verified(store)
    assert found.counts == {}
    assert "1 half message is undecided" in found.notes
    (half,) = open_halves(Disk(), store, shape_of(small_settings(store)))
    assert (half.queue_id, half.queue_offset) == (0, 2)


def test_a_decision_of_no_half(tmp_path: Path) -> None:
    store = tmp_path / "s"
    _, op, _ = asyncio.run(
        made(
            store,
            run_of(HALF_TOPIC, "a", "b"),
            run_of(OP_HALF_TOPIC, "1,2,", "x"),
            run_of(OP_HALF_TOPIC, "0,", queue_id=1),
        )
    )
    found = verified(store)
    assert found.counts == {"op_message": 3}
    strange, broken, foreign = found.findings
    assert (strange.offset, strange.found, strange.repairable) == (op, "2", False)
    assert broken.found == "another body"
    assert foreign.expected == "half messages below 0 of queue 1"


def test_a_commit_of_no_half(tmp_path: Path) -> None:
    store = tmp_path / "s"
    half, own = asyncio.run(made(store, run_of(HALF_TOPIC, "a"), run_of("paid", "b")))
    (wrong,) = asyncio.run(made(store, commit_of(own, "a")))
    found = verified(store)
    assert found.counts == {"commit": 1}
    assert (found.findings[0].offset, found.findings[0].found) == (wrong, str(own))
    assert half == 0


def test_a_half_committed_twice_is_a_note(tmp_path: Path) -> None:
    store = tmp_path / "s"
    _, half = asyncio.run(made(store, run_of("orders", "x"), run_of(HALF_TOPIC, "a")))
    asyncio.run(made(store, commit_of(half, "a"), commit_of(half, "a")))
    found = verified(store)
    assert found.counts == {}
    assert "1 half messages were committed more than once" in found.notes


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [(b"12,13,", True), (b"7", True), (b"0,", True), (b"", False), (b"a,", False),
     (b"1,,2,", False), (b"-1,", False), (b"9" * 20 + b",", False), (b"12,x,13,", False)],
)  # fmt: skip
def test_the_body_of_an_op_message(body: bytes, is_whole: bool) -> None:
    assert is_op_body(body) is is_whole


def test_a_body_with_other_parts_decides_what_a_broker_reads_in_it(tmp_path: Path) -> None:
    store = tmp_path / "s"
    runs = (run_of(HALF_TOPIC, *"abc"), run_of(OP_HALF_TOPIC, "0,x,2,"))
    asyncio.run(made(store, *runs))
    (half,) = open_halves(Disk(), store, shape_of(small_settings(store)))
    assert half.queue_offset == 1
    assert verified(store).counts == {"op_message": 1}


def test_halves_of_a_real_broker(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "semantics", tmp_path / "s")
    sizes = golden_tool_sizes(golden, "semantics")
    assert list(open_halves(Disk(), store.directory, sizes)) == []
    offsets = store.directory / "config" / "consumerOffset.json"
    text = offsets.read_text()
    place = text.index("0:52")
    assert text.rindex("@CID_RMQ_SYS_TRANS", 0, place) > text.rindex("},", 0, place)
    offsets.write_text(text.replace("0:52", "0:43", 1))
    found = store.verify()
    assert found.counts == {}
    assert "6 half messages are undecided" in found.notes
    halves = list(open_halves(Disk(), store.directory, sizes))
    assert [half.queue_offset for half in halves] == [46, 47, 48, 49, 50, 51]
    assert [half.check_times for half in halves] == [2, 2, 2, 3, 3, 3]
    assert {(half.topic, half.producer_group) for half in halves} == {("TxT", "PG_tx")}
