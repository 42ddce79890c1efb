"""scripts/test --changed runs the tests that lead to a change, and says which way."""

import subprocess
from pathlib import Path

import pytest

import choose_tests
from choose_tests import ROOT, chosen
from tidy_source import Project, Source

PROJECT = Project(
    [
        Source("broker/pocketmq/__init__.py", ""),
        Source("broker/pocketmq/__main__.py", "from pocketmq.cli import main"),
        Source("broker/pocketmq/cli.py", "PLACE = 'pocketmq.tools.dump'"),
        Source("broker/pocketmq/tools/dump.py", "from pocketmq.format import record"),
        Source("broker/pocketmq/format/record.py", ""),
        Source("scripts/torture/kill.py", "import pocketmq.cli"),
        Source("broker/pocketmq/__init__.py", "from pocketmq import native"),
        Source("broker/pocketmq/native/__init__.py", "COMPILED = ('pocketmq.format.record',)"),
        Source("tests/conftest.py", "import tests.golden_stores"),
        Source("tests/golden_stores.py", ""),
        Source("tests/kit/daemon.py", 'command = [python, "-m", "pocketmq"]'),
        Source("tests/store/conftest.py", "from tests.kit import pages"),
        Source("tests/kit/pages.py", ""),
        Source("tests/architecture/test_tidy.py", ""),
        Source(
            "tests/e2e/test_serve.py",
            "from tests.kit.daemon import command\nx = 'scripts', \"serve\"",
        ),
        Source(
            "tests/format/test_record.py", "from pocketmq.format.record import x  # see notes.md"
        ),
        Source("tests/store/test_put.py", "def test(golden): ..."),
        Source("tests/tools/test_kill.py", "from torture.kill import torture"),
    ]
)
TIDY = "tests/architecture/test_tidy.py"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            "broker/pocketmq/format/record.py",
            {"e2e/test_serve", "format/test_record", "tools/test_kill"},
        ),
        ("broker/pocketmq/tools/dump.py", {"e2e/test_serve", "tools/test_kill"}),
        ("broker/pocketmq/__main__.py", {"e2e/test_serve"}),
        ("scripts/torture/kill.py", {"tools/test_kill"}),
        ("tests/kit/pages.py", {"store/test_put"}),
        ("tests/store/test_put.py", {"store/test_put"}),
        ("tests/golden/basic.tar.gz", {"store/test_put"}),
        ("docs/notes.md", {"format/test_record"}),
        ("scripts/test", set()),
        ("scripts/serve", {"e2e/test_serve"}),
        ("broker/pocketmq/format/removed.py", set()),
    ],
)
def test_what_leads_to_a_change_is_chosen(changed: str, expected: set[str]) -> None:
    found = chosen(PROJECT, [changed])
    assert found.keys() == {f"tests/{name}.py" for name in expected} | {TIDY}


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py"])
def test_what_holds_for_all_touches_everything(changed: str) -> None:
    assert len(chosen(PROJECT, [changed])) == 5


def test_the_way_to_the_change_is_shown() -> None:
    assert chosen(PROJECT, ["broker/pocketmq/format/record.py"])["tests/tools/test_kill.py"] == (
        "tests/tools/test_kill.py > scripts/torture/kill.py > broker/pocketmq/cli.py"
        " > broker/pocketmq/tools/dump.py > broker/pocketmq/format/record.py was changed"
    )


def test_what_is_not_committed_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_tests, "ROOT", tmp_path)
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True)

    git("init", "-q")
    for name in ("same.py", "other.py"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("checkout", "-q", "-b", "work")
    (tmp_path / "committed.py").write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "second")
    (tmp_path / "other.py").write_text("2")
    (tmp_path / "new.py").write_text("1")
    assert choose_tests.changed_files("main") == ["committed.py", "new.py", "other.py"]
    assert choose_tests.main(["nowhere"]) == 2


def test_the_help_says_what_is_chosen() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "test", "--help"], capture_output=True, text=True, check=True
    )
    assert "scripts/test --changed [BASE]" in done.stdout
