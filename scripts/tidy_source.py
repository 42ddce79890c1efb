"""Modules for tidy.py: text, syntax tree, imports, public names."""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

GENERATED = "broker/pocketmq/rpc/pb/"
SOURCE_ROOTS = ("broker", "scripts")
PROGRAM = '"-m", "pocketmq"'
"""Text of a command that runs the program in a process."""
NAMES_ONLY = "broker/pocketmq/native/__init__.py"
"""Module that names the compiled modules but does not depend on them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef | ast.Module


class Finding(NamedTuple):
    """A violation of a rule: path, line and message."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, eq=False)
class Source:
    """One module: its path from the project's root, its text, and derived facts."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, parents first."""
        return [*ast.walk(self.tree)]

    @cached_property
    def functions(self) -> list[Function]:
        """Every function, methods and nested ones included."""
        return [node for node in self.nodes if isinstance(node, Function)]

    @cached_property
    def name(self) -> PurePosixPath:
        """The path without its suffix; for `__init__.py` the path of the package."""
        path = PurePosixPath(self.path).with_suffix("")
        return path.parent if path.name == "__init__" else path

    @property
    def dotted(self) -> str:
        """The import name; broker/ and scripts/ are source roots."""
        parts = self.name.parts
        return ".".join(parts[1:] if parts[0] in SOURCE_ROOTS else parts)

    @property
    def unit(self) -> str:
        """The module's top package, such as `store` or `cli`; empty for the root."""
        parts = self.dotted.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def is_package(self) -> bool:
        """Whether this is an `__init__.py`."""
        return self.path.endswith("/__init__.py")

    def found(self, where: ast.AST | int, message: str) -> Finding:
        """Returns a finding at a line or a node of this module."""
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return Finding(self.path, line, message)

    def docstrings(self) -> Iterator[tuple[Documented, str]]:
        """Yields every docstring with its node."""
        for node in self.nodes:
            if isinstance(node, Documented) and (words := ast.get_docstring(node, clean=False)):
                yield node, words

    @cached_property
    def prose(self) -> list[tuple[int, str]]:
        """Comments and docstring lines, those of attributes included, with line numbers."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        lines = [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]
        for node in self.nodes:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                lines += enumerate(str(node.value.value).split("\n"), node.lineno)
        return sorted(lines)


@dataclass(frozen=True)
class Project:
    """All modules together, and the text of scripts/bench."""

    sources: Sequence[Source]
    bench: str = ""

    @cached_property
    def broker(self) -> list[Source]:
        """The product's modules."""
        return [source for source in self.sources if source.path.startswith("broker/")]

    @cached_property
    def imports(self) -> dict[Source, set[Source]]:
        """Imports among the product's modules, at any level of the code."""
        known = {source.dotted: source for source in self.broker}
        return {source: {*imported(source, known)} - {source} for source in self.broker}


def read_project(root: Path) -> Project:
    """Reads every module below broker/, tests/ and scripts/, except generated ones."""
    tops = (root / top for top in ("broker", "tests", "scripts"))
    paths = sorted(path for top in tops for path in top.rglob("*.py"))
    sources = [Source(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in paths]
    bench = root / "scripts" / "bench"
    parts = bench.rglob("*.py") if bench.is_dir() else [bench] if bench.exists() else []
    return Project(
        [source for source in sources if not source.path.startswith(GENERATED)],
        "\n".join(part.read_text("utf-8") for part in parts),
    )


def length(node: Function) -> int:
    """Returns the number of lines of a function."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def too_deep(statements: Iterable[ast.AST], deepest: int) -> Iterator[ast.AST]:
    """Yields the statements that open a nesting level below `deepest`, without their children."""
    for statement in statements:
        if isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.While):
            if not deepest:
                yield statement
                continue
            last = statement.orelse
            is_elif = bool(last) and last[0].col_offset == statement.col_offset
            yield from too_deep(statement.body, deepest - 1)
            yield from too_deep(last, deepest if is_elif else deepest - 1)
        elif not isinstance(statement, Function | ast.ClassDef | ast.expr):
            yield from too_deep(ast.iter_child_nodes(statement), deepest)


def documented_nodes(node: ast.Module | ast.ClassDef) -> Iterator[tuple[Documented, str]]:
    """Yields the nodes that require a docstring: a module or class, and its public definitions."""
    yield node, getattr(node, "name", "module")
    for part in node.body:
        if not isinstance(part, Function | ast.ClassDef) or part.name.startswith("_"):
            continue
        marks = {name_of(mark) for mark in part.decorator_list}
        if isinstance(part, ast.ClassDef):
            yield from documented_nodes(part)
        elif not marks & {"overload", "override", "setter", "deleter"}:
            yield part, part.name


def name_of(node: ast.expr) -> str:
    """Returns the last name in an expression: `flush` of `a.b.flush`, `f` of `f(x)`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return name_of(function)
    return ""


def calls(source: Source) -> Iterator[tuple[ast.Call, str, str]]:
    """Yields every call with the names of its receiver, if any, and of its callee."""
    for node in source.nodes:
        if isinstance(node, ast.Call):
            target = node.func
            receiver = name_of(target.value) if isinstance(target, ast.Attribute) else ""
            yield node, receiver, name_of(target)


def imported(source: Source, known: dict[str, Source]) -> Iterator[Source]:
    """Yields the known modules that a module imports."""
    own = source.dotted.split(".")
    home = own if source.is_package else own[:-1]
    names: list[str] = []
    for node in source.nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    for name in names:
        module = known.get(name) or known.get(name.rpartition(".")[0])
        yield from [module] if module else []


def leads_to(project: Project) -> dict[Source, set[Source]]:
    """Returns the direct dependencies of each module."""
    known = {source.dotted: source for source in project.sources}
    by_path = {source.path: source for source in project.sources}
    main = by_path.get("broker/pocketmq/__main__.py")
    return {
        source: {
            *imported(source, known),
            *_named(source, known),
            *_above(source, by_path),
            *([main] if main is not None and PROGRAM in source.text else []),
        }
        - {source}
        for source in project.sources
    }


def _named(source: Source, known: Mapping[str, Source]) -> Iterator[Source]:
    for node in source.nodes if source.path != NAMES_ONLY else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield from filter(None, [known.get(node.value)])


def _above(source: Source, by_path: Mapping[str, Source]) -> Iterator[Source]:
    """Yields the packages of a module, and the conftest modules of a test."""
    for folder in PurePosixPath(source.path).parents:
        for name in ("__init__.py", "conftest.py"):
            yield from filter(None, [by_path.get(str(folder / name))])


def is_test(source: Source) -> bool:
    """Returns whether pytest collects a module."""
    return source.path.startswith("tests/") and PurePosixPath(source.path).name.startswith("test_")


def import_circles(imports: dict[Source, set[Source]]) -> set[frozenset[Source]]:
    """Returns the groups of modules that reach each other."""
    reach = {source: set(others) for source, others in imports.items()}
    for middle in reach:
        for source in reach:
            reach[source] |= reach[middle] if middle in reach[source] else set()
    groups = {frozenset(b for b in reach[a] if a in reach[b]) for a in imports}
    return {group for group in groups if group}
