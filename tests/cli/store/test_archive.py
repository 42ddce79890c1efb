"""`pocketmq archive` and `store restore` of an archive on the command line."""

import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pocketmq.cli.store import archive as module
from pocketmq.files.archive_mark import archives_of, read_archived, write_archived
from pocketmq.files.disk import Disk
from pocketmq.format.archived import ALIVE_MS, ArchivedUpto, decode_archived
from pocketmq.tools.archive.reporting import ArchiveReports
from pocketmq.tools.archive.shipping import Shipped
from tests.cli.command_line import Ran, run
from tests.golden_stores import GoldenStores


@pytest.fixture
def store(golden: GoldenStores) -> Path:
    return golden.store("rebuild-base")


def ship(store: Path, target: object, *options: str) -> Ran:
    return run("archive", "ship", str(store), str(target), "--once", *options)


def restore(target: object, *options: object) -> Ran:
    return run("store", "restore", str(target), *map(str, options))


def test_there_and_back(store: Path, tmp_path: Path) -> None:
    shipped = ship(store, tmp_path / "a", "--keep", "7d")
    assert shipped.code == 0
    assert shipped.document["is_new"]
    again = ship(store, tmp_path / "a")
    assert again.document["size"] == 0
    (hour,) = run("archive", "ls", str(tmp_path / "a")).document
    assert hour["moments"] == 2
    done = restore(tmp_path / "a", tmp_path / "again")
    assert done.document["time_ms"] == hour["last_ms"]
    assert done.document["upto"] == shipped.document["upto"]
    assert "users and TLS keys" in done.err
    assert run("store", "diff", str(store), str(tmp_path / "again"), "--messages").code == 0
    early = restore(tmp_path / "a", tmp_path / "early", "--at", hour["first_ms"])
    assert early.document["time_ms"] == hour["first_ms"]


def test_a_pocketmq_store_learns_what_is_archived(store: Path, tmp_path: Path) -> None:
    upto = ship(store, tmp_path / "a").document["upto"]
    assert not (store / "pocketmq").exists()
    again = tmp_path / "again"
    restore(tmp_path / "a", again)
    (again / "pocketmq").mkdir(exist_ok=True)
    assert ship(again, tmp_path / "b").code == 0
    found = read_archived(Disk(), again)
    assert (found.upto, found.target) == (upto, str(tmp_path / "b"))


def test_of_several_archives_the_one_that_has_the_least_counts(tmp_path: Path) -> None:
    disk, hour = Disk(), 3_600_000
    behind = write_archived(disk, tmp_path, ArchivedUpto(100, "a", hour))
    assert behind == read_archived(disk, tmp_path) == ArchivedUpto(100, "a", hour)
    assert write_archived(disk, tmp_path, ArchivedUpto(300, "b", 2 * hour)) == behind
    assert write_archived(disk, tmp_path, ArchivedUpto(200, "b", 3 * hour)) == behind
    assert archives_of(disk, tmp_path) == (behind, ArchivedUpto(300, "b", 3 * hour))
    file = tmp_path / "pocketmq" / "archived.json"
    before = file.stat().st_mtime_ns, file.stat().st_ino
    assert write_archived(disk, tmp_path, ArchivedUpto(300, "b", 3 * hour + 1)) == behind
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before
    given_up = ArchivedUpto(300, "b", hour + ALIVE_MS)
    assert write_archived(disk, tmp_path, given_up) == given_up
    assert archives_of(disk, tmp_path) == (given_up,)


def test_a_mark_of_an_earlier_version_is_one_archive(tmp_path: Path) -> None:
    file = tmp_path / "pocketmq" / "archived.json"
    file.parent.mkdir()
    file.write_text('{"upto": 7, "target": "s3://b/a", "timeMs": 9}')
    assert read_archived(Disk(), tmp_path) == ArchivedUpto(7, "s3://b/a", 9)
    for content in ('{"archives": 1}', '{"archives": [["a", 1]]}', '{"archives": [["a", -1, 1]]}'):
        with pytest.raises(ValueError, match="is"):
            decode_archived(content.encode())


def test_mistakes(store: Path, tmp_path: Path) -> None:
    assert run("archive", "ls", str(tmp_path / "a")).code == 3
    assert ship(tmp_path / "none", tmp_path / "a").code == 3
    done = ship(store, "ftp://host/place")
    assert done.code == 2
    assert "cannot be opened" in done.err
    assert "Next:  name a directory, or a URL" in done.err
    assert ship(store, tmp_path / "a").code == 0
    done = restore(tmp_path / "a", tmp_path / "x", "--at", "2020-01-01T00:00:00Z")
    assert done.code == 3
    assert "has no moment at that time" in done.err
    assert re.search(r"Next:  --at \d{4}-\d\d-\d\dT[0-9:.+]+ or later", done.err)
    done = restore(tmp_path / "a", store)
    assert done.code == 4
    assert "is not empty" in done.err
    assert run("store", "backup", str(store), str(tmp_path / "b")).code == 0
    done = restore(tmp_path / "b", tmp_path / "x", "--at", "2020-01-01T00:00:00Z")
    assert done.code == 4
    assert "leave out --at" in done.err


def test_a_damaged_archive_is_exit_10(store: Path, tmp_path: Path) -> None:
    ship(store, tmp_path / "a")
    path = sorted((tmp_path / "a/log").iterdir())[0]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = restore(tmp_path / "a", tmp_path / "again")
    assert done.code == 10
    assert path.name in done.err
    assert "restore an earlier moment: --at" in done.err
    assert not (tmp_path / "again").exists()


class Rounds(Event):
    """A signal to stop after a number of rounds."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count

    def wait(self, timeout: float | None = None) -> bool:
        """Returns whether the rounds are over, at once."""
        self._left -= 1
        return self._left < 0


class FoundOnce:
    """A shipper whose first upkeep finds damage."""

    target = "a"

    def __init__(self) -> None:
        self._found = ["log at 7"]

    def ship(self) -> Shipped:
        """Returns the result of a round."""
        return Shipped(9, 9, is_new=True)

    def upkeep(self) -> str:
        """Returns the damage the first time."""
        return self._found.pop() if self._found else ""


def test_damage_of_an_earlier_round_is_in_the_result(tmp_path: Path) -> None:
    shipper: Any = FoundOnce()
    reports = ArchiveReports(Disk(), tmp_path, "a", 1024)
    shipped = module._go_on(shipper, reports, Rounds(2), 1.0, None)
    assert shipped is not None
    assert shipped.damage == "log at 7"


def test_damage_of_the_first_round_is_exit_10_after_further_rounds(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "s"
    shutil.copytree(store, damaged)
    path = sorted((damaged / "commitlog").iterdir())[0]
    content = bytearray(path.read_bytes())
    content[int.from_bytes(content[:4]) + 90] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(module, "_stopped_by_signals", lambda: nullcontext(Rounds(1)))
    done = run("archive", "ship", str(damaged), str(tmp_path / "a"))
    assert done.code == 10
    assert "the store's log is damaged" in done.err


def test_it_goes_on_until_it_is_stopped(store: Path, tmp_path: Path) -> None:
    words = ("archive", "ship", str(store), str(tmp_path / "a"), "--every", "100ms", "-o", "json")
    with subprocess.Popen(
        [sys.executable, "-m", "pocketmq", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        assert "next rounds every" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert '"damage": ""' in process.stdout.read()
    assert process.returncode == 0
