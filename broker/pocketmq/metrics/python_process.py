"""Metrics of the Python process, with the names of Prometheus' client libraries.

Those of the process need /proc, and are left out where it is missing. Only a scrape reads them.
"""

import gc
import platform
import resource
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pocketmq.metrics.text_format import Family, Series

PROC: Final = Path("/proc")
START_FIELD: Final = 19
"""Place of the start time, in ticks since the boot, among the fields after the process's name."""
TICKS_PER_S: Final = 100
"""USER_HZ, in which Linux states times; the same on all usual machines."""
LABELS: Final = ("version", "implementation", "major", "minor", "patchlevel")
BOOT: Final = "btime "


def python_families(proc: Path = PROC) -> list[Family]:
    """Returns the metrics."""
    return [*_of_process(proc), _of_python(), *_of_collector()]


def _of_process(proc: Path) -> Iterator[Family]:
    try:
        total, resident = (proc / "self" / "statm").read_text("ascii").split()[:2]
        began_s, file_count = _began_s(proc), len([*(proc / "self" / "fd").iterdir()])
    except OSError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    page, cpu_s = resource.getpagesize(), used.ru_utime + used.ru_stime
    yield _gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", int(total) * page)
    yield _gauge(
        "process_resident_memory_bytes", "Resident memory size in bytes.", int(resident) * page
    )
    yield _gauge(
        "process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
        began_s,
    )  # fmt: skip
    about = "Total user and system CPU time spent in seconds."
    yield _family("process_cpu_seconds_total", "counter", about, [((), cpu_s)])
    yield _gauge("process_open_fds", "Number of open file descriptors.", file_count)
    yield _gauge("process_max_fds", "Maximum number of open file descriptors.", files_max)


@cache
def _began_s(proc: Path) -> float:
    """Returns the time at which the process began, in seconds since 1970.

    Errors   OSError
    """
    fields = (proc / "self" / "stat").read_bytes().rpartition(b")")[2].split()
    lines = (proc / "stat").read_text("ascii").splitlines()
    boot_s = next((float(line.split()[1]) for line in lines if line.startswith(BOOT)), 0.0)
    return boot_s + int(fields[START_FIELD]) / TICKS_PER_S


def _of_python() -> Family:
    found = sys.version_info
    name = platform.python_implementation()
    labels = (platform.python_version(), name, *map(str, (found.major, found.minor, found.micro)))
    return _family("python_info", "gauge", "Python platform information", [(labels, 1.0)], LABELS)


def _of_collector() -> Iterator[Family]:
    rows = gc.get_stats()
    for name, key, about in (
        ("python_gc_objects_collected_total", "collected", "Objects collected during gc"),
        (
            "python_gc_objects_uncollectable_total", "uncollectable",
            "Uncollectable objects found during GC",
        ),
        (
            "python_gc_collections_total", "collections",
            "Number of times this generation was collected",
        ),
    ):  # fmt: skip
        series = [((str(generation),), float(row[key])) for generation, row in enumerate(rows)]
        yield _family(name, "counter", about, series, ("generation",))


def _gauge(name: str, about: str, value: float) -> Family:
    return _family(name, "gauge", about, [((), float(value))])


def _family(
    name: str, kind: str, about: str, series: Sequence[Series], labels: Sequence[str] = ()
) -> Family:
    return Family(name, kind, about, labels, {}, series, 1)
