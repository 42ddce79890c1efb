"""Files that scripts/compile counts as part of the library, and its report of missing tools."""

import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

import compile_modules
from pocketmq import native

ROOT = compile_modules.ROOT
TREE = {
    "pocketmq/a.py": "from pocketmq.b import LIMIT, shape\nimport struct\n",
    "pocketmq/b.py": "from pocketmq.c import LIMIT\nfrom pocketmq.d import other\n",
    "pocketmq/c.py": "LIMIT = 1\n",
    "pocketmq/d.py": "from pocketmq.e import far\n",
    "pocketmq/e.py": "",
    "pocketmq/f.py": (
        "import pocketmq.d\nfrom pocketmq import errors\nfrom pocketmq.errors import Full\n"
    ),
    "pocketmq/errors/__init__.py": "from pocketmq.errors.storage import *\n",
    "pocketmq/errors/storage.py": "class Full: ...\n",
}


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("pocketmq.a", "a b c"),
        ("pocketmq.c", "c"),
        ("pocketmq.f", "d errors/__init__ errors/storage f"),
    ],
)
def test_a_module_depends_on_what_it_imports_and_where_that_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, expected: str
) -> None:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(compile_modules, "SOURCE_ROOT", tmp_path)
    monkeypatch.setattr(native, "COMPILED", (module,))
    assert compile_modules.depends_on() == [f"pocketmq/{name}.py" for name in expected.split()]


def test_the_library_is_made_of_every_compiled_module() -> None:
    assert set(compile_modules.depends_on()) >= {*map(native.source_of, native.COMPILED)}


def test_every_compiled_module_has_a_test_that_runs_on_the_sources_too() -> None:
    tests = compile_modules.tests_by_module()
    assert "tests/native/test_native.py" in tests[native.PROBE]
    assert [name for name in native.COMPILED if not tests[name]] == []


def test_without_a_compiler_it_says_so_and_leaves_everything(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "compile_modules.py"), "--force"],
        env={**os.environ, "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == compile_modules.LACKING
    assert "no-such-compiler is not on the PATH" in done.stderr
    assert done.stderr.count("\n") == 1


def test_progress_of_a_compiler_step_appears_and_other_words_are_kept_for_a_failure() -> None:
    shown = StringIO()
    code = "print('compile: 1 of 2\\nwarning'); import sys; sys.exit('compile failed')"
    done = compile_modules.followed(["-c", code], shown)
    assert shown.getvalue() == "compile: 1 of 2\n"
    assert sorted(done[1].splitlines()) == ["compile failed", "warning"]
    assert done[0] == 1


def test_what_is_up_to_date_is_left_to_a_user_who_may_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pocketmq" / "native").mkdir(parents=True)
    (tmp_path / "pocketmq" / "a.py").write_text("")
    built = tmp_path / "pocketmq" / "native" / "built"
    built.mkdir()
    monkeypatch.setattr(native, "ROOT", tmp_path)
    monkeypatch.setattr(native, "BUILT", built)
    monkeypatch.setattr(native, "SOURCES", built / "sources")
    monkeypatch.setattr(native, "COMPILED", ("pocketmq.a",))
    monkeypatch.setattr(sys, "argv", ["scripts/compile"])
    monkeypatch.setenv(native.PURE_VARIABLE, "1")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as root may write everywhere
    monkeypatch.setattr(compile_modules, "PROOF", "")
    assert compile_modules.main() == compile_modules.LACKING
    (built / f"pocketmq.a{native.SUFFIX}").touch()
    native.SOURCES.write_text(f"{native.digest_of('pocketmq/a.py')}  pocketmq/a.py\n")
    assert compile_modules.main() == 0
    monkeypatch.setattr(compile_modules, "PROOF", "import sys; sys.exit('it does not load')")
    assert compile_modules.main() == compile_modules.LACKING
    assert not (built / ".lock").exists()


PYTHON = """\
#!/bin/sh
# Stands for the Python of a virtual environment: says what it is asked to compile.
case "$*" in
  "scripts/compile_modules.py --check") exit CODE ;;
  scripts/compile_modules.py*) echo "compiles at $(nice)" > compiled ;;
esac
"""


def set_up(root: Path, check_code: int) -> subprocess.CompletedProcess[str]:
    """Runs `scripts/setup --serve` in a copy of the project whose Python is a shell script."""
    for name in ("scripts/setup", "pyproject.toml", "requirements.lock"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    python = root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON.replace("CODE", str(check_code)))
    python.chmod(0o755)
    os.mkfifo(root / "compiled")
    return subprocess.run(
        [root / "scripts" / "setup", "--serve"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip


def test_a_first_start_goes_on_while_the_modules_are_compiled_at_low_priority(
    tmp_path: Path,
) -> None:
    done = set_up(tmp_path, compile_modules.DUE)
    # The compiler still waits here for a reader: setup did not wait for the compiler.
    assert "compiling behind" in done.stderr
    assert (tmp_path / "compiled").read_text() == "compiles at 19\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, ""),
        (compile_modules.LACKING, "uncompiled"),
        (compile_modules.UNDER_WAY, "still compiling behind: this start runs the sources, too"),
    ],
)
def test_a_start_compiles_nothing_where_nothing_is_due_or_can_be(
    tmp_path: Path, code: int, said: str
) -> None:
    done = set_up(tmp_path, code)
    assert said in done.stderr
    assert "setup: compiling behind" not in done.stderr
    assert not (tmp_path / ".cache" / "compile.log").exists()


def test_a_check_says_whether_there_is_work_and_does_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["compile", "--check"])
    monkeypatch.setattr(compile_modules, "_compile", None)
    for is_due, code in ((True, compile_modules.DUE), (False, 0)):
        monkeypatch.setattr(compile_modules, "_is_due", lambda is_due=is_due: is_due)
        assert compile_modules.main() == code


def test_a_check_says_that_another_process_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["compile", "--check"])
    monkeypatch.setattr(compile_modules, "_is_due", lambda: True)
    monkeypatch.setattr(native, "BUILT", tmp_path)
    assert compile_modules.main() == compile_modules.DUE
    with compile_modules._alone():
        assert compile_modules.main() == compile_modules.UNDER_WAY
    assert compile_modules.main() == compile_modules.DUE


def test_the_proof_of_a_library_finds_the_packages_of_an_isolated_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_of_the_build.py").write_text("")
    monkeypatch.setattr(compile_modules, "PROOF", "import only_of_the_build")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "only_of_the_build" in compile_modules._fault()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert compile_modules._fault() == ""
