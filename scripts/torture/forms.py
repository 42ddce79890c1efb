"""Sends and pulls over a socket: compiled modules, sources and grpcio answer byte for byte alike.

Three processes serve the same requests on equal brokers with a clock that stands still: one runs
compiled on our own transport, one the sources on it, one compiled on grpcio. Each tells a digest of
every answer: bytes, or status, text and details.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final

from pocketmq.native import PURE_VARIABLE, why_not_compiled
from torture.budget import Budget, NotHere

ROOT: Final = Path(__file__).resolve().parents[2]
FORMS: Final = {
    "compiled": ("own", "0"), "sources": ("own", "1"), "on grpcio": ("grpcio", "0"),
}  # fmt: skip
SENDS, PULLS, REFUSED = "sends", "pulls", "refused"


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Serves requests until `budget.cases` are through or the time is over.

    Errors   AssertionError: what was not alike; NotHere: nothing runs compiled
    """
    if why_not_compiled():
        raise NotHere(f"nothing runs compiled: {why_not_compiled()}")
    counts = {SENDS: 0, PULLS: 0, REFUSED: 0}
    with ExitStack() as stack:
        told = [_answers(stack, place, budget.seed, *form) for form in FORMS.values()]
        for lines in zip(*told, strict=True):
            number = sum(counts.values())
            assert len(set(lines)) == 1, f"request {number}: {dict(zip(FORMS, lines, strict=True))}"
            kind, verdict, _ = lines[0].split()
            counts[kind if verdict == "ok" else REFUSED] += 1
            budget.progress(f"{counts}")
            if number + 1 >= budget.cases or not budget.left():
                break
    return {"requests": sum(counts.values()), **counts, "bytes that differ": 0}


def _answers(stack: ExitStack, place: Path, seed: int, transport: str, pure: str) -> Iterator[str]:
    """Starts a form; yields a line for each answer, as long as there are any."""
    command = [sys.executable, "-m", "torture.forms_served", transport, str(seed)]
    said = stack.enter_context((place / f"{transport}-{pure}").open("w+", encoding="utf-8"))
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, PURE_VARIABLE: pure}, stdout=subprocess.PIPE,
        stderr=said, text=True,
    )  # fmt: skip
    stack.callback(_end, process)
    return _lines(process, said)


def _lines(process: subprocess.Popen[str], said: IO[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout
    said.seek(0)
    raise AssertionError(f"a form ended\n{said.read()[-4_000:]}")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
