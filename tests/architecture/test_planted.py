"""Planted bugs: every one fits the code of today and names tests that exist."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plant_run import PLANTED, ROOT, Change, Planted, copy_tree, planted_bugs, runs_of
from pocketmq import native

BUGS = planted_bugs()
LATER = {15, 26}
"""Their ground, replication, is not there yet."""

every_bug = pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)


def test_every_bug_of_the_list_is_there() -> None:
    numbers = [int(bug.name[1:]) for bug in BUGS]
    assert len({*numbers}) == len(numbers)
    assert {*range(1, 48)} - LATER <= {*numbers}
    assert not LATER & {*numbers}
    assert sorted(path.suffix for path in PLANTED.iterdir()) == [".toml"] * len(BUGS)


@every_bug
def test_a_bug_fits_the_code_and_changes_it(bug: Planted, tmp_path: Path) -> None:
    for change in bug.changes:
        assert change.file.startswith(("broker/", "scripts/harness/", "scripts/torture/"))
        (tmp_path / change.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / change.file, tmp_path / change.file)
    bug.apply(tmp_path)
    for change in bug.changes:
        planted = (tmp_path / change.file).read_text()
        assert planted != (ROOT / change.file).read_text()
        if change.file.endswith(".py"):
            compile(planted, change.file, "exec")


def test_a_bug_in_a_compiled_module_runs(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    path = f"broker/{native.source_of(native.PROBE)}"
    change = Change(path, "return numbers[0]", "return numbers[0] + 1")
    Planted("M00", "", (), (), (change,)).apply(tree)
    done = subprocess.run(
        [sys.executable, "-c", "from pocketmq.native.probe import echo; print(echo(41))"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'broker'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("42\n", "")


@every_bug
def test_the_tests_that_find_it_exist(bug: Planted) -> None:
    assert runs_of(bug)
    for test in bug.killed_by:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text()


def test_parameters_of_the_tests_that_find_them_exist() -> None:
    named = sorted({test for bug in BUGS for test in bug.killed_by if "[" in test})
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert collected.returncode == 0, collected.stdout + collected.stderr


def test_most_are_found_by_quick_tests() -> None:
    assert sum(bool(bug.killed_by) for bug in BUGS) >= 14


def test_a_bug_that_does_not_fit_any_more_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n1\n")
    bug = Planted("M99", "", (), (), (Change("a.py", "1", "2"),))
    with pytest.raises(ValueError, match="2 times"):
        bug.apply(tmp_path)
