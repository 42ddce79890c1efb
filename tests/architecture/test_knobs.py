"""Every setting has a test that turns it and sees the difference.

    @pytest.mark.knob("store.flush")
    async def test_sync_waits_for_the_disk_and_async_does_not(...)

Marks are found in the text of the tests: as decorators, or in a module's `pytestmark`.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from pocketmq.config.sections import KNOBS

MARK: Final = "pytest.mark.knob"
TESTS: Final = Path(__file__).resolve().parents[1]


@cache
def marked_knobs() -> dict[str, str]:
    """Returns the keys that tests are marked with, each with one of the modules."""
    texts = {path: path.read_text("utf-8") for path in sorted(TESTS.rglob("test_*.py"))}
    return {
        key: str(path.relative_to(TESTS))
        for path, text in texts.items()
        if MARK in text
        for key in marks_of(ast.parse(text))
    }


def marks_of(module: ast.Module) -> Iterator[str]:
    """Yields the keys of `pytest.mark.knob(...)` in a module, wherever it stands."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != MARK:
            continue
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value


def test_every_setting_is_turned_by_a_test() -> None:
    turned = marked_knobs()
    assert [key for key in KNOBS if key not in turned] == []


def test_every_mark_names_a_setting() -> None:
    assert {key: where for key, where in marked_knobs().items() if key not in KNOBS} == {}


def test_marks_are_found_wherever_they_stand() -> None:
    module = ast.parse(
        "pytestmark = [pytest.mark.knob('a.b')]\n"
        "@pytest.mark.knob('c.d', 'e.f')\n"
        "def test() -> None: ...\n"
        "@other.knob('g.h')\n"
        "def test_other() -> None: ...\n"
    )
    assert sorted(marks_of(module)) == ["a.b", "c.d", "e.f"]
