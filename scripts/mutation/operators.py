"""Finds the mutants of a module: small edits of its source, each of which a test should notice.

Operators
    comparison   `<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`, and the reverse
    boundary     an integer constant plus one, or minus one
    constant     True becomes False, and the reverse
    logic        `and` becomes `or`, and the reverse; a `not` is dropped
    statement    a call, an assignment to an attribute or an item, `x += n`, `del`, `raise`: dropped
    await        a statement that awaits is dropped; a condition that awaits becomes True

Edits that no behaviour depends on are left out: log calls, texts, what an error is built from,
asserts and functions of nothing else, annotations, decorators, values of enums, `__repr__`.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}
LOGGERS: Final = frozenset({"logger", "logging", "_logger"})
SILENT: Final = frozenset({"__repr__", "__str__"})
"""Functions whose results only people read."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One edit of a module.

    path, line   where it is; the path from the project's root
    operator     its kind, as listed above
    before       the text it replaces; `after` replaces it
    start        byte in the module where that text begins
    lines        lines that a test executes when it executes the mutant; the closest first
    names        for what runs at import: names through which functions read what it sets
    inside       whether it is in a function's body, so that it runs after the import
    """

    path: str
    line: int
    operator: str
    before: str
    after: str
    start: int
    lines: tuple[tuple[int, ...], ...] = ()
    names: frozenset[str] = frozenset()
    inside: bool = True

    def applied_to(self, text: bytes) -> bytes:
        """Returns the module's text with the edit; every other line keeps its number."""
        end = self.start + len(self.before.encode())
        return text[: self.start] + self.after.encode() + text[end:]

    @property
    def shown(self) -> str:
        """The edit in one line."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line}  {self.operator}  {before}  →  {after or '(nothing)'}"


OPERATORS: Final = ("comparison", "boundary", "constant", "logic", "statement", "await")


class Module:
    """A module's text and tree, and the mutants it has."""

    def __init__(self, path: str, text: bytes) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text, path)
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def mutants(self) -> list[Mutant]:
        """Returns every mutant that compiles, by line."""
        found = {(each.start, each.before, each.after): each for each in self._walk(self.tree, ())}
        return sorted(
            (each for each in found.values() if self._compiles(each)),
            key=lambda each: (each.line, each.start, each.after),
        )

    def reading_lines(self, names: frozenset[str]) -> frozenset[int]:
        """Returns the lines inside of functions where one of some names is read."""
        return frozenset(
            node.lineno
            for statement in self._in_functions
            for node in ast.walk(statement)
            if isinstance(node, ast.expr | ast.keyword) and _named(node) & names
        )

    def made_of(self, names: frozenset[str]) -> frozenset[str]:
        """Returns some names, and those that are computed from them at import."""
        while True:
            more = {
                name
                for statement in self._at_import
                if any(_named(node) & names for node in ast.walk(statement))
                for name in _assigned(statement)
            }
            if more <= names:
                return names
            names |= more

    @property
    def function_lines(self) -> frozenset[int]:
        """The first lines of all statements in functions."""
        return frozenset(statement.lineno for statement in self._in_functions)

    @cached_property
    def _in_functions(self) -> list[ast.stmt]:
        functions = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        return [statement for function in functions for statement in function.body]

    @cached_property
    def _at_import(self) -> list[ast.stmt]:
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        return [*self.tree.body, *(statement for node in classes for statement in node.body)]

    @cached_property
    def _only_asserting(self) -> frozenset[str]:
        """Names of functions that contain nothing but asserts."""
        return frozenset(
            node.name
            for node in ast.walk(self.tree)
            if isinstance(node, Function)
            and any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
            and all(_asserts_only(statement) for statement in node.body)
        )

    def _compiles(self, mutant: Mutant) -> bool:
        try:
            compile(mutant.applied_to(self.text), self.path, "exec")
        except (SyntaxError, ValueError):
            return False
        return True

    def _walk(self, node: ast.AST, above: tuple[ast.AST, ...]) -> Iterator[Mutant]:
        if self._has_no_behaviour(node, above):
            return
        for mutant in self._of(node):
            yield self._placed(mutant, node, above)
        skipped = _left_out(node)
        for child in ast.iter_child_nodes(node):
            if child not in skipped:
                yield from self._walk(child, (*above, node))

    def _has_no_behaviour(self, node: ast.AST, above: tuple[ast.AST, ...]) -> bool:
        match node:
            case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                return True
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return name in SILENT or name in self._only_asserting
            case ast.Assign(targets=[ast.Name(id=name)]):
                return name in ("__slots__", "__all__") or _is_member(node, above)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in LOGGERS:
                return True
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                return name in self._only_asserting or name == "field"
        return False

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare():
                yield from self._of_comparison(node)
            case ast.BoolOp():
                yield from self._of_logic(node)
            case ast.UnaryOp(op=ast.Not()):
                yield self._edit("logic", self._start(node), "not", "")
            case ast.Constant(value=bool() as value):
                yield self._whole("constant", node, str(not value))
            case ast.Constant(value=int() as value):
                yield self._whole("boundary", node, str(value + 1))
                if value:
                    yield self._whole("boundary", node, str(value - 1))
            case ast.If(test=test) | ast.While(test=test):
                for awaiting in _awaiting(test):
                    yield self._whole("await", awaiting, "True")
            case ast.stmt():
                yield from self._of_statement(node)

    def _of_statement(self, node: ast.stmt) -> Iterator[Mutant]:
        match node:
            case ast.Expr(value=ast.Await(value=value)):
                if not self._has_no_behaviour(value, ()):
                    yield self._dropped("await", node)
            case ast.Expr(value=ast.Call() as call):
                if not self._has_no_behaviour(call, ()):
                    yield self._dropped("statement", node)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                yield self._dropped("statement", node)
            case ast.AnnAssign(target=ast.Attribute(), value=ast.expr()):
                yield self._dropped("statement", node)
            case ast.AugAssign() | ast.Delete() | ast.Raise():
                yield self._dropped("statement", node)

    def _of_comparison(self, node: ast.Compare) -> Iterator[Mutant]:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            pattern, after = COMPARISONS[type(op)]
            yield from self._between("comparison", left, right, pattern, after)
            left = right

    def _of_logic(self, node: ast.BoolOp) -> Iterator[Mutant]:
        before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from self._between("logic", left, right, rf"\b{before}\b", after)

    def _between(
        self, operator: str, left: ast.expr, right: ast.expr, pattern: str, after: str
    ) -> Iterator[Mutant]:
        """Yields the edit of an operator between two expressions."""
        begin = self._end(left)
        text = self.text[begin : self._start(right)].decode()
        code = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), text)
        if found := re.search(pattern, code):
            start = begin + len(text[: found.start()].encode())
            yield self._edit(operator, start, found[0], after)

    def _whole(self, operator: str, node: ast.expr, after: str) -> Mutant:
        begin = self._start(node)
        return self._edit(operator, begin, self.text[begin : self._end(node)].decode(), after)

    def _dropped(self, operator: str, node: ast.stmt) -> Mutant:
        begin = self._start(node)
        before = self.text[begin : self._end(node)].decode()
        return self._edit(operator, begin, before, "pass" + "\n" * before.count("\n"))

    def _edit(self, operator: str, start: int, before: str, after: str) -> Mutant:
        line = self.text.count(b"\n", 0, start) + 1
        return Mutant(self.path, line, operator, before, after, start)

    def _placed(self, mutant: Mutant, node: ast.AST, above: tuple[ast.AST, ...]) -> Mutant:
        """Returns a mutant with the lines and names by which tests are chosen."""
        way = (*above, node)
        functions = [each for each in way if isinstance(each, Function)]
        if functions and _is_in_body(functions[0], way):
            statement = next(each for each in reversed(way) if isinstance(each, ast.stmt))
            own = tuple(range(mutant.line, getattr(node, "end_lineno", mutant.line) + 1))
            return replace(mutant, lines=(own, (statement.lineno,)))
        if functions:
            body = range(functions[0].body[0].lineno, (functions[0].end_lineno or 0) + 1)
            return replace(mutant, lines=(tuple(body),), inside=False)
        statement = next(each for each in reversed(way) if isinstance(each, ast.stmt))
        classes = [each.name for each in way if isinstance(each, ast.ClassDef)]
        names = frozenset(_assigned(statement) or classes)
        return replace(mutant, names=names, inside=False)

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset


def _named(node: ast.AST) -> frozenset[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return frozenset((name,))
    return frozenset()


def _is_member(node: ast.Assign, above: tuple[ast.AST, ...]) -> bool:
    """Returns whether an assignment sets an enum member, whose value does not matter."""
    match above[-1:]:
        case (ast.ClassDef(bases=[*_, ast.Name(id=base)]),):
            return base.endswith("Enum") and isinstance(node.value, ast.Constant)
    return False


def _awaiting(test: ast.expr) -> Iterator[ast.Await]:
    """Yields the awaits of a condition whose result is only tested for truth."""
    match test:
        case ast.Await():
            yield test
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _awaiting(operand)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _awaiting(value)


def _asserts_only(node: ast.stmt) -> bool:
    match node:
        case ast.Assert() | ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.If(body=body) | ast.For(body=body):
            return all(map(_asserts_only, body))
    return False


def _left_out(node: ast.AST) -> list[ast.AST | None]:
    """Returns the children of a node that are not mutated."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.decorator_list, node.returns]
        case ast.ClassDef():
            return [*node.decorator_list]
        case ast.arg() | ast.AnnAssign():
            return [node.annotation]
        case ast.Raise():
            return [node.exc, node.cause]
    return []


def _is_in_body(function: Function, way: tuple[ast.AST, ...]) -> bool:
    after = way.index(function) + 1
    return after < len(way) and way[after] in function.body


def _assigned(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []
