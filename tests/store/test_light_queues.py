"""Light message queues (%LMQ%): units of records that belong to other topics."""

from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.record import decode_record
from pocketmq.format.table_json import decode_table
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.tools.rebuild import plan_rebuild, rebuild_in_place
from tests.golden_stores import GoldenStores
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import TalkingStore, at_once, store_at
from tests.kit.tool_sizes import golden_tool_sizes

COUNTS = {"%LMQ%one": 90, "%LMQ%two-0": 30, "%LMQ%two-1": 30, "%LMQ%two-2": 30}


def queue_files(store: Path) -> dict[str, bytes]:
    root = store / "consumequeue"
    return {
        path.relative_to(root).as_posix(): path.read_bytes().rstrip(b"\0")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


async def pulled(store: TalkingStore, topic: str) -> list[tuple[str, bytes]]:
    """Returns topic and body of all that a queue leads to, page by page."""
    found: list[tuple[str, bytes]] = []
    begin = 0
    while True:
        result = at_once(store.store.reading.pull(ReadRange(topic, 0, begin, 7, 1 << 20), None))
        if result.status is not PullStatus.FOUND:
            assert result.status is PullStatus.OFFSET_OVERFLOW_ONE
            return found
        assert result.next_begin_offset == begin + result.record_count
        begin = result.next_begin_offset
        found += [(m.topic, m.body) for m in map(decode_record, result.records)]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_their_messages_are_served(
    golden: GoldenStores, tmp_path: Path, is_lost: bool
) -> None:
    directory = golden.copy("lmq", tmp_path / "s")
    wanted = queue_files(directory)
    if is_lost:
        for path in (directory / "consumequeue").rglob("*"):
            if path.is_file():
                path.unlink()
        (directory / "abort").write_text("1")
    sizes: dict[str, Any] = golden_sizes(golden, "lmq")
    async with store_at(directory, **sizes) as store:
        for topic, count in COUNTS.items():
            found = await pulled(store, topic)
            assert len(set(found)) == count
            assert {name for name, _ in found} == {"Mq"}
        await store.store.tables.topics.create("New", queue_count=1)
    assert queue_files(directory) == wanted
    names = decode_table((directory / "config/topics.json").read_bytes())["topicConfigTable"]
    assert "New" in names
    assert not [name for name in names if name.startswith("%LMQ%")]


async def test_a_rebuild_builds_them_and_keeps_what_no_record_tells_of(
    golden: GoldenStores, tmp_path: Path
) -> None:
    directory = golden.copy("lmq", tmp_path / "s")
    unknown = directory / "consumequeue/%LMQ%$parent$lite/0/00000000000000000000"
    unknown.parent.mkdir(parents=True)
    unknown.write_bytes(bytes(600))
    wanted = queue_files(directory)
    sizes = golden_tool_sizes(golden, "lmq")
    plan = plan_rebuild(Disk(), directory, sizes)
    rebuilt, _ = rebuild_in_place(Disk(), plan, sizes, accept_holes=False)
    assert queue_files(directory) == wanted
    assert {key[0]: ends[1] for key, ends in rebuilt.queues.items() if key[0] in COUNTS} == COUNTS
