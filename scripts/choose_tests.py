"""Chooses the tests that a change can affect; see scripts/test --changed.

    python scripts/choose_tests.py BASE     prints paths for pytest; reasons go to standard error

A test module is chosen if it, a conftest.py above it, or any module that they depend on has changed
since the merge base of BASE and HEAD; uncommitted changes count. A module depends on the modules it
imports, on modules named in its strings (commands are loaded by name), and by `-m pocketmq` on the
whole program. A changed file that is not a module affects the modules that contain its name, or its
word of DATA. tests/architecture reads every file and is always chosen. If a file of EVERYTHING has
changed, all tests are chosen.
"""

import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from tidy_source import Project, Source, is_test, leads_to, read_project

ROOT: Final = Path(__file__).resolve().parents[1]
ALWAYS: Final = "tests/architecture/"
EVERYTHING: Final = ("pyproject.toml", "requirements.lock", "tests/conftest.py", "scripts/setup")
DATA: Final = {"tests/golden/": "golden", "proto/": "rpc.pb", "broker/pocketmq/rpc/pb/": "rpc.pb"}
"""Text in modules that use the files of a folder, by folder."""
FOR_ALL: Final = frozenset({"tests/conftest.py", "tests/golden_stores.py"})
"""Modules that every test depends on and few use."""
SHOWN_MAX: Final = 40


def changed_files(base: str) -> list[str]:
    """Returns the paths changed since the merge base of `base` and HEAD; uncommitted ones count."""
    parted = _git("merge-base", base, "HEAD")[0]
    new = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*_git("diff", "--name-only", "--no-renames", parted), *new})


def _git(*words: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def chosen(project: Project, changed: Iterable[str]) -> dict[str, str]:
    """Returns the test modules that a change can affect, each with the path of dependencies."""
    changed = set(changed)
    tests = [source for source in project.sources if is_test(source)]
    if why := sorted(changed.intersection(EVERYTHING)):
        return {source.path: f"{why[0]} touches everything" for source in tests}
    touched = dict(_touched(project, changed))
    edges = leads_to(project)
    reasons = {}
    for test in tests:
        way = _way(test, edges, touched)
        if way:
            reasons[test.path] = f"{' > '.join(s.path for s in way)} {touched[way[-1]]}"
        elif test.path.startswith(ALWAYS):
            reasons[test.path] = "always"
    return reasons


def _touched(project: Project, changed: set[str]) -> Iterator[tuple[Source, str]]:
    """Yields modules that have changed or use a changed file, with the reason."""
    words = {_word_of(path) for path in changed - {source.path for source in project.sources}}
    for source in project.sources:
        found = [] if source.path in FOR_ALL else [word for word in words if word in source.text]
        if source.path in changed or found:
            yield source, "was changed" if source.path in changed else f"uses {min(found)}"


def _word_of(path: str) -> str:
    """Returns the text in modules that use a file; a name such as `test` is in quotes."""
    name = PurePosixPath(path).name
    own = name if "." in name else f'"{name}"'
    return next((DATA[top] for top in DATA if path.startswith(top)), own)


def _way(
    start: Source, edges: Mapping[Source, set[Source]], touched: Mapping[Source, str]
) -> list[Source]:
    """Returns the shortest path of dependencies to an affected module; empty: there is none."""
    ways = deque([[start]])
    seen = {start}
    while ways:
        way = ways.popleft()
        if way[-1] in touched:
            return way
        for following in sorted(edges[way[-1]] - seen, key=lambda source: source.path):
            seen.add(following)
            ways.append([*way, following])
    return []


def main(arguments: Sequence[str]) -> int:
    """Prints the chosen tests and the reasons; returns 2 if git does not know the base."""
    base = arguments[0] if arguments else "main"
    try:
        changed = changed_files(base)
    except subprocess.CalledProcessError as error:
        print(f"git knows no {base}: {error.stderr.strip()}", file=sys.stderr)
        return 2
    project = read_project(ROOT)
    reasons = chosen(project, changed)
    tests = sum(map(is_test, project.sources))
    print(f"{len(changed)} files changed since {base}:", *changed[:SHOWN_MAX], file=sys.stderr)
    print(f"{len(reasons)} of {tests} test modules are chosen:", file=sys.stderr)
    for reason in [*reasons.values()][:SHOWN_MAX]:
        print(f"  {reason}", file=sys.stderr)
    if len(reasons) > SHOWN_MAX:
        print(f"  and {len(reasons) - SHOWN_MAX} more", file=sys.stderr)
    print(*reasons, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
