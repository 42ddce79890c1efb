"""Classes for tidy.py: lines of their objects, mutable state, and asserts."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidy_source import Function, Project, Source, name_of


class Class(NamedTuple):
    """A class, and its module."""

    source: Source
    node: ast.ClassDef


def classes(project: Project) -> list[Class]:
    """Returns the product's classes, nested ones included."""
    return [
        Class(source, node)
        for source in project.broker
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    ]


def is_protocol(one: Class) -> bool:
    """Returns whether a class is a Protocol."""
    names = {ast.unparse(_bare(base)) for base in one.node.bases}
    return not names.isdisjoint({"Protocol", "typing.Protocol"})


def _bare(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def object_lines(one: Class, known: dict[str, list[Class]]) -> int:
    """Returns the lines of an object: its class and all base classes of the product.

    known   classes by name; if several have a base's name, the one in an imported module counts
    """
    seen: set[int] = set()
    waiting = [one]
    total = 0
    while waiting:
        following = waiting.pop()
        if id(following.node) not in seen:
            seen.add(id(following.node))
            total += (following.node.end_lineno or 0) - following.node.lineno + 1
            waiting += _bases(following, known)
    return total


def _bases(one: Class, known: dict[str, list[Class]]) -> Iterator[Class]:
    for base in one.node.bases:
        name = name_of(_bare(base))
        found = known.get(name, [])
        near = [other for other in found if other.source is one.source]
        imported = [other for other in found if f"from {other.source.dotted} " in one.source.text]
        yield from (near or imported)[:1]


def is_mutable(one: Class) -> bool:
    """Returns whether a method other than `__init__` assigns an attribute of the object."""
    return any(
        isinstance(target, ast.Attribute) and name_of(target.value) == "self"
        for method in one.node.body
        if isinstance(method, Function) and method.name != "__init__"
        for node in ast.walk(method)
        for target in _targets(node)
    )


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in _parts(target)]
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def real_asserts(nodes: Iterable[ast.AST]) -> list[ast.Assert]:
    """Returns the asserts that state an invariant, not those that only narrow a type."""
    return [node for node in nodes if isinstance(node, ast.Assert) and not _only_narrows(node.test)]


def _only_narrows(test: ast.expr) -> bool:
    if isinstance(test, ast.Call):
        return name_of(test.func) == "isinstance"
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Is | ast.IsNot)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )
