"""Changes whole store directories at random, and lets the broker and every tool open them.

Tables, journals, timer files, index and queues get other bytes, lengths and kinds: links, FIFOs,
directories. All must open or refuse with a typed error within 20 s and 2 GiB of addresses, and
never change a byte beside the directory.
"""

import logging
import resource
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.kit.fuzzed_directory import Wrong, made, tried
from torture.budget import Budget

CASES_DEFAULT: Final = 5_000
PORTION: Final = 50
MEMORY_BYTES: Final = 2 << 30


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs the cases of the budget, 5,000 unless it says fewer."""
    count = min(budget.cases, CASES_DEFAULT * 10)
    stock = made(place / "stock")
    first = budget.seed * 1_000_000
    seeds = range(first, first + count)
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    cases = 0
    for done, found, its_wrong in budget.in_portions(seeds, PORTION, partial(_run, stock)):
        cases += done
        ends += found
        wrong += its_wrong
        budget.progress(f"{cases} cases, {len(wrong)} wrong")
    if wrong:
        raise AssertionError("\n".join(wrong[:20]))
    return {"cases": cases, "opened": ends.pop("opened"), "refused": dict(ends.most_common())}


def _run(stock: Path, seeds: list[int]) -> tuple[int, Counter[str], list[str]]:
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(dir=stock.parent) as scratch:
        for seed in seeds:
            try:
                ends += tried(stock, Path(scratch) / "case", seed)
            except Wrong as error:
                wrong.append(str(error))
    return len(seeds), ends, wrong
