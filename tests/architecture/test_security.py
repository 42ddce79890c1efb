"""SECURITY.md promises what tests hold, and its limits are those of the code."""

import re
from pathlib import Path

import pytest

from limits_table import BEGIN, END, page_with, table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[a-z0-9_/]+\.py)(?:::([a-z0-9_]+))?`", PAGE)))
BOUNDARIES = ("peer", "user", "admin", "store directory", "file system")


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_promise_names_a_test_there_is(path: str, name: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    assert not name or re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_each_boundary_makes_promises(boundary: str) -> None:
    (section,) = re.findall(rf"^### (?:An?|The) {boundary}:.*?(?=^##)", PAGE, re.M | re.S)
    rows = re.findall(r"^\| .* \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) > 2
    assert all(row == "test" or row.startswith("`tests/") for row in rows)


def test_the_limits_are_those_of_the_code() -> None:
    assert PAGE.count(BEGIN) == PAGE.count(END) == 1
    assert page_with(table(), PAGE) == PAGE, "python scripts/limits_table.py --write"
