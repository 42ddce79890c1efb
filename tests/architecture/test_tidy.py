"""Each house rule finds what it is for, where it is, and nothing beside it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import tidy
from tidy_source import Finding, Project, Source, read_project, too_deep

ROOT = Path(__file__).resolve().parents[2]
MODULE = "broker/pocketmq/log/commit_log.py"


def source(text: str, path: str = MODULE) -> Source:
    """A module out of an indented snippet, whose first line is line 1."""
    return Source(path, dedent(text).removeprefix("\n"))


def lines(findings: Iterator[Finding]) -> list[int]:
    return [finding.line for finding in findings]


# A rule, a snippet, the lines it finds, and, where it matters, the module's path.
SNIPPETS: list[tuple[Callable[[Source], Iterator[Finding]], str, list[int], str]] = [
    (tidy.module_length, "x = 1\n" * 600, [], MODULE),
    (tidy.module_length, "x = 1\n" * 601, [1], MODULE),
    (tidy.function_length, "def f():\n" + "    x = 1\n" * 59, [], MODULE),
    (tidy.function_length, "y = 1\n\n\ndef f():\n" + "    x = 1\n" * 60, [4], MODULE),
    (
        tidy.function_length,
        "class C:\n    async def f(self):\n" + "        x = 1\n" * 60,
        [2],
        MODULE,
    ),
    (
        tidy.nesting,
        """
        def f(a):
            for b in a:
                while b:
                    if b:
                        return
                    elif a:
                        return
                    else:
                        with a:
                            return
        """,
        [],
        MODULE,
    ),
    (
        tidy.nesting,
        """
        def f(a):
            for b in a:
                try:
                    while b:
                        if b:
                            return
                        else:
                            if a:
                                for c in a:
                                    pass
                finally:
                    pass
        """,
        [8],
        MODULE,
    ),
    (
        tidy.nesting,
        """
        def f(a):
            if a:
                for b in a:
                    if b:
                        def g():
                            if a:
                                pass
        """,
        [],
        MODULE,
    ),
    (tidy.function_names, "def get_x(): ...\ndef _do_it(): ...\ndef getter(): ...", [1, 2], MODULE),
    (tidy.function_names, "def handle_x(): ...\ndef process_x(): ...\nget_y = 1", [1, 2], MODULE),
    (tidy.module_names, "", [1], "broker/pocketmq/store/utils.py"),
    (tidy.module_names, "", [1], "broker/pocketmq/core/reader.py"),
    (tidy.module_names, "", [], "broker/pocketmq/store/corelation.py"),
    (tidy.flattery, '"""A simple log."""\nx = 1  # Obviously.\ny = "just"', [1, 2], MODULE),
    (tidy.flattery, '"""Adjusts SimpleConsumer."""', [], MODULE),
    (
        tidy.flattery,
        """
        def f():
            '''Append.

            It is robust.
            '''
        """,
        [4],
        MODULE,
    ),
    (
        tidy.bare_offset,
        "def f(offset): ...\ndef g(*, offset=0): ...\ndef h(a_offset): ...",
        [1, 2],
        MODULE,
    ),
    (tidy.bare_offset, "def f(offset): ...", [], "broker/pocketmq/rpc/v1/messaging.py"),
    (tidy.bare_offset, "def f(offset): ...", [], "broker/pocketmq/cli/consume.py"),
    (tidy.docstrings, "x = 1", [1], MODULE),
    (tidy.docstrings, '"""A sentence."""\nclass C: ...\ndef f(): ...', [2, 3], MODULE),
    (
        tidy.docstrings,
        '"""A sentence."""\nclass _C:\n    def f(self): ...\ndef _f(): ...',
        [],
        MODULE,
    ),
    (tidy.docstrings, '"""No sentence"""\ndef f():\n    "Leads on:"', [1], MODULE),
    (
        tidy.docstrings,
        """
        '''A module.'''
        class C:
            '''A class.'''
            def __len__(self): ...
            def f(self): ...
            @f.setter
            def f(self): ...
            @override
            def g(self): ...
        """,
        [5],
        MODULE,
    ),
    (tidy.async_below_store, "async def f():\n    await g()", [1, 2], MODULE),
    (tidy.async_below_store, "async def f(): ...", [1], "broker/pocketmq/format/record.py"),
    (tidy.async_below_store, "async def f(): ...", [], "broker/pocketmq/store/read/reading.py"),
    (
        tidy.bare_tasks,
        "asyncio.create_task(f())\ncreate_task(f())",
        [1, 2],
        "broker/pocketmq/rpc/server.py",
    ),
    (
        tidy.bare_tasks,
        "asyncio.get_running_loop().create_task(f())",
        [1],
        "broker/pocketmq/rpc/server.py",
    ),
    (tidy.bare_tasks, "group.create_task(f())", [], "broker/pocketmq/rpc/server.py"),
    (tidy.bare_tasks, "asyncio.create_task(f())", [1], "broker/pocketmq/services/retention.py"),
    (tidy.bare_tasks, "asyncio.create_task(f())", [], "broker/pocketmq/store/durability.py"),
    (tidy.bare_tasks, "asyncio.create_task(f())", [], "broker/pocketmq/app/serve.py"),
    (
        tidy.map_flush,
        "import mmap\nself._map.flush()\nview.flush()",
        [2],
        "broker/pocketmq/files/disk.py",
    ),
    (tidy.map_flush, "import mmap\nmapped.flush(0, 4096)", [2], "broker/pocketmq/files/disk.py"),
    (tidy.map_flush, "self._map.flush()", [], MODULE),
    (tidy.single_asserts, "assert a and b\nassert 0 <= a < b\nassert a or b", [1, 3], MODULE),
    (tidy.leftovers, "x = 1  # TODO: later\ny = 'TODO'  # FIXME", [1, 2], MODULE),
    (tidy.leftovers, "x = 1  # TODO", [1], "tests/log/test_commit_log.py"),
    (tidy.sleeping_tests, "time.sleep(1)\nawait sleep(0.1)", [1, 2], "tests/store/test_reader.py"),
    (tidy.sleeping_tests, "await asyncio.sleep(0)", [], "tests/store/test_reader.py"),
    (tidy.sleeping_tests, "time.sleep(1)", [], "tests/e2e/test_serve.py"),
    (tidy.sleeping_tests, "time.sleep(1)", [], "tests/faults/test_kill.py"),
    (tidy.sleeping_tests, "time.sleep(1)", [], MODULE),
]


@pytest.mark.parametrize(
    ("rule", "text", "expected", "path"),
    SNIPPETS,
    ids=[f"{row[0].__name__}-{number}" for number, row in enumerate(SNIPPETS)],
)
def test_rule_of_one_module(
    rule: Callable[[Source], Iterator[Finding]], text: str, expected: list[int], path: str
) -> None:
    assert lines(rule(source(text, path))) == expected


def test_every_rule_of_one_module_has_a_snippet_it_finds_something_in() -> None:
    assert {row[0] for row in SNIPPETS if row[2]} == {*tidy.BROKER_RULES, *tidy.RULES}


def test_a_statement_too_deep_is_reported_once() -> None:
    nest = source("if a:\n    if b:\n        if c:\n            if d: ...\n            if e: ...")
    assert [getattr(node, "lineno", 0) for node in too_deep(nest.tree.body, 1)] == [2]
    assert [getattr(node, "lineno", 0) for node in too_deep(nest.tree.body, 3)] == [4, 5]


def test_a_hot_function_needs_a_bench_that_names_it() -> None:
    module = source("def scan():\n    'Walk. Hot: 90 ns.'\ndef scanner():\n    'Make.'")
    assert lines(tidy.hot_functions(Project([module], bench="scanner"))) == [1]
    assert not list(tidy.hot_functions(Project([module], bench="measure(scan)")))


def test_the_eleventh_hot_function_is_one_too_many() -> None:
    text = "".join(f"def f{number}():\n    'Hot: 1 ns.'\n" for number in range(11))
    bench = " ".join(f"f{number}" for number in range(11))
    assert lines(tidy.hot_functions(Project([source(text)], bench))) == [21]


def test_modules_that_lead_to_each_other_are_a_circle() -> None:
    project = Project(
        [
            Source("broker/pocketmq/log/__init__.py", ""),
            Source("broker/pocketmq/log/a.py", "from pocketmq.log import b"),
            Source("broker/pocketmq/log/b.py", "def f():\n    from ..files.c import x"),
            Source("broker/pocketmq/files/c.py", "import pocketmq.log.a\nimport os"),
            Source("broker/pocketmq/files/d.py", "from pocketmq.log.a import x"),
        ]
    )
    assert [finding.message for finding in tidy.circles(project)] == [
        (
            "imports go in a circle: broker/pocketmq/files/c.py, broker/pocketmq/log/a.py, "
            "broker/pocketmq/log/b.py"
        )
    ]


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        (tidy.unasserted, "class C:\n    def f(self):\n        self.a, b = 1, 2", [1]),
        (tidy.unasserted, "class C:\n    def f(self):\n        self.a += 1; assert self.a", []),
        (tidy.unasserted, "class C:\n    def f(self):\n        self.a = 1; assert a is b", []),
        (tidy.unasserted, "class C:\n    def f(self):\n        self.a = 1; assert a is None", [1]),
        (tidy.unasserted, "class C:\n    def __init__(self):\n        self.a = 1", []),
        (tidy.protocols, "class C(Protocol[T]): ...\nclass D(C): ...", [1]),
        (tidy.long_objects, "class C:\n" + "    x = 1\n" * 599, []),
        (
            tidy.long_objects,
            "from pocketmq.log.b import B\nclass A(B):\n" + "    x = 1\n" * 500 + "class C(A): ...",
            [2, 503],
        ),
        (tidy.large_importers, "".join(f"import pocketmq.log.m{n}\n" for n in range(12)), []),
        (tidy.large_importers, "".join(f"import pocketmq.log.m{n}\n" for n in range(13)), [1]),
        (tidy.untested, "x = 1", []),
    ],
)
def test_a_rule_that_not_all_keep_yet(
    rule: Callable[[Project], Iterator[Finding]], text: str, expected: list[int]
) -> None:
    others = [Source(f"broker/pocketmq/log/m{number}.py", "") for number in range(13)]
    base = Source("broker/pocketmq/log/b.py", "class B:\n" + "    x = 1\n" * 100)
    test = Source("tests/log/test_a.py", "from pocketmq.log import a, b")
    project = Project([source(text, "broker/pocketmq/log/a.py"), base, test, *others])
    assert [f.line for f in rule(project) if f.path == "broker/pocketmq/log/a.py"] == expected


def test_what_no_test_of_its_area_leads_to_is_untested() -> None:
    sources = [
        Source(
            "broker/pocketmq/log/a.py", "from pocketmq.log import b\nfrom pocketmq.files import c"
        ),
        *(
            Source(f"broker/pocketmq/{name}.py", "")
            for name in ("log/b", "files/c", "model/d", "model/e")
        ),
        Source("tests/log/test_a.py", "from pocketmq.log import a\nfrom pocketmq.model import d"),
    ]
    found = [finding.path for finding in tidy.untested(Project(sources))]
    assert found == ["broker/pocketmq/files/c.py", "broker/pocketmq/model/e.py"]


def test_no_more_may_break_a_rule_than_did(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project([source("class C(Protocol): ...\nclass D(Protocol): ...")])
    monkeypatch.setattr(tidy, "RATCHETS", {tidy.protocols: 2})
    assert tidy.ratcheted(project) == ([], "2 protocols")
    monkeypatch.setattr(tidy, "RATCHETS", {tidy.protocols: 1})
    worse, _ = tidy.ratcheted(project)
    assert worse[0].message == "2 protocols, there were 1"
    assert [finding.line for finding in worse[1:]] == [1, 2]


def test_there_are_never_fewer_asserts_than_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project([source("assert a\nassert b is not None\nassert isinstance(c, D)")])
    for least, count in ((1, 0), (2, 1)):
        monkeypatch.setattr(tidy, "REAL_ASSERTS_MIN", least)
        assert len([*tidy.asserts(project)]) == count


def test_the_beauty_line_counts_boxes_arrows_and_sizes() -> None:
    project = Project(
        [
            Source("broker/pocketmq/__init__.py", '"""Root."""\n'),
            Source("broker/pocketmq/log/__init__.py", '"""Log."""\n'),
            Source("broker/pocketmq/log/a.py", '"""A."""\nfrom pocketmq.files import b, c\n'),
            Source(
                "broker/pocketmq/files/b.py",
                "from pocketmq.files import c\ndef f():\n    return 1\n",
            ),
            Source("broker/pocketmq/files/c.py", '"""C."""\n'),
            Source("tests/log/test_a.py", "from pocketmq.log import a\n"),
        ]
    )
    assert tidy.beauty_line(project) == (
        "3 modules · 1 arrows · 0 circles · module p90 3"
        " · function p50 2 p90 2 max 2 · docstrings 66 % · asserts 0 · lines 8 + 1"
    )


def test_an_empty_project_has_a_beauty_line() -> None:
    assert tidy.beauty_line(Project([])).startswith("0 modules · 0 arrows · 0 circles")


def test_generated_modules_are_not_read(tmp_path: Path) -> None:
    for path in (
        "broker/pocketmq/rpc/pb/broker_pb2.py",
        "broker/pocketmq/rpc/server.py",
        "scripts/bench",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
    project = read_project(tmp_path)
    assert [source.path for source in project.sources] == ["broker/pocketmq/rpc/server.py"]
    assert project.bench == "x = 1\n"


def test_the_script_prints_findings_then_the_beauty_line_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "broker" / "pocketmq").mkdir(parents=True)
    (tmp_path / "broker" / "pocketmq" / "app.py").write_text('"""The app."""\n\nassert a and b\n')
    command = [sys.executable, str(ROOT / "scripts" / "tidy.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    *found, beauty, not_yet = done.stdout.splitlines()
    assert "broker/pocketmq/app.py:3 assert states more than one condition" in found
    assert beauty.startswith("1 modules · 0 arrows · 0 circles · module p90 3 · function p50 0")
    assert not_yet.startswith("not yet: 0 long objects · 0 large importers")
