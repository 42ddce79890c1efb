"""C2: random walks through the whole interface of a store, beside a model of it."""

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from pocketmq.model.batch import Destination
from pocketmq.model.errors import DiskFull, RecordTooLarge
from pocketmq.store.message_store import open_store
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row, small_settings
from tests.models.model_walk import shortest, walk
from tests.sim.disk import SimDisk
from tests.sim.loop import SeededLoop, run_seeded

SEED: Final = int(os.environ.get("POCKETMQ_SEED", "3000000"))
WALKS: Final = 100
"""About 50 ms each, with a start after every twelfth step; scripts/torture/run schedules takes
more."""
PIECES: Final = 2
STEPS: Final = 50


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("piece", range(PIECES))
def test_a_store_answers_what_its_model_answers(piece: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEED + piece, SEED + WALKS, PIECES):
        try:
            walk(seed, STEPS, counts)
        except Exception as error:
            error.add_note(f"the shortest walk of this seed that fails has {shortest(seed, STEPS)}")
            raise
    assert counts["walks"] == WALKS // PIECES
    for step in ("kill", "cut", "restart", "remove", "expired files"):
        assert counts[step] >= WALKS // PIECES * 3 // 4, f"{step}: {counts[step]}"


def test_a_put_that_fails_takes_no_queue_offset() -> None:
    async def story(loop: SeededLoop) -> None:
        store = await open_store(small_settings(Path("/store")), loop.clock, SimDisk())

        async def put(body: str) -> int:
            run = (Destination("orders", 0, STORE_HOST), batch(put_row(body)))
            (result,) = await store.writing.put([run])
            return result.queue_offset

        assert await put("a") == 0
        store.writing.refuse(DiskFull(path="/store"))
        with pytest.raises(DiskFull):
            await put("b")
        store.writing.refuse(None)
        with pytest.raises(RecordTooLarge):
            await put("c" * 5_000)
        assert await put("d") == 1
        await store.close()

    run_seeded(1, story)
