"""Runs the README's first commands on a minimal Debian, as on a new machine.

    python scripts/new_machine.py [--compiler] [--full] [--working-tree] [--keep]

The root has Debian's essential packages, python3, and a C compiler if requested. It uses this
machine's network, name resolution, and settings of apt and pip. Prints a line with the seconds of
each command.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from debian_root import (
    CACHE,
    ROOT,
    Unavailable,
    debian_root,
    pip_settings,
    proxies,
    unpack,
)
from enclosure import Enclosure, first_process, lacking

PACKAGES: Final = ("python3",)
COMPILER: Final = ("gcc", "libc6-dev", "python3-dev")
HOME: Final = "/root"
CLONE: Final = f"{HOME}/pocketmq"
NAMES: Final = ("etc/resolv.conf", "etc/hosts")
FREE_PORTS: Final = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
"""The only difference from the README: this machine may already run a broker."""

END_S: Final = 60
"""Time limit of a command, and of a broker's stop."""


class Failed(Exception):
    """A command did not do what the README states."""


def main() -> int:
    """Runs the commands; returns 1 after a failure, 2 if this machine cannot build a root."""
    options = argparse.ArgumentParser(description=__doc__, add_help=True)
    options.add_argument("--compiler", action="store_true", help="with a C compiler")
    options.add_argument("--full", action="store_true", help="scripts/test there as well")
    options.add_argument("--working-tree", action="store_true", help="the files as they are here")
    options.add_argument("--keep", action="store_true", help="leave the root behind")
    chosen = options.parse_args()
    if missing := lacking("debootstrap"):
        _say(missing)
        return 2
    CACHE.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="machine-", dir=CACHE))
    try:
        packages = (*PACKAGES, *(COMPILER if chosen.compiler else ()))
        machine = new_machine(place / "root", packages, working_tree=chosen.working_tree)
        try_serve(machine, "compiled" if chosen.compiler else "sources (not compiled)")
        if chosen.full:
            try_tests(machine)
    except Unavailable as error:
        _say(str(error))
        return 2
    except Failed as error:
        _say(f"FAILED {error}")
        return 1
    finally:
        if chosen.keep:
            _say(f"the machine's root is {place / 'root'}")
        else:
            shutil.rmtree(place)
    return 0


def new_machine(root: Path, packages: Sequence[str], *, working_tree: bool) -> Enclosure:
    """Creates a root with a clone of this repository; returns its enclosure."""
    with _timed("a bare Debian"):
        unpack(debian_root(packages), root)
    pip = pip_settings()
    (root / "etc/pip.conf").write_text(pip.text)
    settings = proxies()
    if proxy := settings.get("http_proxy"):
        (root / "etc/apt/apt.conf.d/90proxy").write_text(f'Acquire::http::Proxy "{proxy}";\n')
    for name in NAMES:
        shutil.copyfile(Path("/", name), root / name)
    with _timed("a clone"):
        copy_files(root / CLONE.lstrip("/"), working_tree=working_tree)
    search = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if "CI" in os.environ:
        settings["CI"] = os.environ["CI"]
    return Enclosure(
        root,
        environment={"PATH": search, "HOME": HOME, "LANG": "C.UTF-8", **settings},
        shown=pip.paths,
        directory=CLONE,
    )


def copy_files(target: Path, *, working_tree: bool) -> None:
    """Copies the last commit, or the working tree without ignored files."""
    target.mkdir(parents=True)
    if working_tree:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
        found = [n for n in names.split(b"\0") if n and os.path.lexists(ROOT / os.fsdecode(n))]
        packed = subprocess.run(
            ["tar", "--null", "--files-from=-", "-cf", "-"],
            cwd=ROOT,
            input=b"\0".join(found),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    else:
        archive = ["git", "archive", "HEAD"]
        packed = subprocess.run(archive, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    unpacked = ["tar", "-C", str(target), "--no-same-owner", "-xf", "-"]
    subprocess.run(unpacked, input=packed, check=True)


def try_serve(machine: Enclosure, form: str) -> None:
    """Runs `scripts/serve` twice: the first stores a message, and the second must still have it.

    form    expected form of the hot modules, as `pocketmq status` reports it
    """
    with _serving(machine, "scripts/serve, the first time") as ask:
        sent = ask("produce", "orders", "order 42 paid", "-k", "order-42", "-o", "json")
        _expect(json.loads(sent)["status"] == "SEND_OK", sent)
        status = ask("status", "-o", "json")
        _expect(json.loads(status)["modules"] == form, status)
        pulled = ask("consume", "orders", "--pull", "--from", "min", "-o", "json")
        _expect("order 42 paid" in pulled, pulled)
    with _serving(machine, "scripts/serve, once more") as ask:
        found = ask("msg", "by-key", "orders", "order-42", "-o", "json")
        _expect("order 42 paid" in found, found)


def try_tests(machine: Enclosure) -> None:
    """Runs `scripts/test`, and shows its output."""
    with _timed("scripts/test"):
        code = subprocess.run(machine.command("scripts/test"), check=False).returncode
        _expect(code == 0, f"exit code {code}")


@contextmanager
def _serving(machine: Enclosure, name: str) -> Iterator["_Client"]:
    """Serves until the block ends, then stops the broker and expects exit code 0."""
    command = machine.command("scripts/serve", *FREE_PORTS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            with _timed(name):
                ready = _ready_line(process)
            pid = first_process(process.pid)
            with _timed("  send or find, and pull"):
                yield _Client(machine, pid, ready["grpc"])
            with _timed("  stop"):
                os.kill(pid, signal.SIGTERM)
                code = process.wait(END_S)
                _expect(code == 0, f"exit code {code} after SIGTERM")
        finally:
            process.kill()


def _ready_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    out: IO[str] | None = process.stdout
    line = out.readline() if out else ""
    _expect(line.startswith("{"), f"no ready line, but {line!r}")
    ready: dict[str, Any] = json.loads(line)
    return ready


class _Client:
    """The clone's command line, run on the machine beside the broker."""

    def __init__(self, machine: Enclosure, pid: int, endpoint: str) -> None:
        self._machine = machine
        self._pid = pid
        self._endpoint = ["env", f"POCKETMQ_ENDPOINT={endpoint}"]

    def __call__(self, *arguments: str) -> str:
        words = [*self._endpoint, ".venv/bin/pocketmq", *arguments]
        done = subprocess.run(
            self._machine.beside(self._pid, *words),
            capture_output=True,
            text=True,
            check=False,
            timeout=END_S,
        )
        _expect(done.returncode == 0, f"pocketmq {arguments[0]}: {done.stderr}")
        return done.stdout


@contextmanager
def _timed(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    _say(f"{time.monotonic() - began:7.1f} s  {name}")


def _expect(holds: bool, found: str) -> None:
    if not holds:
        raise Failed(found)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
