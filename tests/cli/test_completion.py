"""Each shell gets a script it can read, and a hint where to put it."""

import shutil
import subprocess

import pytest

from pocketmq.cli.completion import SHELLS, script
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
    done = subprocess.run([shell, "-n"], input=script(shell), text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", list(SHELLS))
def test_the_hint_changes_nothing_and_names_the_file(shell: str) -> None:
    out = run("completion", shell, "--install").out
    assert SHELLS[shell][1] in out
    assert "Add this line to ~/" in out


def test_what_is_printed_is_the_script() -> None:
    assert run("completion", "bash").out == script("bash") + "\n"
