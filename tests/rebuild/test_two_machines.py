"""On two machines over a network file system no byte is lost, and a restarted driver goes on."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.errors import PlaceUnusable
from pocketmq.rebuild.parallel import RebuildJob, read_range, rebuild_parallel
from pocketmq.rebuild.plan import map_here
from pocketmq.rebuild.sequential import rebuild
from pocketmq.rebuild.staging import Staging
from tests.kit.log_bytes import EVERYTHING, SMALL, LogBytes, rebuilt_files
from tests.rebuild.widening_disk import WideningDisk


@pytest.fixture
def job(tmp_path: Path) -> RebuildJob:
    """Ranges whose units share pages of queues, and index entries share pages of files."""
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(120):
        log.add("ABC"[number % 3], queue_offset=number // 3, keys=f"k{number} l{number}")
    log.add("Odd", queue_offset=3)
    log.add("Odd", queue_offset=9)
    files = log.close().found()
    return RebuildJob(files, SMALL, tmp_path / "out", EVERYTHING, workers=2, group_units=20)


@pytest.mark.parametrize("twins", [False, True], ids=["neighbours", "twins"])
def test_no_two_tasks_write_to_one_page(
    job: RebuildJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twins: bool
) -> None:
    rebuild(job.files, SMALL, tmp_path / "wanted", upto=EVERYTHING)
    with monkeypatch.context() as patched:
        rebuild_parallel(job, WideningDisk(patched, twins=twins))
    assert rebuilt_files(job.out) == rebuilt_files(tmp_path / "wanted")


def test_the_disk_of_these_tests_loses_bytes_of_shared_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shared"
    path.write_bytes(bytes(100))

    def write(place: int) -> int:
        descriptor = os.open(path, os.O_RDWR)
        os.pwrite(descriptor, b"x" * 20, place)
        os.close(descriptor)
        return place

    with monkeypatch.context() as patched:
        assert list(WideningDisk(patched)(write, [0, 20])) == [0, 20]
    assert path.read_bytes() == b"x" * 20 + bytes(80)
    map_here(write, [20])


class Killed(Exception):
    """The driver ended here."""


def test_a_driver_restarted_elsewhere_reads_one_range_again_at_most(
    job: RebuildJob, tmp_path: Path
) -> None:
    """The second driver runs on another machine: with its own name, process and start."""
    read: list[str] = []

    def killed_at_fifth(function: Any, tasks: Sequence[Any]) -> Iterator[Any]:
        for number, task in enumerate(tasks):
            if number == 5:
                raise Killed
            yield read_range(task, "one-0001")

    def elsewhere(function: Any, tasks: Sequence[Any]) -> list[Any]:
        if function is read_range:
            read.extend(task.part.name for task in tasks)
            return [read_range(task, "two-0001") for task in tasks]
        return list(map_here(function, tasks))

    half_written = Staging(job.out, "one-0001").draft(Staging(job.out).spool("x"))
    with pytest.raises(Killed):
        rebuild_parallel(job, killed_at_fifth)
    half_written.write_bytes(b"half")
    rebuild_parallel(job, elsewhere)
    assert len(read) == len(job.files) - 5
    rebuild(job.files, SMALL, tmp_path / "wanted", upto=EVERYTHING)
    assert rebuilt_files(job.out) == rebuilt_files(tmp_path / "wanted")
    assert not half_written.exists()


def test_results_that_do_not_arrive_are_named_with_their_machine(job: RebuildJob) -> None:
    with pytest.raises(PlaceUnusable, match="tasks on far wrote results that are not there"):
        rebuild_parallel(job, lambda function, tasks: ["far"] * len(tasks))
