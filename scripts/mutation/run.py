"""Finds small edits of a package that no near test notices; see scripts/mutate."""

import argparse
import gc
import importlib
import json
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Final

from mutation.children import Ended, run_each
from mutation.nearest import nearest_tests
from mutation.operators import OPERATORS, Mutant
from mutation.package import Package
from mutation.planting import LiveFunctions, MutatedImport
from mutation.session import SURVIVED, Session, Test, baseline, remove, run_until_one_fails, serve
from mutation.verdicts import Verdict, documents, table

ROOT: Final = Path(__file__).resolve().parents[2]
FOREIGN: Final = (
    *("pytest", "hypothesis", "hypothesis.strategies", "grpc", "grpc.aio", "google.protobuf"),
    *("h2.connection", "hpack", "numpy", "lark", "lz4.frame", "zstandard", "uvloop"),
    *("prometheus_client", "rich.console", "click"),
)
"""Other people's modules, imported once before anything forks."""
NOT_TAKEN: Final = 11
"""Exit code of a child that cannot put the mutant into functions that exist."""
NOT_IMPORTED: Final = 12
"""Exit code of a child that could collect no test, which counts as finding the mutant."""
MUTANT_LIMIT_S: Final = 600
COLLECTED_LIMIT_S: Final = 86_400
EVERY: Final = 50
"""After so many mutants a line of progress is shown."""


@dataclass
class Run:
    """The run of one package's mutants.

    until  no mutant is begun after this moment of the monotonic clock
    """

    package: Package
    given: argparse.Namespace
    scratch: Path
    until: float
    verdicts: list[Verdict] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)

    def go(self) -> list[Verdict]:
        """Runs all tests; returns a verdict for each mutant that the time allowed."""
        found = self.scratch / "found"
        ends = [*run_each([partial(self._collected, found)], 1, COLLECTED_LIMIT_S, silent=False)]
        if not found.exists():
            raise SystemExit(
                f"the tests near broker/pocketmq/{self.package.name} do not run: {ends}"
            )
        self.verdicts, later, self.tests = pickle.loads(found.read_bytes())
        self._try(later, self._imported)
        return self.verdicts

    def _collected(self, found: Path) -> int:
        return serve(self.package.near, partial(self._inside, found), self._options())

    def _options(self) -> list[str]:
        return [
            "--rootdir",
            str(self.package.root),
            "-c",
            str(self.package.root / "pyproject.toml"),
        ]

    def _inside(self, found: Path, session: Session) -> None:
        """Measures the tests, and tries the mutants inside functions, in forks of this process.

        What is left is tried where nothing of the product has been imported.
        """
        begun = monotonic()
        measured = baseline(session, self.package.files, self.given.workers, self.scratch)
        for test in measured:
            if not test.passed:
                _say(f"  fails without any mutant, and is left out: {test.name}")
        self.tests = [test for test in measured if test.passed]
        _say(
            f"broker/pocketmq/{self.package.name}: {len(self.package.mutants)} of "
            f"{self.package.all_count} mutants, {len(self.tests)} tests measured in "
            f"{monotonic() - begun:.0f} s"
        )
        live = LiveFunctions(self.package.files)
        gc.collect()
        gc.freeze()
        mutants = self.package.mutants
        later = [mutant for mutant in mutants if not mutant.inside]
        inside = [mutant for mutant in mutants if mutant.inside]
        later += self._try(inside, partial(self._swapped, session, live))
        found.write_bytes(pickle.dumps((self.verdicts, later, self.tests)))

    def _try(
        self, mutants: Sequence[Mutant], child: Callable[[Mutant, list[Test], Path], int]
    ) -> list[Mutant]:
        """Runs a child for each mutant; returns those that could not be put in."""
        begun: list[Verdict] = []

        def children() -> Iterator[Callable[[], int]]:
            for mutant in mutants:
                tests = self.package.tests_of(mutant, self.tests, self.given.tests_seconds)
                verdict = Verdict(mutant, tests=len(tests))
                if not tests:
                    self._took(verdict)
                    continue
                if monotonic() > self.until:
                    return
                begun.append(verdict)
                yield partial(child, mutant, tests, self._report(len(begun) - 1))

        left: list[Mutant] = []
        for number, ended in run_each(children(), self.given.workers, MUTANT_LIMIT_S):
            verdict = begun[number]
            if ended.code == NOT_TAKEN:
                left.append(verdict.mutant)
                continue
            verdict.survived = ended.code == SURVIVED
            verdict.killed_by = self._killer(number, ended)
            verdict.cpu_s = ended.cpu_s
            self._took(verdict)
        return left

    def _report(self, number: int) -> Path:
        return self.scratch / f"report-{number}"

    def _killer(self, number: int, ended: Ended) -> str:
        if ended.code < 0:
            return "a limit"
        report = self._report(number)
        return report.read_text() if report.exists() else "the import"

    def _took(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if verdict.survived:
            _say(f"  {verdict.tests} tests pass: {verdict.shown}")
        if len(self.verdicts) % EVERY == 0:
            cpu_s = sum(each.cpu_s for each in self.verdicts) / len(self.verdicts)
            _say(f"  {len(self.verdicts)} tried, {cpu_s:.1f} s of CPU each")

    def _swapped(
        self, session: Session, live: LiveFunctions, mutant: Mutant, tests: list[Test], report: Path
    ) -> int:
        """Runs tests in a child with a mutant in existing functions."""
        if not live.take(self.package.file(mutant.path), self.package.text_with(mutant)):
            return NOT_TAKEN
        session.own_folder(self.scratch)
        costs = {test.name: test.cpu_s for test in tests}
        return run_until_one_fails(session, [*costs], costs, report)

    def _imported(self, mutant: Mutant, tests: list[Test], report: Path) -> int:
        """Runs tests in a child with a mutant in a module that is imported later."""
        path = mutant.path.removeprefix("broker/").removesuffix(".py").removesuffix("/__init__")
        module = path.replace("/", ".")
        file = self.package.file(mutant.path)
        MutatedImport(module, file, self.package.text_with(mutant)).install()
        costs = {test.name: test.cpu_s for test in tests}
        results: list[int] = []

        def task(session: Session) -> None:
            wanted = [name for name in costs if name in session.items]
            if wanted:
                session.own_folder(self.scratch)
                results.append(run_until_one_fails(session, wanted, costs, report))

        # Pytest would import a package that has a plugin of it by a way of its own.
        options = [*self._options(), "--assert=plain"]
        serve(sorted({name.partition("::")[0] for name in costs}), task, options)
        return results[0] if results else NOT_IMPORTED


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries the mutants of the packages given; prints survivors and a table, returns 0."""
    given = _parser().parse_args(arguments)
    for name in FOREIGN if given.root == ROOT else ():
        importlib.import_module(name)
    until = monotonic() + given.limit_seconds
    rows: list[tuple[str, list[Verdict]]] = []
    for name in given.packages:
        near = given.tests or sorted({*nearest_tests(given.root, name), *given.also})
        package = Package(name, given.root, near)
        package.read(given.count, given.seed, given.operators, given.pattern)
        scratch = Path(mkdtemp(prefix="pocketmq-mutants-"))
        try:
            rows.append((name, Run(package, given, scratch, until).go()))
        finally:
            remove(scratch)
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps(documents(rows), indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/mutate", description="List the small edits that no near test notices.",
        epilog="example: scripts/mutate store/tables --count 100",
    )  # fmt: skip
    add = parser.add_argument
    add("packages", nargs="+", metavar="PACKAGE", help="below broker/pocketmq/: store/tables")
    add("--count", type=int, default=0, metavar="N", help="so many mutants of each package")
    add("--seed", type=int, default=0, metavar="N", help="which ones these are")
    add("--operators", nargs="+", default=OPERATORS, choices=OPERATORS, help="kinds of edits")
    add("--pattern", default="", metavar="REGEX", help="in the text that is edited")
    add("--workers", type=int, default=2, metavar="W", help="processes at a time")
    add("--also", nargs="+", default=[], metavar="PATH", help="more tests than the near ones")
    add("--tests", nargs="+", default=[], metavar="PATH", help="these tests alone")
    add("--tests-seconds", type=float, default=20, metavar="S", help="CPU of one mutant's tests")
    add("--limit-seconds", type=float, default=86_400, metavar="S", help="begin none after these")
    add("--json", type=Path, metavar="FILE", help="every mutant and its verdict")
    add("--root", type=Path, default=ROOT, metavar="DIR", help="of another project")
    return parser


if __name__ == "__main__":
    sys.exit(main())
