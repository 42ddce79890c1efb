"""Many ranges, pieces and workers give the bytes that one walk gives."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.rebuild.log_files import LogFile
from pocketmq.rebuild.parallel import RangeTask, RebuildJob, read_range, rebuild_parallel
from pocketmq.rebuild.plan import Range, map_here
from pocketmq.rebuild.sequential import rebuild
from pocketmq.walk.source import LogSource
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import (
    EVERYTHING,
    SMALL,
    LogBytes,
    golden_files,
    golden_settings,
    rebuilt_files,
    views,
)


def job_of(golden: GoldenStores, name: str, out: Path, **options: Any) -> RebuildJob:
    return RebuildJob(
        golden_files(golden, name), golden_settings(golden, name, check_crc=True), out, EVERYTHING,
        accept_holes=True, **options,
    )  # fmt: skip


CUTS = [
    {"workers": 1},
    {"workers": 2, "piece_size": 20_011, "group_units": 100},
    {"workers": 7, "piece_size": 5_000, "group_units": 33},
]


@pytest.mark.parametrize(
    "name", ["basic", "semantics", "v533", "crash-flip.before", "clean-torn.after", "lmq"]
)
def test_any_cut_gives_the_same_bytes(golden: GoldenStores, name: str, tmp_path: Path) -> None:
    whole = job_of(golden, name, tmp_path / "whole")
    wanted = rebuild(whole.files, whole.settings, whole.out, upto=EVERYTHING, accept_holes=True)
    for number, cut in enumerate(CUTS):
        job = job_of(golden, name, tmp_path / str(number), **cut)
        assert rebuild_parallel(job, map_here) == wanted
        assert rebuilt_files(job.out) == rebuilt_files(whole.out)


def backwards_and_twice(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
    """Runs every task twice, in the wrong order: what a cluster may do."""
    answers = {number: function(tasks[number]) for number in reversed(range(len(tasks)))}
    return [function(task) if number % 2 else answers[number] for number, task in enumerate(tasks)]


def test_tasks_that_run_twice_and_in_any_order(golden: GoldenStores, tmp_path: Path) -> None:
    job = job_of(golden, "rebuild-base", tmp_path, **CUTS[2])
    rebuild_parallel(job, backwards_and_twice)
    assert views(tmp_path) == views(golden.store("rebuild-base"))


TWINS = ("one-0001", "two-0002")
"""Names of two attempts at a task, on two machines whose processes have equal ids."""


class MetLogFile(LogFile):
    """A log file whose reader first lets another attempt at the same range run to its end."""

    @contextmanager
    def opened(self) -> Iterator[LogSource]:
        plain = LogFile(self.path, self.base, self.size)
        twin = RangeTask(Range(plain, self.base, self.end), SMALL, self.out)
        read_range(twin, TWINS[1])
        with plain.opened() as source:
            yield source

    @property
    def out(self) -> str:
        return str(Path(self.path).parents[2] / "out")


def test_twins_of_a_task_do_not_write_to_one_draft(tmp_path: Path) -> None:
    file = log_of_forty(tmp_path).found()[0]
    met = MetLogFile(file.path, file.base, file.size)
    read_range(RangeTask(Range(met, met.base, met.end), SMALL, met.out), TWINS[0])
    alone = RangeTask(Range(file, file.base, file.end), SMALL, str(tmp_path / "alone"))
    read_range(alone)
    assert rebuilt_files(tmp_path / "out") == rebuilt_files(tmp_path / "alone")
    name = f"rebuild/spool/{file.base:020d}"
    assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert not list((tmp_path / "out").rglob("*.draft"))


class Killed(Exception):
    """The driver ended here."""


class Counting:
    """A map that counts tasks by their function, and may end the driver at one of them."""

    def __init__(self, fatal: int = -1) -> None:
        self.counts: dict[str, int] = {}
        self.fatal = fatal

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        for task in tasks:
            if sum(self.counts.values()) == self.fatal:
                raise Killed
            self.counts[function.__name__] = self.counts.get(function.__name__, 0) + 1
            yield function(task)


def test_a_killed_job_goes_on_from_what_is_finished(golden: GoldenStores, tmp_path: Path) -> None:
    whole = Counting()
    rebuild_parallel(job_of(golden, "basic", tmp_path / "whole", **CUTS[1]), whole)
    total = sum(whole.counts.values())
    for fatal in range(len(golden_files(golden, "basic")) + 1, total, total // 6):
        job = job_of(golden, "basic", tmp_path / str(fatal), **CUTS[1])
        with pytest.raises(Killed):
            rebuild_parallel(job, Counting(fatal))
        again = Counting()
        rebuild_parallel(job, again)
        assert views(job.out) == views(golden.store("basic"))
        assert sum(again.counts.values()) < total


def test_other_settings_begin_anew(golden: GoldenStores, tmp_path: Path) -> None:
    job = job_of(golden, "v533", tmp_path)
    rebuild_parallel(replace(job, settings=replace(job.settings, index_style="5.5")), map_here)
    rebuild_parallel(job, map_here)
    assert views(tmp_path) == views(golden.store("v533"))


def log_of_forty(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(40):
        log.add(queue_offset=number, keys=f"k{number}")
    return log.close()


@pytest.mark.parametrize(("first", "then"), [(25, 40), (40, 15)], ids=["it grew", "a lower limit"])
def test_a_job_with_another_limit_reads_what_is_new_and_leaves_nothing_behind(
    tmp_path: Path, first: int, then: int
) -> None:
    log, counting = log_of_forty(tmp_path), Counting()
    limits = [*log.places, EVERYTHING]
    job = RebuildJob(log.found(), SMALL, tmp_path / "out", limits[first], keep_spool=True)
    rebuild_parallel(job, map_here)
    rebuild_parallel(replace(job, upto=limits[then]), counting)
    rebuild(log.found(), SMALL, tmp_path / "wanted", upto=limits[then])
    assert rebuilt_files(tmp_path / "out") == rebuilt_files(tmp_path / "wanted")
    assert counting.counts.get("read_range", 0) < len(log.found())
