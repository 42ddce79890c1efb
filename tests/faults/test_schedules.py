"""C1: the asyncio core in many orders, with callers that give up at every await there is."""

import ast
import inspect
import os
from types import FunctionType
from typing import Any, Final

import pytest

from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import ColdReads
from pocketmq.store.read.pulling import Pulling
from pocketmq.store.read.reading import Reading
from pocketmq.store.tables.durable_table import DurableTable
from pocketmq.store.tables.offsets import ConsumerOffsets
from pocketmq.store.tables.removed_queues import RemovedQueues
from pocketmq.store.write.allocation import Allocation
from pocketmq.store.write.commit import Commit
from pocketmq.store.write.durability import Durability
from pocketmq.store.write.writing import Writing
from tests.sim.schedules import Tally, play

SEED: Final = int(os.environ.get("POCKETMQ_SEED", "1000000"))
SCHEDULES: Final = 400
"""About 19 ms each; `scripts/torture/run schedules` plays more."""
PIECES: Final = 2
CANCELS_MIN: Final = 20

CANCELLED_IN: Final[tuple[Any, ...]] = (
    Send.send,
    Writing.put,
    MessageStore.flush,
    MessageStore.remove_topic,
    Allocation.room,
    Commit.drain,
    Durability.drain,
    DurableTable.saved,
    ConsumerOffsets.commit,
    ConsumerOffsets.set_many,
    RemovedQueues.add,
    Pull.wait,
    Reading.pull_cold,
    Pulling._read,
    ColdReads.apart,
)
SELDOM: Final = {"put", "drain", "wait", "remove_topic", "send"}
"""Functions with an await that only seldom suspends: no room, a flush that is under way, a mark
that is reached already. Another await of theirs is cancelled often enough."""
CANCELS_MIN_OF: Final = {
    Reading.pull_cold: 8,
    Pulling._read: 8,
    ColdReads.apart: 8,
}
"""What a store seldom has to wait for: records that are read in a thread. The long battery comes to
a hundred after some 50,000 schedules."""


@pytest.fixture(scope="module")
def tally(quiet: None) -> Tally:
    """All schedules, played once."""
    return Tally()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("piece", range(PIECES))
def test_nothing_is_lost_leaked_or_out_of_order(tally: Tally, piece: int) -> None:
    for seed in range(SEED + piece, SEED + SCHEDULES, PIECES):
        play(seed, tally)


def test_as_much_was_tried_as_was_meant(tally: Tally) -> None:
    assert tally.schedules == SCHEDULES, "the schedules before have failed"
    assert tally.acknowledged > 8 * SCHEDULES
    assert 0 < tally.kept < tally.given_up
    for function in CANCELLED_IN:
        counts = [tally.cancels_between(path, *lines) for path, lines in awaits(function)]
        shown = f"{function.__qualname__}: {counts}"
        assert counts, shown
        least = CANCELS_MIN_OF.get(function, CANCELS_MIN)
        assert max(counts) >= least, shown
        if function.__name__ not in SELDOM:
            assert min(counts) >= least, shown


def awaits(function: FunctionType) -> list[tuple[str, tuple[int, int]]]:
    """Returns (file, (first line, last line)) of every await in a function."""
    lines, begin = inspect.getsourcelines(function)
    path = inspect.getsourcefile(function) or ""
    shift = len(lines[0]) - len(lines[0].lstrip())
    tree = ast.parse("".join(line[shift:] if line.strip() else line for line in lines))
    return [
        (path, (node.lineno + begin - 1, (node.end_lineno or node.lineno) + begin - 1))
        for node in ast.walk(tree)
        if isinstance(node, ast.Await)
    ]
