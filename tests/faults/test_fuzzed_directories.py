"""Whole directories with anything in them: all open or refuse, and nothing outside changes."""

import logging
from collections import Counter
from pathlib import Path

import pytest

from tests.kit.fuzzed_directory import made, tried

CASES = 80
"""scripts/torture/run directories takes thousands."""
PORTIONS = 4


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("fuzzed") / "stock")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_any_directory_is_opened_or_refused(stock: Path, memory: Path, portion: int) -> None:
    assert logging.root.manager.disable
    ends: Counter[str] = Counter()
    for seed in range(portion, CASES, PORTIONS):
        ends += tried(stock, memory / "case", seed)
    assert ends["opened"]
    assert ends.total() > ends["opened"]
