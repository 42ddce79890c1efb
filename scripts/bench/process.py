"""Reads figures of a running process from /proc."""

import re
from collections import Counter
from pathlib import Path
from time import clock_gettime

_CPU_CLOCK = 2
_KIB_PER_MIB = 1024


def cpu_seconds(process_id: int) -> float:
    """Returns the processor time of all threads so far, user and system, in nanosecond steps.

    Source   clock_getcpuclockid(3): the complement of the number, then which clock of the process
    """
    return clock_gettime(~process_id << 3 | _CPU_CLOCK)


def anonymous_mib(process_id: int) -> float:
    """Returns a process's RssAnon."""
    match = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process_id}/status").read_text())
    return int(match[1]) / _KIB_PER_MIB if match else 0.0


def open_count(process_id: int) -> int:
    """Returns how many descriptors are open."""
    return len([*Path(f"/proc/{process_id}/fd").iterdir()])


def map_counts(process_id: int, directory: Path) -> tuple[int, int]:
    """Returns (all maps, those of files below a directory)."""
    return maps_of(Path(f"/proc/{process_id}/maps").read_text(), directory)


def maps_of(text: str, directory: Path) -> tuple[int, int]:
    """Returns (lines, lines that name a file below a directory) of a maps file."""
    below = f"{directory}/"
    found = Counter(line.split(maxsplit=5)[-1].startswith(below) for line in text.splitlines())
    return found.total(), found[True]
