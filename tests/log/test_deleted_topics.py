"""Records that belong to no queue any more, told by what queues and the table of topics say."""

from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import UNIT
from pocketmq.format.deleted_topics import LeftOver, left_over_of
from pocketmq.log.deleted_topics import (
    find_left_over,
    kept_left_over,
    known_topics,
    left_over_now,
)
from pocketmq.log.queue_places import expired_queues
from pocketmq.model.message import OFFSET_MAX
from tests.golden_stores import GoldenStores

LOG_FILE = 262_144
LOG_END = 262_144


def found(directory: Path, upto: int = OFFSET_MAX) -> LeftOver:
    return find_left_over(Disk(), directory, LOG_FILE, upto)


def test_a_topic_without_row_and_queue_was_deleted(golden: GoldenStores) -> None:
    left_over = found(golden.store("deleted"))
    assert left_over.floor_of("Del", 0) == OFFSET_MAX
    assert left_over.floor_of("Keep", 0) == 0
    for topic in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_own", "%LMQ%light"):
        assert left_over.floor_of(topic, 0) == 0


def test_what_a_crash_may_have_taken_the_row_of_is_not_left_over(golden: GoldenStores) -> None:
    assert found(golden.store("deleted"), 1_000).floor_of("Del", 0) == 1_000


@pytest.mark.parametrize("has_bak", [False, True])
def test_without_a_table_nobody_says_what_was_deleted(
    golden: GoldenStores, tmp_path: Path, has_bak: bool
) -> None:
    store = golden.copy("deleted", tmp_path / "s")
    (store / "config/topics.json").write_bytes(b"{")
    if not has_bak:
        (store / "config/topics.json.bak").unlink()
    assert (known_topics(Disk(), store) is not None) == has_bak
    assert found(store).floor_of("Nobody", 0) == (OFFSET_MAX if has_bak else 0)


def test_a_queue_begins_with_its_first_message(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("recreate", tmp_path / "s")
    path = store / "consumequeue/Del/1" / ("0" * 20)
    place, size, code = UNIT.unpack(path.read_bytes()[:20])
    assert found(store).floor_of("Del", 1) == place > 0
    for unit in ((place + 1, size, code), (0, 0, 0), (1 << 62, size, code)):  # Damaged.
        path.write_bytes(UNIT.pack(*unit) + path.read_bytes()[20:])
        assert found(store).floor_of("Del", 1) == 0


def test_as_text_it_is_the_same(golden: GoldenStores, tmp_path: Path) -> None:
    left_over = found(golden.store("recreate"))
    assert left_over_of(left_over.text) == left_over
    assert LeftOver().text == ""
    for text in ("{}", "[]", "x", '{"topics": 1, "places": []}'):
        with pytest.raises(ValueError):
            left_over_of(text)
    own = tmp_path / "pocketmq"
    own.mkdir()
    (own / "left_over.json").write_text("{}")
    assert kept_left_over(Disk(), tmp_path) == LeftOver()


def test_a_tool_believes_it_as_far_as_the_checkpoint_after_a_crash(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("deleted", tmp_path / "s")
    assert left_over_now(Disk(), store, LOG_FILE).floor_of("Del", 0) == OFFSET_MAX
    (store / "abort").touch()
    assert 0 < left_over_now(Disk(), store, LOG_FILE).floor_of("Del", 0) < LOG_END
    (store / "checkpoint").unlink()
    assert left_over_now(Disk(), store, LOG_FILE).floor_of("Del", 0) == 0


def test_queues_whose_messages_have_all_left_the_log(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("recreate", tmp_path / "s")
    assert [*expired_queues(Disk(), store)] == []
    (store / "commitlog" / ("0" * 20)).rename(store / "commitlog" / f"{LOG_FILE:020d}")
    names = {path.relative_to(store).as_posix() for path in expired_queues(Disk(), store)}
    assert "consumequeue/Del/0/" + "0" * 20 in names
    assert len(names) == len({path.rpartition("/")[0] for path in names})
