"""Rules of the style guide (CONTRIBUTING, "Style") that can be checked over syntax trees.

Each rule yields a finding for every docstring, comment or class name that breaks it. All are
ratchets of tidy.py.
"""

import ast
import re
from collections.abc import Iterator

from tidy_source import Documented, Finding, Function, Project, Source, name_of

FIRST_LINE_WORDS_MAX = 18
ESSAY_LINES_MAX = 15
OPENINGS = re.compile(r"(What|Let|Have|Whoever|Who|Nobody|Somebody|Be|Know)\b")
"""Forbidden first words of docstrings."""
IMPERATIVES = frozenset(
    "Add Answer Append Ask Begin Build Call Change Check Close Compare Copy Count Create Cut"
    " Decide Decode Do Drop Encode End Find Flush Follow Forget Give Go Hold Keep Leave List Load"
    " Look Make Mend Move Note Open Pass Print Put Raise Read Receive Refuse Remember Remove"
    " Replace Return Run Say Search Send Serve Set Settle Show Start Stop Store Take Tell Try Undo"
    " Unmap Use Wait Wake Walk Write Yield".split()
)
"""Verbs that a docstring writes in the third person: *Returns*, *Writes*."""
DIALECT = re.compile(
    r"\b(nobody|somebody|whoever|by and by|how manieth|hitherto|thereof)\b", re.IGNORECASE
)
"""Forbidden words: name the caller, client, task or thread instead."""
COMMANDS = frozenset({"command", "group", "callback", "asks", "asks_broker"})


def first_lines(project: Project) -> Iterator[Finding]:
    """A docstring's first line has few words, and opens with a noun or third-person verb."""
    for source in project.sources:
        for node, words in source.docstrings():
            if not _is_help(node):
                yield from _of_first_line(source, node, words.strip().partition("\n")[0])


def _of_first_line(source: Source, node: Documented, line: str) -> Iterator[Finding]:
    if (count := len(line.split())) > FIRST_LINE_WORDS_MAX:
        yield source.found(node, f"first line has {count} words, over {FIRST_LINE_WORDS_MAX}")
    if opening := OPENINGS.match(line):
        yield source.found(node, f"a docstring opens with {opening[1]}")
    first = re.match(r"\w*", line)
    if first and isinstance(node, Function) and first[0] in IMPERATIVES:
        yield source.found(node, f"a docstring opens with the imperative {first[0]}")


def _is_help(node: Documented) -> bool:
    """Whether a docstring is the help text of a command, which opens with an imperative."""
    marks = [] if isinstance(node, ast.Module) else node.decorator_list
    return any(name_of(mark) in COMMANDS for mark in marks)


def dialect(project: Project) -> Iterator[Finding]:
    """Prose contains no forbidden word."""
    for source in project.sources:
        for line, text in source.prose:
            if found := DIALECT.search(text):
                yield source.found(line, f'the style guide has another word for "{found[1]}"')


def essays(project: Project) -> Iterator[Finding]:
    """A module's docstring is short; longer text belongs in ARCHITECTURE or docs/."""
    for source in project.broker:
        lines = (ast.get_docstring(source.tree) or "").count("\n") + 1
        if lines > ESSAY_LINES_MAX:
            yield source.found(1, f"module docstring has {lines} lines, over {ESSAY_LINES_MAX}")


def twin_classes(project: Project) -> Iterator[Finding]:
    """A class name is unique in the product."""
    places: dict[str, list[tuple[Source, ast.ClassDef]]] = {}
    for source in project.broker:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append((source, node))
    for name, found in places.items():
        for source, node in found[1:]:
            yield source.found(node, f"{name} is also a class of {found[0][0].path}")
