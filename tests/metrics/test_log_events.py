"""Every log call of the broker names an event of the table, at its level, with its fields."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "reference" / "log-events.md"
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
EVENT = re.compile(r"[a-z_]+\.[a-z_]+")
BODIES = {"body", "bodies", "message", "content", "properties", "record", "records", "raw"}


class Line(NamedTuple):
    """A log call, or a row of the table."""

    event: str
    level: str
    fields: frozenset[str]


def constants(node: ast.expr, names: dict[str, ast.expr]) -> list[str]:
    """Returns the texts an expression can be; none when that cannot be told."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.IfExp():
            return [*constants(node.body, names), *constants(node.orelse, names)]
        case ast.Name() if node.id in names:
            return constants(names[node.id], {})
    return []


def fields(call: ast.Call) -> frozenset[str]:
    for keyword in call.keywords:
        if keyword.arg == "extra":
            assert isinstance(keyword.value, ast.Dict), ast.unparse(call)
            return frozenset(ast.literal_eval(key) for key in keyword.value.keys if key)
    return frozenset()


def log_calls() -> Iterator[tuple[str, Line]]:
    """Yields (where, what) of every log call in broker/."""
    for path in sorted((ROOT / "broker").rglob("*.py")):
        text = path.read_text("utf-8")
        if "logger." not in text:
            continue
        tree = ast.parse(text)
        names = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr=level)):
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    assert level in LEVELS, where
                    shown = "error" if level == "exception" else level
                    events = constants(node.args[0], names)
                    assert events, f"{where}: the event is not told by the code"
                    for event in events:
                        yield where, Line(event, shown, fields(node))


def rows() -> list[Line]:
    """Returns the table's rows."""
    found = []
    for line in TABLE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and "." in cells[0]:
            names = frozenset() if cells[2] == "–" else frozenset(cells[2].split(", "))
            found.append(Line(cells[0], cells[1], names))
    return found


def test_every_event_is_a_noun_and_a_verb() -> None:
    for where, line in log_calls():
        assert EVENT.fullmatch(line.event), where


def test_no_body_is_ever_told() -> None:
    for where, line in log_calls():
        assert not line.fields & BODIES, where


def test_the_table_is_the_code() -> None:
    places = {line: where for where, line in log_calls()}
    assert [(places[line], line) for line in places.keys() - set(rows())] == []
    assert [line for line in rows() if line not in places] == []


def test_the_table_is_sorted_and_names_an_event_once() -> None:
    events = [line.event for line in rows()]
    assert events == sorted(set(events))


@pytest.mark.parametrize(
    ("code", "texts"),
    [('"a.b"', ["a.b"]), ('"a.b" if x else "a.c"', ["a.b", "a.c"]), ("name", []), ("f'a.{x}'", [])],
)
def test_what_an_event_can_be_is_read_from_the_code(code: str, texts: list[str]) -> None:
    assert constants(ast.parse(code, mode="eval").body, {}) == texts
