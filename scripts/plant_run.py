"""Plants bugs in copies of the tree, and runs the tests that must find them; see scripts/plant.

A bug is a file tests/planted/MNN.toml:

    title       description of the bug
    killed_by   tests of the fast tier that fail with it, by pytest's names
    long        arguments of scripts/torture/run: a battery that finds it, if no fast test does
    [[change]]  file, before (text that occurs exactly once), after
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PLANTED: Final = ROOT / "tests" / "planted"
COPIED: Final = ("broker", "conf", "proto", "scripts", "stubs", "tests", "pyproject.toml")
SCRATCH: Final = shutil.ignore_patterns("__pycache__", ".cache", ".*_cache", "built")
"""Files that are not copied; without compiled modules a copy runs its changed sources."""
TESTS_FAILED: Final = 1
"""Exit code of pytest; other codes mean that it could not run the tests."""
LIMIT_S: Final = 900


@dataclass(frozen=True)
class Change:
    """A replacement of text in a file."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Planted:
    """One bug."""

    name: str
    title: str
    killed_by: tuple[str, ...]
    long: tuple[str, ...]
    changes: tuple[Change, ...]

    def apply(self, tree: Path) -> None:
        """Plants the bug in a tree.

        Errors   ValueError: the text to replace does not occur exactly once
        """
        for change in self.changes:
            path = tree / change.file
            content = path.read_text()
            if (count := content.count(change.before)) != 1:
                raise ValueError(f"{self.name}: {change.file} holds the text {count} times")
            path.write_text(content.replace(change.before, change.after))


def planted_bugs() -> list[Planted]:
    """Returns all planted bugs, by number."""
    return [_read(path) for path in sorted(PLANTED.glob("M*.toml"))]


def _read(path: Path) -> Planted:
    document: dict[str, Any] = tomllib.loads(path.read_text())
    return Planted(
        name=path.stem,
        title=document["title"],
        killed_by=tuple(document.get("killed_by", ())),
        long=tuple(document.get("long", ())),
        changes=tuple(Change(**change) for change in document["change"]),
    )


def copy_tree(to: Path) -> Path:
    """Copies the files that tests use; returns the copy."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=SCRATCH)
        else:
            shutil.copy(source, to / name)
    return to


def runs_of(bug: Planted) -> list[tuple[str, list[str]]]:
    """Returns (shown name, command) of the runs that must find a bug, the fastest first."""
    # With a signal, a callback of the event loop may swallow the end of a test that hangs.
    ends = ["-o", "timeout_method=thread"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *ends]
    runs = [(test, [*pytest, test]) for test in bug.killed_by]
    if bug.long:
        torture = [sys.executable, "-m", "torture.batteries", *bug.long]
        runs.append((f"scripts/torture/run {' '.join(bug.long)}", torture))
    return runs


def find(bug: Planted, tree: Path) -> tuple[str, float]:
    """Plants a bug in a copy, and runs tests until one fails; returns (its name, seconds).

    An empty name means that no test failed.
    """
    bug.apply(tree)
    for shown, command in runs_of(bug):
        begun = perf_counter()
        try:
            done = subprocess.run(
                command,
                cwd=tree,
                env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'broker'}:{tree / 'scripts'}"},
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            print(f"{bug.name}: {shown} did not end in {LIMIT_S} s", flush=True)
            continue
        if done.returncode == TESTS_FAILED:
            return shown, perf_counter() - begun
        if done.returncode:
            print(f"{bug.name}: {shown} could not run:\n{done.stdout}{done.stderr}", flush=True)
    return "", 0.0


def main() -> int:
    """Plants the requested bugs; returns 0 if every bug was found."""
    parser = argparse.ArgumentParser(
        prog="scripts/plant", description="Plant bugs, and see them found.",
        epilog="example: scripts/plant 6 11",
    )  # fmt: skip
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="bugs; all without any")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="bugs at once; default 1")
    parser.add_argument("--into", type=Path, metavar="DIR", help="only make a copy there")
    given = parser.parse_args()
    bugs = {int(bug.name[1:]): bug for bug in planted_bugs()}
    unknown = sorted(set(given.numbers) - set(bugs))
    if unknown:
        parser.error(f"no bug {unknown}; there are {sorted(bugs)}")
    chosen = [bugs[number] for number in given.numbers or sorted(bugs)]
    if given.into is not None:
        tree = copy_tree(given.into)
        for bug in chosen:
            bug.apply(tree)
        print(f"{', '.join(bug.name for bug in chosen)} planted in {tree}")
        return 0
    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(pool.map(_find_in_copy, chosen))
    return _show([(bug, *one) for bug, one in zip(chosen, found, strict=True)])


def _find_in_copy(bug: Planted) -> tuple[str, float]:
    with tempfile.TemporaryDirectory(prefix="pocketmq-planted-") as scratch:
        found = find(bug, copy_tree(Path(scratch)))
    print(f"{bug.name} {bug.title}: {found[0] or 'NOT FOUND'}", flush=True)
    return found


def _show(rows: list[tuple[Planted, str, float]]) -> int:
    print("\n| bug | what is wrong | found by | s |\n|---|---|---|---|")
    for bug, found_by, seconds in rows:
        print(f"| {bug.name} | {bug.title} | {found_by or 'NOT FOUND'} | {seconds:.0f} |")
    missed = sum(not found_by for _, found_by, _ in rows)
    print(f"\n{len(rows) - missed} of {len(rows)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
