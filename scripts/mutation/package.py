"""A package under mutation: its modules, its mutants, and the tests that execute each of them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from mutation.operators import Module, Mutant
from mutation.session import Test


@dataclass
class Package:
    """A package under mutation.

    name     a folder or a module below broker/pocketmq/
    root     the project's root
    near     paths of the test modules to run
    mutants  the chosen ones; `all_count` is how many there are
    """

    name: str
    root: Path
    near: Sequence[str]
    modules: dict[str, Module] = field(default_factory=dict)
    mutants: list[Mutant] = field(default_factory=list)
    all_count: int = 0

    def read(self, count: int, seed: int, operators: Collection[str], pattern: str) -> None:
        """Finds mutants, and chooses `count` of them, spread evenly; 0 chooses all.

        operators  the kinds of edits
        pattern    a regular expression that is found in the text they replace
        """
        place = self.root / "broker" / "pocketmq" / self.name
        if not place.exists():
            raise SystemExit(f"there is no {place}; name a package such as store/tables")
        for source in [place] if place.suffix == ".py" else sorted(place.rglob("*.py")):
            path = source.relative_to(self.root).as_posix()
            self.modules[path] = Module(path, source.read_bytes())
        found = [mutant for module in self.modules.values() for mutant in module.mutants()]
        found = [mutant for mutant in found if mutant.operator in operators]
        found = [mutant for mutant in found if re.search(pattern, mutant.before)]
        self.all_count = len(found)
        self.mutants = chosen(found, count, Random(seed))

    @property
    def files(self) -> list[str]:
        """The whole names of the modules' files."""
        return [self.file(path) for path in self.modules]

    def file(self, path: str) -> str:
        """Returns the whole name of a module's file, as code objects have it."""
        return str(self.root / path)

    def text_with(self, mutant: Mutant) -> bytes:
        """Returns the text of the mutant's module with the mutant in it."""
        return mutant.applied_to(self.modules[mutant.path].text)

    def tests_of(self, mutant: Mutant, tests: Sequence[Test], budget_s: float) -> list[Test]:
        """Returns the tests that execute a mutant, quickest first, within a budget of CPU."""
        for lines in self._lines_of(mutant):
            reached = [test for test in tests if _executes(test, lines)]
            if reached:
                return _within(budget_s, sorted(reached, key=lambda test: test.cpu_s))
        return []

    def _lines_of(self, mutant: Mutant) -> list[dict[str, frozenset[int]]]:
        """Returns lines by file; a later entry counts if no test executes the earlier ones."""
        if mutant.lines:
            return [{self.file(mutant.path): frozenset(lines)} for lines in mutant.lines]
        own = self.modules[mutant.path]
        names = own.made_of(mutant.names)
        lines = {self.file(path): one.reading_lines(names) for path, one in self.modules.items()}
        file = self.file(mutant.path)
        return [{file: lines[file]}, lines, {file: own.function_lines}]


def chosen(mutants: Sequence[Mutant], count: int, random: Random) -> list[Mutant]:
    """Returns so many of the mutants: one by chance out of each of as many equal pieces."""
    if not count or count >= len(mutants):
        return list(mutants)
    step = len(mutants) / count
    return [mutants[int((n + random.random()) * step)] for n in range(count)]


def _executes(test: Test, lines: dict[str, frozenset[int]]) -> bool:
    return any(wanted & test.lines.get(file, set()) for file, wanted in lines.items())


def _within(budget_s: float, tests: Sequence[Test]) -> list[Test]:
    taken: list[Test] = []
    for test in tests:
        budget_s -= test.cpu_s
        if budget_s < 0 and taken:
            break
        taken.append(test)
    return taken
