"""A task's queue files are opened once, and appear whole, durable and with their digests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.format.consume_unit import PRE_BLANK
from pocketmq.rebuild import drafted_files as module
from pocketmq.rebuild.drafted_files import DraftedFiles, drafted_files
from pocketmq.rebuild.manifest import mark_file
from pocketmq.rebuild.staging import Staging

FILE_SIZE = 100
KEYS = [("A", 0), ("A", 1), ("%LMQ%ü", 3)]


def units(first: int, count: int) -> memoryview:
    found = np.zeros(count, UNIT_TYPE)
    found["physical_offset"], found["size"] = np.arange(first, first + count), 1
    return memoryview(found.tobytes())


def rows_of(out: Path) -> list[list[Any]]:
    paths = sorted(path.relative_to(out) for path in (out / "consumequeue").rglob("0*"))
    marks = [mark_file((str(out), str(path))) for path in paths if (out / path).is_file()]
    return [[mark.path, mark.size, mark.sha256, mark.source] for mark in marks]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    with Staging(tmp_path / "out").drafts() as drafts:
        yield drafts, tmp_path / "out"


@given(st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(1, 9), max_size=3)), max_size=3))
def test_rows_are_those_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, queues: list[tuple[int, list[int]]]
) -> None:
    out = tmp_path_factory.mktemp("out")
    wanted: dict[str, bytes] = {}
    with Staging(out).drafts() as drafts, drafted_files(drafts, out, FILE_SIZE) as files:
        for key, (first, counts) in zip(KEYS, queues, strict=False):
            files.fill(key, first)
            blank = first % (FILE_SIZE // 20)
            content = PRE_BLANK * blank
            for count in counts:
                files.write(key, first, units(1000 + first, count))
                content += units(1000 + first, count)
                first += count
            base = (first - len(content) // 20) * 20
            for begin in range(0, len(content), FILE_SIZE):
                path = f"consumequeue/{key[0]}/{key[1]}/{base + begin:020d}"
                wanted[path] = content[begin : begin + FILE_SIZE].ljust(FILE_SIZE, b"\0")
    assert sorted(files.rows) == rows_of(out)
    assert {row[0]: (out / row[0]).read_bytes() for row in files.rows} == wanted


def test_each_file_is_opened_once(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real_open = os.open

    def counted(path: Any, *given: Any) -> int:
        opened.append(str(path))
        return real_open(path, *given)

    monkeypatch.setattr(os, "open", counted)
    with drafted_files(*places, FILE_SIZE) as files:
        for queue_id in range(20):
            files.write(("A", queue_id), 0, units(queue_id, 7))
    assert len(files.rows) == 40
    assert len(opened) == len(set(opened)) == 40
    assert {Path(path).parent for path in opened} == {places[0]}


def test_files_are_durable_before_they_are_in_their_places(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        events.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def replaced(draft: Path, path: Path) -> None:
        assert str(draft) in events
        events.append(str(path))
        replace(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    with drafted_files(*places, FILE_SIZE) as files:
        for queue_id in range(5):
            files.write(("A", queue_id), 0, units(queue_id, 1))
    assert [path for path in events if "draft" not in path] == [
        str(places[1] / row[0]) for row in files.rows
    ]


def test_a_failed_task_puts_nothing_incomplete_in_its_place(places: tuple[Path, Path]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(AssertionError, match="has no units before 20"):
        leave_a_gap(places)
    assert not (places[1] / "consumequeue").exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def leave_a_gap(places: tuple[Path, Path]) -> None:
    with drafted_files(*places, FILE_SIZE) as files:
        assert isinstance(files, DraftedFiles)
        files.write(("A", 0), 0, units(0, 2))
        files.write(("A", 1), 1, units(0, 2))
