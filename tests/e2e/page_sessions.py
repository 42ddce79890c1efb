"""Shell blocks of documents: each is run as its page shows it, or says why not.

    <!-- session: broker -->        a page's blocks run in one directory, beside a broker on ./store
    <!-- session: copy -->          the same, with a store of a real RocketMQ in ./copy
    <!-- not run: its reason -->    the next block is left out

A block in `console` has commands after `$ ` and the output that they print; one in `sh` has
commands alone. Outputs are compared without numbers, ids and spaces; a line `…` stands for any
lines.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
ANY_LINES: Final = "…"
PROMPT: Final = "$ "
COMMAND_S: Final = 60
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>sh|console)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL
)
_BARE: Final = re.compile(r"^ *```\n *\$ ", re.MULTILINE)
_SESSION: Final = re.compile(r"<!-- session: (broker|copy) -->")
_NOT_RUN: Final = re.compile(r"<!-- not run: ([^>]+) -->\s*$")
_ID: Final = re.compile(r"\b[0-9A-F]{32}\b")
_CHANGING: Final = re.compile(
    r"\b(?:[A-Za-z0-9+/]{48,}=*|[0-9A-F]{16,}|[0-9a-f]{16,}|[0-9][0-9.,:+TZ-]*)(?:\b|$)"
)


class Command(NamedTuple):
    """One command of a block, and the lines that it prints; None: they are not shown."""

    text: str
    output: list[str] | None


class Block(NamedTuple):
    """A shell block; `why_not` is its reason not to be run, "" where it is run."""

    line: int
    commands: list[Command]
    why_not: str


def session_of(page: str) -> str:
    """Returns the kind of session that a page's blocks run in, "" for none."""
    found = _SESSION.search(page)
    return found[1] if found else ""


def blocks_of(page: str) -> list[Block]:
    """Returns the shell blocks of a page."""
    found = []
    for match in _FENCE.finditer(page):
        before = page[: match.start()]
        reason = _NOT_RUN.search(before)
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["text"].splitlines()]
        commands = [*(_console(lines) if match["language"] == "console" else _script(lines))]
        found.append(Block(before.count("\n") + 1, commands, reason[1] if reason else ""))
    return found


def has_unnamed_blocks(page: str) -> bool:
    """Returns whether a block with prompts lacks the language `console`."""
    return _BARE.search(page) is not None


def _script(lines: list[str]) -> Iterator[Command]:
    text = "\n".join(lines).replace("\\\n", " ")
    yield from (Command(line, None) for line in text.splitlines() if line.strip())


def _console(lines: list[str]) -> Iterator[Command]:
    command, output = "", list[str]()
    for line in lines:
        if line.startswith(PROMPT):
            if command:
                yield Command(command, output)
            command, output = line.removeprefix(PROMPT), []
        else:
            output.append(line)
    if command:
        yield Command(command, output)


class PageSession:
    """A directory in which commands of one page run, one after the other."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        tools = directory / ".tools"
        tools.mkdir()
        shim = tools / "pocketmq"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pocketmq "$@"\n')
        shim.chmod(0o755)
        self._directory = directory
        self._ids: dict[str, str] = {}
        """What ids of the page are in this session."""
        self._environment = {
            **os.environ,
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "broker"), str(ROOT)]),
            "POCKETMQ_ENDPOINT": endpoint,
        }

    def run(self, command: Command) -> tuple[int, str]:
        """Returns the exit code of a command, and what it printed.

        An id that the page showed before, in an output, becomes the one that was printed.
        """
        text = _ID.sub(lambda found: self._ids.get(found[0], found[0]), command.text)
        done = subprocess.run(
            ["bash", "-c", text], cwd=self._directory, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_S, check=False,
        )  # fmt: skip
        printed = done.stdout.decode()
        shown_ids = [one for line in command.output or () for one in _ID.findall(line)]
        self._ids.update(zip(shown_ids, _ID.findall(printed), strict=False))
        return done.returncode, printed


def is_as_shown(shown: list[str], printed: str) -> bool:
    """Returns whether an output is the shown one, but for numbers, ids and spaces."""
    return _matches([_steady(line) for line in shown], [_steady(x) for x in printed.splitlines()])


def _steady(line: str) -> str:
    return " ".join(_CHANGING.sub("#", line).split())


def _matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0] == ANY_LINES:
        return any(_matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and _matches(shown[1:], printed[1:])
