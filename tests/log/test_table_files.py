"""Stores written with `enableLmq`: offsets of all groups stand in a file of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.tools.lag import committed_of
from pocketmq.tools.verify.verification import verify
from tests.kit.lite_store import lite_store
from tests.kit.store_language import small_settings, store_at
from tests.kit.tool_sizes import shape_of

PLAIN, LMQ = "config/consumerOffset.json", "config/lmqConsumerOffset.json"
BOTH = "pocketmqBoth"
SIZES: dict[str, Any] = {
    "commit_log_file_size_bytes": 1 << 20,
    "consume_queue_file_size_bytes": 2_000,
}


@pytest.fixture
def lite(tmp_path: Path) -> Path:
    """A store of RocketMQ 5.5.0 with lite topics."""
    return lite_store(tmp_path)


def table(written_ms: int, *marks: str, **rows: int) -> str:
    """A file of offsets of groups in queue 0 of T."""
    found: dict[str, Any] = {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": written_ms},
        "offsetTable": {f"T@{group}": {"0": at} for group, at in rows.items()},
    }
    return json.dumps(found | {mark: {} for mark in marks})


def put(store: Path, plain: str, lmq: str) -> Path:
    (store / "config").mkdir(parents=True)
    (store / PLAIN).write_text(plain)
    (store / LMQ).write_text(lmq)
    return store


def rows_of(path: Path) -> dict[str, dict[str, int]]:
    text = path.read_text().replace("0:", '"0":')
    rows: dict[str, dict[str, int]] = json.loads(text)["offsetTable"]
    return rows


async def found(store: Path, *groups: str) -> list[int | None]:
    async with store_at(store) as opened:
        return [opened.store.tables.offsets.find(group, "T", 0) for group in groups]


async def test_groups_of_a_real_broker_go_on_where_they_were(lite: Path) -> None:
    async with store_at(lite, **SIZES, index_slot_count=0, index_entry_count_max=0) as store:
        offsets = store.store.tables.offsets
        assert offsets.find("fifo-chat", "%LMQ%$chat$dead", 0) == 2
        await store.store.tables.commit("shared-chat", "%LMQ%$chat$--", 0, 0)
    assert rows_of(lite / PLAIN) == rows_of(lite / LMQ)
    assert rows_of(lite / LMQ)["%LMQ%$chat$--@shared-chat"] == {"0": 0}
    assert "groupTopicMap" in (lite / LMQ).read_text()
    for name in (PLAIN, LMQ):
        assert f'"{BOTH}":{{}}' in (lite / name).read_text(), "each tells everything"


@pytest.mark.parametrize(
    ("plain", "lmq", "a", "b", "c"),
    [
        (table(5, a=1, b=2), table(9, b=3, c=4), 1, 3, 4),
        (table(9, a=1, b=2), table(5, b=3, c=4), 1, 2, 4),
        (table(5, BOTH, a=1, b=2), table(9, b=3, c=4), None, 3, 4),
        (table(9, a=1, b=2), table(5, BOTH, b=3, c=4), 1, 2, None),
        (table(5, a=1, b=2), table(9, BOTH, b=3, c=4), None, 3, 4),
    ],
    ids=["joined", "the plain one is newer", "went on with it", "went on without it", "ours"],
)
async def test_which_file_counts(
    tmp_path: Path, plain: str, lmq: str, a: int | None, b: int, c: int | None
) -> None:
    store = put(tmp_path / "s", plain, lmq)
    for group, at in (("a", a), ("b", b), ("c", c)):
        assert committed_of(Disk(), store, group, "T") == ({} if at is None else {0: at})


async def test_what_was_removed_stays_removed(tmp_path: Path) -> None:
    store = put(tmp_path / "s", table(5, a=0, b=0), table(9, c=0))
    async with store_at(store) as opened:
        for number in range(3):
            await opened.send("T", f"{number}")
        await opened.store.tables.offsets.remove_group("a")
        await opened.store.tables.commit("b", "T", 0, 2)
    assert await found(store, "a", "b", "c") == [None, 2, 0]
    assert rows_of(store / PLAIN) == rows_of(store / LMQ)


async def test_a_store_without_it_gets_no_second_file(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a")
        await store.store.tables.commit("g", "T", 0, 1)
    assert (tmp_path / "s" / PLAIN).exists()
    assert not (tmp_path / "s" / LMQ).exists()


def test_a_store_with_lite_topics_is_verified(lite: Path) -> None:
    sizes = shape_of(small_settings(lite, **SIZES, index_slot_count=100, index_entry_count_max=400))
    checked = verify(Disk(), lite, sizes)
    assert checked.records == 64
    assert "topic" not in checked.counts
