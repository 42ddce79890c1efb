"""A run is followed from outside: a line for each phase, or a bar that never goes back."""

from dataclasses import replace
from pathlib import Path

import pytest

from pocketmq.backfill.progress import Phase, Progress
from pocketmq.cli.backfill import run as status
from pocketmq.cli.backfill.run import following

PLANNED = Progress(Phase.PLANNED, True, upto=100, range_count=4, log_bytes=100)
READING = replace(PLANNED, phase=Phase.READING, ranges_finished=1, bytes_finished=25)
INDEXING = replace(
    READING, phase=Phase.INDEXING, ranges_finished=4, bytes_finished=100, records=3, entries=9
)
COMPLETE = replace(INDEXING, phase=Phase.COMPLETE, indexed=9)


def followed(seen: list[Progress | None]) -> None:
    left = [*seen]
    status.follow(lambda: left.pop(0), lambda: not left)


def told(seen: list[Progress | None], capsys: pytest.CaptureFixture[str]) -> list[str]:
    followed(seen)
    return capsys.readouterr().err.splitlines()


def test_each_phase_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([None, PLANNED, READING, READING, INDEXING, INDEXING, COMPLETE], capsys) == [
        "Reading 100 B of log in 4 ranges",
        "Indexing 9 entries of 3 records",
    ]


def test_what_an_earlier_run_left_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([COMPLETE, replace(READING, is_running=False)], capsys) == []


def test_bars_are_told_how_much_more_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int]] = []

    class Bar:
        def __init__(self, label: str, total_bytes: int) -> None:
            self.label = label
            steps.append((f"begin {label}", total_bytes))

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            steps.append((f"end {self.label}", 0))

        def __call__(self, byte_count: int) -> None:
            steps.append((self.label, byte_count))

    monkeypatch.setattr(status, "progress", Bar)
    followed([PLANNED, READING, INDEXING, replace(INDEXING, indexed=5)])
    assert steps == [
        ("begin Reading", 100), ("Reading", 0), ("Reading", 25), ("end Reading", 0),
        ("begin Indexing", 180), ("Indexing", 0), ("Indexing", 100), ("end Indexing", 0),
    ]  # fmt: skip


def test_following_ends_with_what_it_follows(tmp_path: Path) -> None:
    with following(tmp_path):
        pass
