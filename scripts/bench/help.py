"""CPU time of `pocketmq --help` beside an interpreter that does nothing."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.servers import ROOT
from bench.table import Extent, Figure

RUN_COUNT = 5


def help_figures(extent: Extent) -> list[Figure]:
    """Wall time of the command, and of `python -c pass`."""
    command = [str(Path(sys.executable).with_name("pocketmq")), "--help"]
    plain = [sys.executable, "-c", "pass"]
    times: dict[str, list[float]] = {"help": [], "python": []}
    _ms(command)  # The first run compiles what changed.
    for number in range(extent.rounds):
        times["help"].append(median(_ms(command) for _ in range(RUN_COUNT)))
        times["python"].append(median(_ms(plain) for _ in range(RUN_COUNT)))
        last = {name: found[-1] for name, found in times.items()}
        print(json.dumps({"round": number, "ms": last}), file=sys.stderr)
    return [
        Figure.of("help", "`pocketmq --help`", times["help"], "ms", "≤ 150"),
        Figure.of("help_python", "of these, `python -c pass`", times["python"], "ms"),
    ]


def _ms(command: list[str]) -> float:
    begun = perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
    return 1000 * (perf_counter() - begun)
