"""Finds the test modules nearest to a package: those that import it, or whose helpers do."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

IMPORT: Final = re.compile(
    r"^[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([\w.]+))", re.MULTILINE
)
ELSEWHERE: Final = ("tests/e2e/", "tests/cli/", "tests/architecture/", "tests/testing/")
"""Tests of whole programs and of the project itself: slow, and near to no package."""
OWN_PROCESSES: Final = re.compile(r"\bsubprocess\b|create_subprocess|tests\.faults\.(load|lives)\b")
"""What a test module contains whose broker runs in another process, where no line is seen."""

HUB: Final = 24
"""A helper that imports more modules and names of the product than this builds whole brokers."""


def nearest_tests(root: Path, package: str) -> list[str]:
    """Returns paths of test modules, from the root.

    package  a folder or module below broker/pocketmq/: `services/delay`, `store/tables/offsets.py`
    """
    own = PurePosixPath("pocketmq", package).with_suffix("")
    texts = {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for path in (root / "tests").rglob("*.py")
    }
    leads = {path: {*_imported(text)} for path, text in texts.items()}
    modules = {_dotted(path): path for path in texts}
    target = ".".join(own.parts)
    near = set()
    for path, text in texts.items():
        if not PurePosixPath(path).name.startswith("test_") or path.startswith(ELSEWHERE):
            continue
        if OWN_PROCESSES.search(text):
            continue
        if _has_its_place(path, own) or _reaches(path, target, leads, modules):
            near.add(path)
    return sorted(near)


def _imported(text: str) -> Iterator[str]:
    for base, names, whole in IMPORT.findall(text):
        yield base or whole
        yield from (f"{base}.{name}" for name in re.findall(r"\w+", names) if base)


def _dotted(path: str) -> str:
    return ".".join(PurePosixPath(path).with_suffix("").parts)


def _has_its_place(path: str, own: PurePosixPath) -> bool:
    """Returns whether a test is where the tests of a package are: its folder, or its name."""
    place = PurePosixPath("tests", *own.parts[1:])
    test = PurePosixPath(path)
    named = test.parent == place.parent and test.stem.startswith(f"test_{place.name}")
    return place in test.parents or named


def _reaches(path: str, target: str, leads: dict[str, set[str]], modules: dict[str, str]) -> bool:
    """Returns whether a test module imports a package, or by helpers that are no hubs."""
    seen = {path}
    waiting = [path]
    while waiting:
        names = leads[waiting.pop()]
        if len(seen) > 1 and sum(name.startswith("pocketmq.") for name in names) > HUB:
            continue
        if any(name == target or name.startswith(f"{target}.") for name in names):
            return True
        following = {modules[name] for name in names if name in modules}
        waiting += following - seen
        seen |= following
    return False
