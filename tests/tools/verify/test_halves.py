"""Decisions about transactions: each names a half message that there is."""

import asyncio
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.model.batch import Destination, Run
from broker.model.message import TRANSACTION_COMMIT
from broker.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from broker.tools.verify.verification import Verification, verify
from broker.tools.waiting.halves import decided_offsets, open_halves
from tests.fakes.checked_store import CheckedStore
from tests.fakes.rows import batch
from tests.fakes.store_language import STORE_HOST, put_row, small_settings, store_at
from tests.fakes.tool_sizes import golden_tool_sizes, shape_of
from tests.golden_stores import GoldenStores

NOW_MS = 1_800_000_000_000


def run_of(topic: str, *bodies: str, queue_id: int = 0) -> Run:
    return Destination(topic, queue_id, STORE_HOST), batch(*map(put_row, bodies))


def commit_of(half: int, body: str) -> Run:
    return Destination("paid", 0, STORE_HOST, TRANSACTION_COMMIT, half), batch(put_row(body))


async def made(directory: Path, *runs: Run) -> list[int]:
    """Make a store of these runs; returns the physical offsets of their first records."""
    async with store_at(directory) as store:
        put = await store.store.writing.put(list(runs))
        await store.settled()
    return [result.physical_offsets[0] for result in put]


def verified(directory: Path) -> Verification:
    return verify(Disk(), directory, shape_of(small_settings(directory)))


def test_decisions_of_halves_that_there_are(tmp_path: Path) -> None:
    store = tmp_path / "s"
    (first,) = asyncio.run(made(store, run_of(HALF_TOPIC, "a", "b", "c")))
    asyncio.run(made(store, commit_of(first, "a"), run_of(OP_HALF_TOPIC, "0,1,")))
    found = verified(store)
    assert found.counts == {}
    assert "1 half messages wait for a decision" in found.notes
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
    ("body", "offsets"),
    [(b"12,13,", [12, 13]), (b"7", [7]), (b"0,", [0]), (b"", None), (b"a,", None), (b"1,,2,", None),
     (b"-1,", None), (b"9" * 20 + b",", None)],
)  # fmt: skip
def test_the_body_of_an_op_message(body: bytes, offsets: list[int] | None) -> None:
    assert decided_offsets(body) == offsets


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
    assert "6 half messages wait for a decision" in found.notes
    halves = list(open_halves(Disk(), store.directory, sizes))
    assert [half.queue_offset for half in halves] == [46, 47, 48, 49, 50, 51]
    assert [half.check_times for half in halves] == [2, 2, 2, 3, 3, 3]
    assert {(half.topic, half.producer_group) for half in halves} == {("TxT", "PG_tx")}
