"""Code that mypyc compiles wrongly and no other check finds: a compiled broker would not start."""

import ast
from pathlib import Path

import pytest

from pocketmq.native import COMPILED, ROOT


def untyped_floats(source: str) -> list[str]:
    """Returns constants that are tuples of floats and whose type is not written out.

    mypyc 2.4 takes them for unset: reading one raises NameError.
    """
    found = []
    for node in ast.parse(source).body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Tuple)):
            continue
        is_bare = isinstance(node.annotation, ast.Name) and node.annotation.id == "Final"
        values = [one.value for one in node.value.elts if isinstance(one, ast.Constant)]
        if is_bare and any(isinstance(value, float) for value in values):
            found.append(ast.unparse(node.target))
    return found


def test_what_the_check_finds() -> None:
    typed = "B: Final[tuple[float, ...]] = (1.0, 2.0)\nC: Final = (1, 2)\nD: Final = 1.5"
    assert untyped_floats(f"A: Final = (1.0, 2.0)\n{typed}") == ["A"]


@pytest.mark.parametrize("name", COMPILED)
def test_tuples_of_floats_have_their_type_written_out(name: str) -> None:
    place = Path(ROOT, *name.split("."))
    path = place.with_suffix(".py")
    source = (path if path.exists() else place / "__init__.py").read_text("utf-8")
    assert untyped_floats(source) == []
