"""A length of 2**63 or more, or of a larger sum, ends a walk in both forms.

Compiled, integers wrap, and a length that became negative would lead backwards for ever. No
signal or thread of Python's gets hold of such a loop, so it runs in a process that is killed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq import native

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_S: Final = 60
"""It takes a second; what hangs is at the other end of that."""


def outcomes(*, pure: bool) -> dict[str, Any]:
    """Returns what the program of `lengths` tells in one form; it fails when it takes too long."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.native.lengths"],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "broker"),
            native.PURE_VARIABLE: str(int(pure)),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_sources_come_to_an_end_and_refuse_what_is_too_long() -> None:
    told = outcomes(pure=True)
    assert told["form"].startswith("sources")
    assert len(told["outcomes"]) > 2_000


@pytest.mark.skipif(bool(native.why_not_compiled()), reason="nothing is compiled")
def test_the_compiled_modules_come_to_the_same() -> None:
    told = outcomes(pure=False)
    assert told["form"] == "compiled"
    assert told["outcomes"] == outcomes(pure=True)["outcomes"]
