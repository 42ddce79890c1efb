"""Brokers that start without imports: each is forked from a process that has imported everything.

    with Forge([listening.fileno()]) as forge:
        daemon = Forged(forge, store, listening, "--set", …, ahead_ms=3_600_000)
        daemon.begin()
        daemon.serve()                   waits until it serves: a tenth of the usual start's work

`ahead_ms` sets the broker's wall clock. Followers look for their leader at shorter intervals: a
battery has more events a second.
"""

import gc
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import pocketmq
from pocketmq import cli

READY_S: Final = 120.0
END_S: Final = 60.0
LOOK_S: Final = 0.005
PAUSES: Final = {
    "following": {"PAUSE_S": 0.1, "PAUSE_MAX_S": 0.4},
    "fencing": {"PAUSE_S": 0.2, "WATCH_S": 0.5},
}


class Forge:
    """The process that forks brokers.

    descriptors   listening sockets that brokers inherit
    """

    def __init__(self, descriptors: Sequence[int]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("POCKETMQ_STORE")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forge"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=descriptors,
            env=environment,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, **asked: Any) -> int:
        """Returns the process id of a broker, or how one ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class Forged:
    """One broker on a socket that is handed over, as systemd does."""

    def __init__(
        self,
        forge: Forge,
        store: Path,
        listening: socket.socket,
        *arguments: str,
        ahead_ms: int = 0,
    ) -> None:
        ports = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        self._command = ["serve", "--store", str(store), *ports, *arguments]
        self._forge = forge
        self._listening = listening.fileno()
        self._ahead_ms = ahead_ms
        self._out = store.parent.with_suffix(".ready")  # Not on its disk, which may be full.
        self._log = store.parent.with_suffix(".log")
        self._pid = 0

    def begin(self) -> None:
        """Starts the process, and waits for nothing."""
        self._out.unlink(missing_ok=True)
        self._pid = self._forge.ask(
            command=self._command, listening=self._listening, ahead_ms=self._ahead_ms,
            out=str(self._out), log=str(self._log),
        )  # fmt: skip

    def serve(self) -> None:
        """Waits until it serves.

        Errors   AssertionError: it ends, or is late
        """
        until = time.monotonic() + READY_S
        while not (self._out.exists() and self._out.read_bytes().endswith(b"\n")):
            is_alive = not self._forge.ask(ended=self._pid)
            assert is_alive, f"it ended:\n{self._log.read_text()[-3_000:]}"
            assert time.monotonic() < until, f"not ready:\n{self._log.read_text()[-3_000:]}"
            time.sleep(LOOK_S)

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        os.kill(self._pid, number)

    def stop(self) -> int:
        """Ends it in order; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self._wait()

    def end(self) -> None:
        """Kills it unless it has ended."""
        if self._pid:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self._wait()

    def _wait(self) -> int:
        pid, self._pid = self._pid, 0
        return self._forge.ask(wait=pid)


# -- the process that forks --------------------------------------------------------------------
WARM: Final = ("app", "cli", "config", "metrics", "rpc", "services", "store")
"""Packages whose modules are imported before any broker starts."""


def main() -> None:
    """Forks brokers as standard input asks, until it ends."""
    for package in WARM:
        place = Path(pocketmq.__file__).parent / package
        for found in pkgutil.walk_packages([str(place)], f"pocketmq.{package}."):
            with suppress(ImportError):
                import_module(found.name)
    for module, pauses in PAUSES.items():
        for name, seconds in pauses.items():
            setattr(import_module(f"pocketmq.rpc.replication.{module}"), name, seconds)
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        if "command" not in asked:
            print(_ended(asked), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _serve(asked)
        print(pid, flush=True)


def _ended(asked: dict[str, int]) -> int:
    """Returns a broker's exit code; asked without a wait, whether it has ended."""
    if "wait" in asked:
        return os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
    found = os.waitid(os.P_PID, asked["ended"], os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return int(found is not None)


def _serve(asked: dict[str, Any]) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, path in ((1, asked["out"]), (2, asked["log"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
    os.dup2(asked["listening"], 3)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
    now_ns, ahead_ns = time.time_ns, asked["ahead_ms"] * 1_000_000
    time.time_ns = lambda: now_ns() + ahead_ns
    sys.argv = ["pocketmq", *asked["command"]]
    code = 1
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
