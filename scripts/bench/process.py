"""What /proc tells of a running process."""

import os
import re
from collections import Counter
from pathlib import Path

_KIB_PER_MIB = 1024


def cpu_seconds(process_id: int) -> float:
    """Return the processor time of all threads so far, in steps of 10 ms."""
    return seconds_of_stat(Path(f"/proc/{process_id}/stat").read_text(), os.sysconf("SC_CLK_TCK"))


def seconds_of_stat(line: str, ticks_per_second: int) -> float:
    """Return user and system time of a stat line; the command's name in it may hold anything."""
    fields = line.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks_per_second


def anonymous_mib(process_id: int) -> float:
    """Return a process's RssAnon."""
    match = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process_id}/status").read_text())
    return int(match[1]) / _KIB_PER_MIB if match else 0.0


def open_count(process_id: int) -> int:
    """Return how many descriptors are open."""
    return len([*Path(f"/proc/{process_id}/fd").iterdir()])


def map_counts(process_id: int, directory: Path) -> tuple[int, int]:
    """Return (all maps, those of files below a directory)."""
    return maps_of(Path(f"/proc/{process_id}/maps").read_text(), directory)


def maps_of(text: str, directory: Path) -> tuple[int, int]:
    """Return (lines, lines that name a file below a directory) of a maps file."""
    below = f"{directory}/"
    found = Counter(line.split(maxsplit=5)[-1].startswith(below) for line in text.splitlines())
    return found.total(), found[True]
