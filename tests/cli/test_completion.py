"""Each shell gets a script it can read, and a hint where to put it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.cli.completion import SHELLS, ZSH_GUARD, own_name, script
from tests.cli.command_line import run


@pytest.mark.parametrize("shell", list(SHELLS))
def test_a_script_names_the_program_and_its_variable(shell: str) -> None:
    text = script(shell)
    assert "pocketmq" in text
    assert "_POCKETMQ_COMPLETE" in text


@pytest.mark.parametrize("shell", list(SHELLS))
def test_the_shell_can_read_it(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing")
    for text in (script(shell), script(shell, "'/some where/pocketmq'")):
        done = subprocess.run([shell, "-n"], input=text, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", list(SHELLS))
def test_the_hint_changes_nothing_and_names_the_file(shell: str) -> None:
    out = run("completion", shell, "--install").out
    assert SHELLS[shell][1] in out
    assert "Add this line to ~/" in out


def test_what_is_printed_is_the_script() -> None:
    assert run("completion", "bash").out == script("bash") + "\n"


def test_a_program_outside_the_path_is_called_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _program(tmp_path / "a clone")
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert own_name() == f"'{program}'"
    assert f"eval \"$('{program}' completion bash)\"" in run("completion", "bash", "--install").out
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_name() == "pocketmq"


def test_another_pocketmq_of_the_path_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, own = _program(tmp_path / "other"), _program(tmp_path / "own")
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", str(other.parent))
    assert own_name() == str(own)


def test_an_alias_is_completed(tmp_path: Path) -> None:
    """The first lines of the README make an alias, which `env` does not find."""
    program = _program(tmp_path / "clone")
    asks = (
        script("bash", str(program)),
        "COMP_WORDS=(pocketmq gro) COMP_CWORD=1",
        "_pocketmq_completion pocketmq",
        "echo ${COMPREPLY[0]}",
    )
    done = subprocess.run(
        ["bash", "--norc"], input="\n".join(asks), text=True, capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("group\n", "")


@pytest.mark.parametrize("shell", list(SHELLS))
def test_each_shell_calls_the_path(shell: str) -> None:
    text = script(shell, "/clone/.venv/bin/pocketmq")
    assert text.count("/clone/.venv/bin/pocketmq") == 1
    assert ZSH_GUARD not in text
    assert (ZSH_GUARD in script(shell)) == (shell == "zsh")


def _program(directory: Path) -> Path:
    """Makes a program that answers each request for completions with `group`."""
    directory.mkdir()
    program = directory / "pocketmq"
    program.write_text("#!/bin/sh\necho plain,group\n")
    program.chmod(0o755)
    return program
