"""scripts/mutate finds the edits that no test notices, and those that no test even executes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mutation.nearest import nearest_tests
from mutation.operators import Module, Mutant
from mutation.package import chosen

ROOT = Path(__file__).resolve().parents[2]

TOY = '''\
"""A toy."""
import logging

MOST = 10
LIMIT = MOST
logger = logging.getLogger(__name__)


class Meter:
    __slots__ = ("total", "calls")

    def __init__(self) -> None:
        self.total = 0
        self.calls = 0

    def add(self, amount: int) -> bool:
        """Take more, at most 10."""
        if amount < 0:
            raise ValueError(f"{amount} is below 0")
        assert amount >= 0
        self.calls += 1
        logger.info("added %d", 1)
        if self.total + amount > LIMIT:
            return False
        self.total += amount
        return True

    def forget(self) -> None:
        self.total = 0
'''

REWRITING = 'import pytest\n\npytest.register_assert_rewrite("pocketmq")\n'
"""As pytest does by itself with a package that has a plugin of it."""

TOY_TEST = """\
import pytest
from pocketmq.toy.meter import Meter


def test_the_limit_can_be_reached_and_not_passed() -> None:
    meter = Meter()
    assert meter.add(10)
    assert meter.total == 10
    assert not meter.add(2)
    assert meter.total == 10


def test_nothing_may_be_taken() -> None:
    meter = Meter()
    assert meter.add(0)
    with pytest.raises(ValueError):
        meter.add(-1)
"""


def edits(text: str) -> list[tuple[str, str, str]]:
    """Returns (operator, before, after) of the mutants of a text."""
    mutants = Module("m.py", text.encode()).mutants()
    return [(mutant.operator, mutant.before, mutant.after) for mutant in mutants]


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("def f(a, b): return a < b", ("comparison", "<", "<=")),
        ("def f(a, b): return (a) == (b)", ("comparison", "==", "!=")),
        ("def f(a, b): return a not in b", ("comparison", "not in", "in")),
        ("def f(a, b): return a is not b", ("comparison", "is not", "is")),
        ("def f(a, b): return a and b", ("logic", "and", "or")),
        ("def f(a): return not a", ("logic", "not", "")),
        ("def f(a): return a + 7", ("boundary", "7", "8")),
        ("def f(a): return a + 7", ("boundary", "7", "6")),
        ("def f(): return True", ("constant", "True", "False")),
        ("def f(a): a.b()", ("statement", "a.b()", "pass")),
        ("def f(a): a.b = a", ("statement", "a.b = a", "pass")),
        ("def f(a): a[a] = a", ("statement", "a[a] = a", "pass")),
        ("def f(a): a += a", ("statement", "a += a", "pass")),
        ("def f(a): raise a", ("statement", "raise a", "pass")),
        ("async def f(a): await a.durable()", ("await", "await a.durable()", "pass")),
        (
            "def f(a):\n    a(\n        b,\n    )",
            ("statement", "a(\n        b,\n    )", "pass\n\n"),
        ),
    ],
)
def test_an_edit_is_found(text: str, edit: tuple[str, str, str]) -> None:
    assert edit in edits(text)


@pytest.mark.parametrize(
    "text",
    [
        'def f(a):\n    """Takes 7."""',
        "def f(a): assert a < 7",
        'def f(a): logger.warning("a is %d", 7 + a)',
        "class A:\n    __slots__ = (1,)",
        "def f(a: Literal[7]) -> Annotated[int, 8]: return a",
        "def f(self): self.check()\ndef check(self): assert self.a < 7",
        "class A(IntEnum):\n    FIRST = 1",
        "@decorated(7)\ndef f(a): return a",
        'class A:\n    def __repr__(self): return "a" * 7',
        'def f(a): return f"{a + 7}"',
    ],
)
def test_what_no_behaviour_depends_on_is_left_alone(text: str) -> None:
    assert not edits(text)


def test_of_what_is_raised_only_the_raising_is_dropped() -> None:
    assert edits("def f(a): raise Wrong(a + 7)") == [("statement", "raise Wrong(a + 7)", "pass")]


def test_a_mutant_moves_no_other_line() -> None:
    text = b"def f(a):\n    a.b(\n        1,\n    )\n    return 2\n"
    for mutant in Module("m.py", text).mutants():
        assert mutant.applied_to(text).count(b"\n") == text.count(b"\n")


def test_a_sample_is_spread_evenly_and_the_same_for_a_seed() -> None:
    every = [Mutant("m.py", line, "boundary", "1", "2", line) for line in range(1, 101)]
    sample = chosen(every, 10, Random(7))
    assert [mutant.line // 10 for mutant in sample] == [
        (mutant.line - 1) // 10 if mutant.line % 10 == 0 else mutant.line // 10 for mutant in sample
    ]
    assert len({(mutant.line - 1) // 10 for mutant in sample}) == 10
    assert sample == chosen(every, 10, Random(7))
    assert chosen(every, 0, Random(7)) == every


def test_what_runs_at_import_is_led_to_by_all_that_is_made_of_it() -> None:
    text = b"A = 1\nB = {A: 2}\nC = 3\ndef f(b=C):\n    return b + B[1]\n"
    module = Module("m.py", text)
    names = module.made_of(frozenset("A"))
    assert names == {"A", "B"}
    assert module.reading_lines(names) == {5}


def test_tests_are_near_by_their_folder_or_by_what_they_import() -> None:
    near = nearest_tests(ROOT, "services/delay")
    assert "tests/services/test_timer_clocks.py" in near
    assert "tests/wire/test_hpack.py" not in near
    assert not [path for path in near if path.startswith("tests/e2e/")]


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A project of one module and two tests, whose asserts pytest rewrites, as for a plugin's."""
    files = {
        "broker/pocketmq/__init__.py": "",
        "broker/pocketmq/toy/__init__.py": "",
        "broker/pocketmq/toy/meter.py": TOY,
        "tests/conftest.py": "import pytest\n\npytest.register_assert_rewrite('pocketmq')\n",
        "tests/toy/test_meter.py": TOY_TEST,
        "conftest.py": REWRITING,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def mutate(root: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    """Runs the program on a project; returns what it prints and its document."""
    report = root / "report.json"
    command = [sys.executable, "-m", "mutation.run", "toy", "--root", str(root)]
    done = subprocess.run(
        [*command, "--json", str(report), *options],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": f"{root}:{root / 'broker'}:{ROOT / 'scripts'}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(report.read_text())


def test_survivors_are_told_from_killed_and_from_unreached(toy: Path) -> None:
    printed, rows = mutate(toy)
    verdicts = {(row["line"], row["after"]): row for row in rows}

    killed = {key for key, row in verdicts.items() if not row["survived"]}
    assert (23, ">=") in killed  # the limit can be reached
    assert (4, "9") in killed  # imported with another limit
    assert (25, "pass") in killed
    assert (19, "pass") in killed
    survived = {key: row["tests"] for key, row in verdicts.items() if row["survived"]}
    assert survived[4, "11"] == 2  # no test takes 11
    assert survived[21, "pass"] == 2  # calls are counted and never looked at
    assert survived[29, "pass"] == 0
    assert "broker/pocketmq/toy/meter.py:21  statement  self.calls += 1  →  pass\n" in printed
    assert (
        "broker/pocketmq/toy/meter.py:29  statement  self.total = 0  →  pass  (not reached)"
        in printed
    )
    assert verdicts[23, ">="]["killed_by"].endswith("test_the_limit_can_be_reached_and_not_passed")
    assert (toy / "broker/pocketmq/toy/meter.py").read_text() == TOY


def test_a_test_that_comes_to_no_end_kills(toy: Path) -> None:
    (toy / "broker/pocketmq/toy/meter.py").write_text(
        "def down(n):\n    while n:\n        n -= 1\n    return n\n"
    )
    (toy / "tests/toy/test_meter.py").write_text(
        "from pocketmq.toy.meter import down\ndef test_it(): assert down(3) == 0\n"
    )
    _, rows = mutate(toy, "--workers", "1")
    assert {row["after"]: row["killed_by"] for row in rows}["pass"] == "a limit"


def test_a_failing_test_is_left_out(toy: Path) -> None:
    with (toy / "tests/toy/test_meter.py").open("a") as test:
        test.write("def test_fails() -> None:\n    assert not Meter().add(0)\n")
    _, rows = mutate(toy, "--count", "5")
    assert len(rows) == 5
    assert not [row for row in rows if row["killed_by"].endswith("test_fails")]
