"""Checks the project's rules that ruff, mypy and import-linter cannot express.

    python scripts/tidy.py [ROOT]

Prints one line per finding, `path:line message`, then a line of measures, and the number of
findings of each rule of RATCHETS. Exits 1 if there is a finding. A rule is a function over syntax
trees that yields findings: of one module of broker/ (BROKER_RULES), of any module (RULES), of the
project (PROJECT_RULES, RATCHETS).
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from pathlib import Path

from tidy_objects import Class, classes, is_mutable, is_protocol, object_lines, real_asserts
from tidy_prose import dialect, essays, first_lines, twin_classes
from tidy_source import (
    Finding,
    Function,
    Project,
    Source,
    calls,
    documented_nodes,
    import_circles,
    is_test,
    leads_to,
    length,
    read_project,
    too_deep,
)

MODULE_LINES_MAX = 600  # can be read in one session
FUNCTION_LINES_MAX = 60  # one screen
NESTING_MAX = 3
OBJECT_LINES_MAX = 600  # bases included
IMPORTS_MAX = 12  # a module that imports more has too many tasks
HOT_FUNCTIONS_MAX = 10  # a tuned function is hard to read

REAL_ASSERTS_MIN = 230  # never falls: raise it when asserts are added

FUNCTION_PREFIXES = ("get_", "do_", "handle_", "process_")
MODULE_NAMES = {"utils", "common", "helpers", "base", "manager", "impl", "core"}
FLATTERY = re.compile(r"\b(simple|robust|just|obviously|elegant)\b", re.IGNORECASE)
LEFTOVER = re.compile(r"\b(TODO|FIXME)\b")
MAP_NAME = re.compile(r"_*(mm|map|mmap|mapped|mapping|memory_map)")

# Packages below the store.
SYNCHRONOUS = {"model", "format", "filter", "wire", "files", "walk", "rebuild", "log"}
OFFSET_IS_THE_PROTOCOLS_WORD = {"rpc", "cli"}
TASK_OWNERS = ("broker/pocketmq/store/", "broker/pocketmq/app/")
WAITING_TESTS = ("tests/e2e/", "tests/faults/")

# --- rules of one module of broker/ ---------------------------------------------------------------


def module_length(source: Source) -> Iterator[Finding]:
    """A module is at most 600 lines."""
    if (lines := source.text.count("\n")) > MODULE_LINES_MAX:
        yield source.found(1, f"module has {lines} lines, more than {MODULE_LINES_MAX}")


def function_length(source: Source) -> Iterator[Finding]:
    """A function is at most 60 lines, docstring included, decorators not."""
    for node in source.functions:
        if (lines := length(node)) > FUNCTION_LINES_MAX:
            yield source.found(node, f"{node.name} has {lines} lines, over {FUNCTION_LINES_MAX}")


def nesting(source: Source) -> Iterator[Finding]:
    """At most three if, for and while statements are nested; `elif` does not count."""
    for node in source.functions:
        for statement in too_deep(node.body, NESTING_MAX):
            yield source.found(statement, f"{node.name} nests deeper than {NESTING_MAX}")


def function_names(source: Source) -> Iterator[Finding]:
    """A function's name does not begin with a vague verb."""
    for node in source.functions:
        if node.name.lstrip("_").startswith(FUNCTION_PREFIXES):
            yield source.found(node, f"{node.name} begins with one of {FUNCTION_PREFIXES}")


def module_names(source: Source) -> Iterator[Finding]:
    """A module or package is named by a noun, not a collective name such as `utils`."""
    for part in source.name.parts:
        if part.lstrip("_") in MODULE_NAMES:
            yield source.found(1, f"the name {part} is banned: it names no thing")


def flattery(source: Source) -> Iterator[Finding]:
    """Comments and docstrings do not praise the code."""
    for line, text in source.prose:
        for word in FLATTERY.findall(text):
            yield source.found(line, f"the word {word!r} only flatters")


def bare_offset(source: Source) -> Iterator[Finding]:
    """A parameter's name tells which of the three offsets it is."""
    if source.unit in OFFSET_IS_THE_PROTOCOLS_WORD:
        return
    for node in source.functions:
        for given in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if given.arg == "offset":
                yield source.found(given, f"{node.name}: physical offset, queue offset, position?")


def docstrings(source: Source) -> Iterator[Finding]:
    """A module and its public parts have a docstring that begins with a sentence or a lead-in."""
    for node, name in documented_nodes(source.tree):
        words = ast.get_docstring(node)
        if not words:
            yield source.found(node, f"{name} has no docstring")
        elif not words.split("\n")[0].rstrip().endswith((".", ":")):
            yield source.found(node.body[0], f"{name}: the first line ends with neither . nor :")


def async_below_store(source: Source) -> Iterator[Finding]:
    """Packages below the store have no async functions."""
    waiting = ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await
    for node in source.nodes if source.unit in SYNCHRONOUS else ():
        if isinstance(node, waiting):
            yield source.found(node, f"{source.unit} lies below the store, where async stops")


def bare_tasks(source: Source) -> Iterator[Finding]:
    """A task has an owner that awaits it: a TaskGroup, the runner, the store or the app."""
    if source.path.startswith(TASK_OWNERS):
        return
    loose = {"", "asyncio", "loop", "_loop", "get_running_loop", "get_event_loop"}
    for call, receiver, name in calls(source):
        if receiver in loose and name in {"create_task", "ensure_future"}:
            yield source.found(call, f"{name} without an owner; use a TaskGroup or the runner")


def map_flush(source: Source) -> Iterator[Finding]:
    """Data is flushed by fdatasync in a thread; flushing a map would block the whole process."""
    for call, receiver, name in calls(source) if "mmap" in source.text else ():
        if name == "flush" and MAP_NAME.fullmatch(receiver):
            yield source.found(call, f"{receiver}.flush() stalls every thread; sync the file")


def single_asserts(source: Source) -> Iterator[Finding]:
    """An assertion states one condition, so that its failure identifies the condition."""
    for node in source.nodes:
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.BoolOp):
            yield source.found(node, "assert states more than one condition")


# --- rules of any module --------------------------------------------------------------------------


def leftovers(source: Source) -> Iterator[Finding]:
    """The tracker lists open work, not the code."""
    for line, text in source.prose if LEFTOVER.search(source.text) else ():
        for word in LEFTOVER.findall(text):
            yield source.found(line, f"{word} belongs in the tracker")


def sleeping_tests(source: Source) -> Iterator[Finding]:
    """Tests use simulated time; only `sleep(0)`, which runs the loop once, is allowed."""
    if not source.path.startswith("tests/") or source.path.startswith(WAITING_TESTS):
        return
    for call, _, name in calls(source):
        if name == "sleep" and [ast.unparse(argument) for argument in call.args] != ["0"]:
            yield source.found(call, "a test that sleeps is slow and sometimes wrong")


# --- rules of the project -------------------------------------------------------------------------


def hot_functions(project: Project) -> Iterator[Finding]:
    """Few functions are tuned, and a bench guards each."""
    documented = [(s, node, words) for s in project.broker for node, words in s.docstrings()]
    hot = [(s, n) for s, n, words in documented if isinstance(n, Function) and "Hot:" in words]
    for source, node in hot[HOT_FUNCTIONS_MAX:]:
        yield source.found(node, f"{node.name} is one hot function more than {HOT_FUNCTIONS_MAX}")
    for source, node in hot:
        if not re.search(rf"\b{node.name}\b", project.bench):
            yield source.found(node, f"{node.name} is hot, and scripts/bench/ does not name it")


def circles(project: Project) -> Iterator[Finding]:
    """Imports have no circles."""
    for circle in import_circles(project.imports):
        paths = sorted(source.path for source in circle)
        yield Finding(paths[0], 1, f"imports go in a circle: {', '.join(paths)}")


def asserts(project: Project) -> Iterator[Finding]:
    """The number of asserts that state an invariant never falls."""
    if project.broker and (count := assert_count(project)) < REAL_ASSERTS_MIN:
        yield Finding("broker", 1, f"{count} asserts state an invariant, not {REAL_ASSERTS_MIN}")


# --- rules that not all keep yet ------------------------------------------------------------------


def long_objects(project: Project) -> Iterator[Finding]:
    """An object is at most 600 lines, all its bases together."""
    found = classes(project)
    known: dict[str, list[Class]] = {}
    for one in found:
        known.setdefault(one.node.name, []).append(one)
    for one in found:
        if (lines := object_lines(one, known)) > OBJECT_LINES_MAX:
            yield one.source.found(one.node, f"{one.node.name} has {lines} lines with its bases")


def large_importers(project: Project) -> Iterator[Finding]:
    """A module imports at most 12 of the product's own."""
    for source, others in project.imports.items():
        if len(others) > IMPORTS_MAX:
            yield source.found(1, f"imports {len(others)} modules, more than {IMPORTS_MAX}")


def unasserted(project: Project) -> Iterator[Finding]:
    """A class with mutable state asserts its invariants."""
    for one in classes(project):
        if is_mutable(one) and not real_asserts(ast.walk(one.node)):
            yield one.source.found(one.node, f"{one.node.name} changes and asserts nothing")


def protocols(project: Project) -> Iterator[Finding]:
    """A protocol has at least two implementations in the product."""
    for one in classes(project):
        if is_protocol(one):
            yield one.source.found(one.node, f"{one.node.name} is a protocol")


def untested(project: Project) -> Iterator[Finding]:
    """A test of the same area depends on every module; for `model` any test counts."""
    edges = leads_to(project)
    for unit in sorted({source.unit for source in project.broker} - {""}):
        area = ("tests/",) if unit == "model" else (f"tests/{unit}/", f"tests/test_{unit}.py")
        waiting = [s for s in project.sources if is_test(s) and s.path.startswith(area)]
        reached = set(waiting)
        while waiting:
            new = edges[waiting.pop()] - reached
            reached |= new
            waiting += new
        for source in project.broker:
            is_own = source.unit == unit and source.name.name not in (unit, "__main__")
            if is_own and source not in reached:
                yield source.found(1, f"no test below {area[0]} leads here")


RATCHETS: dict[Callable[[Project], Iterator[Finding]], int] = {
    long_objects: 0,
    large_importers: 47,
    unasserted: 0,
    protocols: 9,
    untested: 0,
    first_lines: 0,
    dialect: 0,
    essays: 0,
    twin_classes: 0,
}
"""Allowed findings of each rule; lower the number when findings are removed."""


BROKER_RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    *(module_length, function_length, nesting, function_names, module_names, flattery),
    *(bare_offset, docstrings, async_below_store, bare_tasks, map_flush, single_asserts),
)
RULES = (leftovers, sleeping_tests)
PROJECT_RULES = (hot_functions, circles, asserts)


# --- the whole ------------------------------------------------------------------------------------


def assert_count(project: Project) -> int:
    """Returns the number of asserts of the product that state an invariant."""
    return sum(len(real_asserts(source.nodes)) for source in project.broker)


def line_count(project: Project, top: str) -> int:
    """Returns the number of lines of the modules below a folder."""
    return sum(s.text.count("\n") for s in project.sources if s.path.startswith(top))


def percentile(values: Iterable[int], share: float) -> int:
    """Returns the smallest value that `share` of the values do not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[ceil(share * len(ordered)) - 1] if ordered else 0


def ratcheted(project: Project) -> tuple[list[Finding], str]:
    """Returns the findings of rules that exceed their allowed number, and all numbers as text."""
    worse: list[Finding] = []
    counts = []
    for rule, at_most in RATCHETS.items():
        found = [*rule(project)]
        counts.append(f"{len(found)} {rule.__name__.replace('_', ' ')}")
        if len(found) > at_most:
            worse += [Finding("scripts/tidy.py", 1, f"{counts[-1]}, there were {at_most}"), *found]
    return worse, " · ".join(counts)


def beauty_line(project: Project) -> str:
    """Returns the project's measures in one line."""
    arrows = {(a.unit, b.unit) for a, others in project.imports.items() for b in others}
    arrows = {(a, b) for a, b in arrows if a != b and a and b}
    modules = [source.text.count("\n") for source in project.broker if not source.is_package]
    sizes = [length(node) for source in project.broker for node in source.functions]
    nodes = [node for source in project.broker for node, _ in documented_nodes(source.tree)]
    documented = sum(ast.get_docstring(node) is not None for node in nodes)
    p50, p90 = percentile(sizes, 0.5), percentile(sizes, 0.9)
    return (
        f"{len(modules)} modules · {len(arrows)} arrows"
        f" · {len(import_circles(project.imports))} circles"
        f" · module p90 {percentile(modules, 0.9)}"
        f" · function p50 {p50} p90 {p90} max {max(sizes, default=0)}"
        f" · docstrings {100 * documented // max(len(nodes), 1)} %"
        f" · asserts {assert_count(project)}"
        f" · lines {line_count(project, 'broker/')} + {line_count(project, 'tests/')}"
    )


def findings(project: Project) -> Iterator[Finding]:
    """Yields the findings of every rule."""
    for source in project.sources:
        rules = (*BROKER_RULES, *RULES) if source.path.startswith("broker/") else RULES
        for rule in rules:
            yield from rule(source)
    for project_rule in PROJECT_RULES:
        yield from project_rule(project)


def main(arguments: Sequence[str]) -> int:
    """Prints the findings and the beauty line; returns the exit code."""
    project = read_project(Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1])
    worse, counts = ratcheted(project)
    found = sorted({*findings(project), *worse})
    for path, line, message in found:
        print(f"{path}:{line} {message}")
    print(f"{beauty_line(project)}\nnot yet: {counts}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
