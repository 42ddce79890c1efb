"""Starts, reads, measures (by /proc) and ends the processes of benches and batteries."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from time import clock_gettime
from typing import Any, Final, NamedTuple

from harness.budget import NotHere

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache"
END_S: Final = 60
SAID_MAX: Final = 4_000
"""Last characters of a failed process's output that are shown."""
_CPU_CLOCK: Final = 2
_KIB_PER_MIB: Final = 1024


class Failed(Exception):
    """A process ended with an error; the text is the end of its output."""


class Serving(NamedTuple):
    """A running server, and its first output line."""

    process: subprocess.Popen[str]
    line: str

    @property
    def ready(self) -> dict[str, Any]:
        """The ready line of a broker, which contains its addresses."""
        document: dict[str, Any] = json.loads(self.line)
        return document

    @property
    def target(self) -> str:
        """The address of a server whose first line is its port."""
        return f"127.0.0.1:{self.line.strip()}"


def module(name: str, *arguments: object) -> list[str]:
    """Returns the command that runs a Python module."""
    return [sys.executable, "-m", name, *map(str, arguments)]


def serve(store: Path, *settings: str, http: str = "127.0.0.1:0") -> list[str]:
    """Returns the command of a broker on free ports of loopback; settings are those of --set."""
    given = [word for setting in settings for word in ("--set", setting)]
    where = ("--listen", "127.0.0.1:0", "--http", http)
    return module("pocketmq", "serve", "--store", store, *where, *given)


def environment(root: Path = ROOT, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns variables for a process that imports the package and the scripts of a source tree.

    As for users, Python caches byte code, even if this process's environment forbids it.
    """
    own = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return own | {"PYTHONPATH": f"{root}:{root / 'broker'}:{root / 'scripts'}", **(more or {})}


@contextmanager
def running(
    command: Sequence[str], log: Path | None = None, *, in_order: bool = False, root: Path = ROOT,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Serving]:  # fmt: skip
    """Runs a server; the block begins after its first line, and the server is killed at its end.

    log        file of its standard error, whose end is shown if the block fails
    in_order   whether the server is first asked to stop, and has END_S for it
    Errors     Failed: the server ended before its first line
    """
    with log.open("a+", encoding="utf-8") if log else TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=root,
            env=environment(root, variables),
        )  # fmt: skip
        try:
            assert process.stdout is not None, "its output is piped"
            if not (line := process.stdout.readline()):
                raise Failed(f"{' '.join(command)} ended at once")
            yield Serving(process, line)
        except BaseException:
            said.seek(0)
            print(said.read()[-SAID_MAX:], file=sys.stderr)
            raise
        finally:
            if in_order:
                process.terminate()
                _wait(process)
            process.kill()
            process.communicate()


def _wait(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        print(f"process {process.pid} does not end; it is killed", file=sys.stderr)


def ended(
    command: Sequence[str], *, timeout_s: float | None = None, cwd: Path = ROOT,
    given: str | None = None, variables: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Runs a program to its end; returns its output.

    given    its standard input
    Errors   Failed: its exit code is not 0; subprocess.TimeoutExpired
    """
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout_s, cwd=cwd,
        input=given, env=environment(more=variables),
    )  # fmt: skip
    if done.returncode:
        shown = (done.stderr + done.stdout)[-SAID_MAX:].strip()
        raise Failed(f"{Path(command[0]).name} failed with {done.returncode}: {shown}")
    return done.stdout


def apart(name: str, *arguments: object) -> dict[str, Any]:
    """Runs a module in a process; returns the document of its last line.

    Errors   Failed
    """
    found: dict[str, Any] = json.loads(ended(module(name, *arguments)).splitlines()[-1])
    tell({"run": [name, *map(str, arguments)], **found})
    return found


def tell(document: Mapping[str, Any]) -> None:
    """Prints the progress of a measurement to standard error."""
    print(json.dumps(document, ensure_ascii=False), file=sys.stderr, flush=True)


def need(program: str, how: str) -> None:
    """Checks that a program is on the PATH.

    Errors   NotHere
    """
    if shutil.which(program) is None:
        raise NotHere(f"{program} is not on the PATH; {how}")


# -- /proc -----------------------------------------------------------------------------------------
def cpu_seconds(process_id: int) -> float:
    """Returns a process's processor time so far, user and system of all threads, exact to 1 ns.

    Source   clock_getcpuclockid(3): the complement of the number, then which clock of the process
    """
    return clock_gettime(~process_id << 3 | _CPU_CLOCK)


def anonymous_mib(process_id: int) -> float:
    """Returns a process's RssAnon."""
    match = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process_id}/status").read_text())
    return int(match[1]) / _KIB_PER_MIB if match else 0.0


def open_count(process_id: int) -> int:
    """Returns the number of open descriptors."""
    return len([*Path(f"/proc/{process_id}/fd").iterdir()])


def maps_of(text: str, directory: Path) -> tuple[int, int]:
    """Returns (number of lines, number of lines with a file below a directory) of a maps file."""
    below = f"{directory}/"
    found = Counter(line.split(maxsplit=5)[-1].startswith(below) for line in text.splitlines())
    return found.total(), found[True]
