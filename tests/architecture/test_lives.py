"""The page *the lives* names modules, classes, methods and functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "broker" / "pocketmq"
PAGE = ROOT / "docs" / "explained" / "lives.md"
HOP = re.compile(r"`([a-z_0-9/]+\.py)` · `([A-Za-z_]\w*)(?:\.([a-z_]\w*))?`")
FORM = re.compile(r"`([A-Z]\w+|[a-z]+)`")
HOPS = HOP.findall(PAGE.read_text("utf-8"))
HOPS_MIN = 50
MODULES_OF_A_FAST_SEND_MAX = 13


@cache
def definitions(module: str) -> dict[str, set[str]]:
    """Returns the names defined at the top of a module, each with those defined in it."""
    found: dict[str, set[str]] = {}
    for node in ast.parse((SOURCE / module).read_text("utf-8")).body:
        match node:
            case ast.ClassDef():
                inner = (ast.FunctionDef, ast.AsyncFunctionDef)
                found[node.name] = {one.name for one in node.body if isinstance(one, inner)}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found[node.name] = set()
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = set()
    return found


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: ":".join(filter(None, hop)))
def test_a_hop_exists(hop: tuple[str, str, str]) -> None:
    module, name, inner = hop
    assert (SOURCE / module).exists()
    assert name in definitions(module)
    assert not inner or inner in definitions(module)[name]


def test_every_row_names_a_hop() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    hops = [row for row in rows if not row.startswith(("| hop ", "|---"))]
    assert [row for row in hops if not HOP.search(row)] == []
    assert len(hops) >= HOPS_MIN


def test_forms_are_types_of_the_code() -> None:
    text = "\n".join(path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py")))
    known = set(re.findall(r"^\s*class (\w+)|^(\w+)(?:: Final.*)? = ", text, re.MULTILINE))
    names = {one for pair in known for one in pair}
    forms = {
        form
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ")
        for form in FORM.findall(line.rsplit("|", 2)[1])
        if form[0].isupper()
    }
    assert sorted(forms - names) == []


def test_a_send_takes_few_modules() -> None:
    fast = PAGE.read_text("utf-8").partition("## A v2 send on the fast path")[2].partition("## ")[0]
    assert len({module for module, *_ in HOP.findall(fast)}) <= MODULES_OF_A_FAST_SEND_MAX
