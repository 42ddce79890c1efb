"""The part of a mutation run inside of pytest: collects tests once, then runs them in forks.

`Session` is a plugin of pytest. Where pytest would run the tests, it runs its task instead.
"""

import pickle
import resource
import shutil
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import process_time
from typing import Any, Final

import pytest

from mutation.children import run_each
from mutation.lines import LineRecorder, Lines

SURVIVED: Final = 0
KILLED: Final = 10
BASELINE_LIMIT_S: Final = 1200
MEMORY_LIMIT_BYTES: Final = 8 << 30
OPTIONS: Final = (
    *("-p", "no:cacheprovider"),
    *("-p", "no:terminal"),
    *("--assert", "plain"),
    *("-o", "faulthandler_timeout=0"),
    *("-o", "addopts=--import-mode=importlib"),
    *("-o", "timeout=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
"""Options of pytest: nothing is shown or kept, and nothing but this run limits a test's time.

Asserts stay plain: pytest's loader, which rewrites them, loads modules without their mutants.
"""


@dataclass(frozen=True)
class Test:
    """Findings of the run without a mutant for one test: CPU in seconds, executed lines."""

    name: str
    cpu_s: float
    passed: bool
    lines: Lines


@dataclass(eq=False)
class Session:
    """Stands in for the loop in which pytest runs its tests.

    task    is called with this object once all tests are collected
    items   those tests, by name
    failed  names of tests that failed so far in this process
    """

    task: Callable[["Session"], None]
    items: dict[str, pytest.Item] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Calls the task instead of running all tests; an error of collection is a failure."""
        self.items = {item.nodeid: item for item in session.items}
        if session.testsfailed:
            self.failed.append("collection")
        self.task(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a test that failed in any of its phases."""
        if report.failed:
            self.failed.append(report.nodeid)

    def run(self, names: Sequence[str], around: Callable[[str], Any] = nullcontext) -> list[str]:
        """Runs tests by name until one fails; returns those that failed.

        around  makes a context for each test out of its name
        """
        for name, following in zip(names, [*names[1:], None], strict=True):
            item = self.items[name]
            with around(name):
                item.config.hook.pytest_runtest_protocol(
                    item=item, nextitem=None if following is None else self.items[following]
                )
            if self.failed:
                break
        return self.failed

    def own_folder(self, scratch: Path) -> None:
        """Gives this process a folder of its own for the temporary files of its tests."""
        item = next(iter(self.items.values()))
        factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = Path(mkdtemp(dir=scratch))


def limits_for(costs: dict[str, float], name: str) -> Any:
    """Limits the time of the next test; beyond it, a signal ends the process."""
    cost_s = costs.get(name, 0.0)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 + 8 * cost_s)
    signal.setitimer(signal.ITIMER_REAL, 15 + 40 * cost_s)
    return nullcontext()


def run_until_one_fails(
    session: Session, names: Sequence[str], costs: dict[str, float], report: Path
) -> int:
    """Runs tests, the quickest first, in a child; writes the name of the one that failed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    failed: Iterable[str] = session.failed
    if not session.failed:
        try:
            failed = session.run(names, partial(limits_for, costs))
        except BaseException as error:  # noqa: BLE001  # whatever it is, the mutant caused it
            failed = [f"{type(error).__name__} ends the run"]
    first = next(iter(failed), "")
    report.write_text(first)
    return KILLED if first else SURVIVED


def baseline(session: Session, files: Sequence[str], workers: int, scratch: Path) -> list[Test]:
    """Runs every test without a mutant, in children; returns them with the lines they execute."""
    modules: dict[str, list[str]] = {}
    for name in session.items:
        modules.setdefault(name.partition("::")[0], []).append(name)
    slices: list[list[str]] = [[] for _ in range(workers)]
    for names in sorted(modules.values(), key=len, reverse=True):
        min(slices, key=len).extend(names)
    parts = [scratch / f"baseline-{number}" for number in range(workers)]
    each = [
        partial(_measure, session, names, files, part)
        for names, part in zip(slices, parts, strict=True)
    ]
    for number, ended in run_each(each, workers, BASELINE_LIMIT_S):
        if ended.code:
            raise SystemExit(f"the run without a mutant ended with {ended.code} in part {number}")
    return [test for part in parts for test in pickle.loads(part.read_bytes())]


def _measure(session: Session, names: Sequence[str], files: Sequence[str], part: Path) -> int:
    session.own_folder(part.parent)
    recorder = LineRecorder(files)
    found: list[Test] = []
    for name, following in zip(names, [*names[1:], None], strict=False):
        item = session.items[name]
        after = None if following is None else session.items[following]
        begun = process_time()
        with recorder.recording() as lines:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        found.append(Test(name, process_time() - begun, name not in session.failed, lines))
    part.write_bytes(pickle.dumps(found))
    return 0


def serve(
    paths: Sequence[str], task: Callable[[Session], None], options: Sequence[str] = ()
) -> int:
    """Collects tests with pytest, and calls a task with them; returns pytest's exit code."""
    return int(pytest.main([*OPTIONS, *options, *paths], plugins=[Session(task)]))


def remove(scratch: Path) -> None:
    """Removes a folder of temporary files, also if tests left read-only ones in it."""
    shutil.rmtree(scratch, ignore_errors=True)
