"""The compiled form of a module runs where it fits its source, and nowhere else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq import native
from pocketmq.native import probe

ROOT = Path(__file__).resolve().parents[2]
WHERE = "import pocketmq.native.probe as module; print(module.__file__)"


def python(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "broker"), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_every_module_that_is_compiled_is_there() -> None:
    assert [
        name for name in native.COMPILED if not (native.ROOT / native.source_of(name)).exists()
    ] == []


def test_the_sources_run_where_they_are_asked_for() -> None:
    done = python(WHERE, POCKETMQ_PURE="1")
    assert done.stdout.strip().endswith("/probe.py")
    assert done.stderr == ""


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree whose sources are as they were compiled; returns its root."""
    built = tmp_path / "built"
    built.mkdir()
    for name in native.COMPILED:
        source = tmp_path / native.source_of(name)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"name = {name!r}\n")
        (built / f"{name}{native.SUFFIX}").touch()
    monkeypatch.setattr(native, "ROOT", tmp_path)
    monkeypatch.setattr(native, "BUILT", built)
    monkeypatch.setattr(native, "SOURCES", built / "sources")
    monkeypatch.delenv(native.PURE_VARIABLE, raising=False)
    paths = map(native.source_of, native.COMPILED)
    rows = [f"{native.digest_of(path)}  {path}\n" for path in paths]
    native.SOURCES.write_text("".join(rows))
    native.why_not_compiled.cache_clear()
    yield tmp_path
    native.why_not_compiled.cache_clear()


def test_what_was_compiled_from_these_sources_is_not_stale(compiled: Path) -> None:
    assert native.stale() == ""


def test_an_edited_source_stops_all_of_it_with_one_line(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = native.source_of(native.COMPILED[-1])
    (compiled / path).write_text("edited = True\n")
    for name in native.COMPILED:
        assert native.CompiledModules().find_spec(name) is None
    assert native.why_not_compiled() == f"{path} is not what was compiled"
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert path in said


def test_a_source_that_is_gone_or_was_never_compiled_is_stale(compiled: Path) -> None:
    path = native.source_of(native.COMPILED[0])
    (compiled / path).unlink()
    assert native.stale() == path
    native.SOURCES.write_text("")
    assert native.stale() == path


def test_a_library_that_does_not_load_leaves_the_sources(compiled: Path) -> None:
    assert native.why_not_compiled().startswith("the library does not load (")
    assert native.CompiledModules().find_spec(native.PROBE) is None


def test_without_a_library_the_sources_run_and_nothing_is_said(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native.SOURCES.unlink()
    assert native.why_not_compiled() == "not compiled"
    assert native.CompiledModules().find_spec(native.COMPILED[0]) is None
    assert capsys.readouterr().err == ""


def test_the_form_is_told_with_its_reason(compiled: Path) -> None:
    native.SOURCES.unlink()
    assert native.form() == "sources (not compiled)"
    assert native.running() == ()


def test_other_modules_are_none_of_its_business() -> None:
    assert native.CompiledModules().find_spec("pocketmq.model.message") is None


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_the_probe_gives_back_what_it_gets(number: int) -> None:
    assert probe.echo(number) == number


def test_a_module_that_is_compiled_no_more_makes_the_others_stale(compiled: Path) -> None:
    (native.BUILT / f"pocketmq.model.gone{native.SUFFIX}").touch()
    assert native.stale() == native.source_of("pocketmq.model.gone")
    assert native.why_not_compiled() != ""
