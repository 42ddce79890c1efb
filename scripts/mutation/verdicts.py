"""Verdicts on mutants, one each; the list of survivors and the table."""

from collections.abc import Sequence
from dataclasses import dataclass

from mutation.operators import Mutant

Rows = Sequence[tuple[str, Sequence["Verdict"]]]
"""Packages with their verdicts."""


@dataclass
class Verdict:
    """The verdict on one mutant.

    killed_by  the test that failed; `a limit` where a test came to no end
    tests      how many tests execute its line; 0: not reached, so that it survives
    """

    mutant: Mutant
    survived: bool = True
    killed_by: str = ""
    tests: int = 0
    cpu_s: float = 0.0

    @property
    def shown(self) -> str:
        """The mutant in one line, and whether a test reached it."""
        return f"{self.mutant.shown}{'' if self.tests else '  (not reached)'}"


def documents(rows: Rows) -> list[dict[str, object]]:
    """Returns every mutant and its verdict as plain values, for JSON."""
    return [
        {
            "package": package,
            "path": each.mutant.path,
            "line": each.mutant.line,
            "operator": each.mutant.operator,
            "before": each.mutant.before,
            "after": each.mutant.after,
            "survived": each.survived,
            "killed_by": each.killed_by,
            "tests": each.tests,
            "cpu_s": round(each.cpu_s, 3),
        }
        for package, verdicts in rows
        for each in verdicts
    ]


def table(rows: Rows) -> str:
    """Returns the survivors, one a line, and the table of all packages."""
    survivors = [each for _, verdicts in rows for each in verdicts if each.survived]
    survivors.sort(key=lambda each: (each.mutant.path, each.mutant.line))
    every = [each for _, verdicts in rows for each in verdicts]
    return "\n".join([
        *(each.shown for each in survivors),
        "",
        "| package | mutants | killed | survivors | not reached | % killed | CPU s |",
        "|---|---|---|---|---|---|---|",
        *(_line(f"broker/pocketmq/{package}", verdicts) for package, verdicts in rows),
        *([_line("all", every)] if len(rows) > 1 else []),
    ])  # fmt: skip


def _line(name: str, verdicts: Sequence[Verdict]) -> str:
    count = len(verdicts)
    killed = sum(not each.survived for each in verdicts)
    unreached = sum(not each.tests for each in verdicts)
    share = 100 * killed / count if count else 100
    cpu_s = sum(each.cpu_s for each in verdicts)
    return (
        f"| {name} | {count} | {killed} | {count - killed} | {unreached} | {share:.1f} "
        f"| {cpu_s:.0f} |"
    )
