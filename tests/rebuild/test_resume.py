"""What a killed rebuild left is used only where it fits."""

from dataclasses import replace
from pathlib import Path

import pytest

from broker.format.columns.queues import QueueTable
from broker.rebuild import resume as module
from broker.rebuild.index_builder import IndexBuilder
from broker.rebuild.log_files import ViewSettings
from broker.rebuild.resume import Resume
from broker.rebuild.sequential import rebuild
from broker.rebuild.unit_files import QueueFiles, UnitWriter
from tests.fakes.log_bytes import EVERYTHING, SMALL, LogBytes


def log_of(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(30):
        log.add("AB"[number % 2], queue_offset=number // 2, keys="k")
    return log.close()


def restored(log: LogBytes, tmp_path: Path, settings: ViewSettings = SMALL) -> tuple[int, int]:
    """How many files need not be read again, and how many queues are known from them."""
    queues = QueueTable()
    units = UnitWriter(QueueFiles(tmp_path / "q", 200), queues.keys)
    index = IndexBuilder(tmp_path / "out/index", SMALL.geometry, "UTC")
    resume = Resume(tmp_path / "state", log.found(), settings, EVERYTHING)
    results = resume.restore(queues, units, index)
    return len(results), len(units.runs)


def saved(log: LogBytes, tmp_path: Path) -> None:
    rebuild(log.found(), SMALL, tmp_path / "out", upto=EVERYTHING, state=tmp_path / "state")


@pytest.fixture(autouse=True)
def after_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVED_EVERY_BYTES", 1)


def test_the_same_arguments_go_on(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert restored(log, tmp_path) == (0, 0)
    saved(log, tmp_path)
    assert restored(log, tmp_path) == (len(log.files), 2)
    assert len(list((tmp_path / "state").glob("slots-*"))) == 1


def test_other_settings_a_changed_file_or_another_start_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path)
    saved(log, tmp_path)
    assert restored(log, tmp_path, replace(SMALL, style="5.3")) == (0, 0)
    monkeypatch.setattr(module, "boot_id", lambda: "another")
    assert restored(log, tmp_path) == (0, 0)
    monkeypatch.undo()
    path = Path(log.found()[1].path)
    path.write_bytes(path.read_bytes())
    assert restored(log, tmp_path) == (0, 0)


def test_seldom_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVED_EVERY_BYTES", 1 << 30)
    log = log_of(tmp_path)
    saved(log, tmp_path)
    assert not (tmp_path / "state").exists()
