"""Pulls of known records: the same records as by the usual way, after the head of an answer."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from pocketmq.log import commit_log
from pocketmq.model.reading import PullResult, ReadRange
from pocketmq.store.read.known_pull import SPAN_MAX
from tests.kit.store_language import TalkingStore, store_at

COUNT = 12
QUEUES = (0, 1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TalkingStore]:
    """A store with two queues, whose records alternate in the log."""
    async with store_at(tmp_path / "s", commit_log_file_size_bytes=2 * SPAN_MAX) as made:
        for number, queue_id in product(range(COUNT), QUEUES):
            await made.send(
                "orders", f"message {number} of {queue_id}" * (number + 1), queue_id=queue_id
            )
        await made.settled()
        yield made


@pytest.fixture(params=[0, 1 << 26], ids=["old", "newest"])
def _hot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "HOT_SIZE", request.param)


@pytest.mark.usefixtures("_hot")
async def test_each_pull_gets_its_own_records(store: TalkingStore) -> None:
    reading = store.store.reading
    for queue_id, begin, count in product(QUEUES, (0, 1, 7, COUNT - 1), (1, 2, COUNT)):
        wanted = ReadRange("orders", queue_id, begin, count, 1 << 20)
        usual = reading.pull(wanted)
        assert isinstance(usual, PullResult)
        known = reading.known(wanted)
        assert known is not None
        content = b"".join(usual.records)
        found = (known.count, known.size_bytes, known.following, known.lower, known.upper)
        assert found == (
            usual.record_count, len(content), usual.next_begin_offset, usual.min_offset,
            usual.max_offset,
        )  # fmt: skip
        assert known.copy(b"head") == b"head" + content
        assert reading.pull(wanted, joined=True) == usual._replace(records=[content])


async def test_what_a_queue_lacks_is_left_to_the_usual_way(store: TalkingStore) -> None:
    reading = store.store.reading
    for queue_id, begin in ((0, COUNT), (0, COUNT + 1), (2, 0)):
        assert reading.known(ReadRange("orders", queue_id, begin, 1, 1 << 20)) is None
    store.store.log.files.files[0].doubt()
    assert reading.known(ReadRange("orders", 0, 0, 1, 1 << 20)) is None


async def test_old_records_that_are_not_in_memory_are_left_to_the_usual_way(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "HOT_SIZE", 0)
    wanted = ReadRange("orders", 1, 3, 5, 1 << 20)
    known = store.store.reading.known(wanted)
    assert known is not None
    store.quick_disk.drop_resident()
    assert known.copy(b"head") == b""
    assert store.store.reading.known(wanted) is None  # They may be read from the disk again.
    found = store.store.reading.pull(wanted, joined=True)
    assert not isinstance(found, PullResult)
    assert (await found).record_count == 5


async def test_old_records_that_are_far_apart_are_left_to_the_usual_way(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.send("orders", "x" * SPAN_MAX, queue_id=1)
    await store.send("orders", "behind", queue_id=0)
    await store.settled()
    monkeypatch.setattr(commit_log, "HOT_SIZE", 0)
    wanted = ReadRange("orders", 0, COUNT - 1, 5, 1 << 20)
    known = store.store.reading.known(wanted)
    assert known is not None
    assert known.copy(b"") == b""
    found = store.store.reading.pull(wanted, joined=True)
    assert isinstance(found, PullResult)
    assert found.record_count == 2
