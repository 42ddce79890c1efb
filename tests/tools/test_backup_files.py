"""What is copied when: positions before the log, what the log needs after it."""

from pathlib import Path

import pytest

from broker.tools.backup_files import Turn, shown_left_out, turn_of, walk

ALWAYS = {
    "lock": Turn.NEVER,
    "abort": Turn.NEVER,
    "pocketmq/commitlog.draft": Turn.NEVER,
    "config/topics.json.draft": Turn.NEVER,
    "commitlog/00000000000000000000": Turn.LOG,
    "checkpoint": Turn.EARLY,
    "config/consumerOffset.json": Turn.EARLY,
    "config/consumerOffset.json.bak": Turn.EARLY,
    "config/topics.json": Turn.LATE,
    "config/topics.json.bak": Turn.LATE,
    "config/subscriptionGroup.json": Turn.LATE,
    "pocketmq/store.json": Turn.LATE,
    "pocketmq/replaced/20261121/index/x": Turn.LEFT_OUT,
}
IN_PLACE = (
    "timerwheel", "timerlog/00000000000000000000", "consumequeue_ext/T/0/0", "abort.bak",
)  # fmt: skip


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(("relative", "turn"), ALWAYS.items())
def test_the_same_of_every_store(relative: str, turn: Turn, running: bool) -> None:
    assert turn_of(relative, running=running, with_views=False) is turn


@pytest.mark.parametrize("relative", IN_PLACE)
def test_what_changes_in_place_is_copied_of_stopped_stores_only(relative: str) -> None:
    assert turn_of(relative, running=False, with_views=False) is Turn.LATE
    assert turn_of(relative, running=True, with_views=False) is Turn.LEFT_OUT


def test_the_mark_of_a_running_store_is_told_by_the_manifest() -> None:
    assert turn_of("pocketmq/watermark", running=False, with_views=False) is Turn.LATE
    assert turn_of("pocketmq/watermark", running=True, with_views=False) is Turn.NEVER


@pytest.mark.parametrize("suffix", ["", ".bak"])
def test_ends_of_queues_go_with_the_queues(suffix: str) -> None:
    relative = f"pocketmq/queue_ends.json{suffix}"
    assert turn_of(relative, running=False, with_views=True) is Turn.LATE
    assert turn_of(relative, running=False, with_views=False) is Turn.NEVER
    assert turn_of(relative, running=True, with_views=True) is Turn.NEVER


def test_metadata_that_is_no_table() -> None:
    assert turn_of("config/timercheck", running=False, with_views=False) is Turn.EARLY
    assert turn_of("config/timercheck", running=True, with_views=False) is Turn.LEFT_OUT


@pytest.mark.parametrize("relative", ["consumequeue/T/0/0", "index/20261121023000000"])
def test_views_when_asked_for(relative: str) -> None:
    assert turn_of(relative, running=False, with_views=False) is Turn.LEFT_OUT
    assert turn_of(relative, running=False, with_views=True) is Turn.LATE


def test_what_is_left_out_is_told_by_directory() -> None:
    found = map(shown_left_out, ("index/1", "config/timercheck", "pocketmq/replaced/a/b", "abort"))
    assert list(found) == ["index", "config/timercheck", "pocketmq/replaced", "abort"]


def test_a_log_on_another_disk_is_found(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/0").touch()
    (tmp_path / "s/config").mkdir(parents=True)
    (tmp_path / "s/config/topics.json").touch()
    (tmp_path / "s/commitlog").symlink_to(tmp_path / "far")
    assert list(walk(tmp_path / "s")) == ["commitlog/0", "config/topics.json"]
