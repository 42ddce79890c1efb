"""A broker as a process of its own, and commands that talk to it as another."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Self
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

READY_S: Final = 60
"""How long a start may take on a machine that does other things too."""
ANSWER_S: Final = 60

_open = build_opener(ProxyHandler({})).open


class Done(NamedTuple):
    """How a command ended, and what it printed and said."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """Standard output as a JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Page(NamedTuple):
    """An answer of the HTTP port."""

    status: int
    text: str


def pocketmq(*arguments: str, given: str | None = None, **environment: str) -> Done:
    """Run `pocketmq ARGUMENTS` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=ANSWER_S,
        env=_environment(environment),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("POCKETMQ")}
    return {**own, **extra}


class Daemon:
    """`pocketmq serve` on free ports; serves inside a `with` and is ended by its process id."""

    def __init__(self, store: Path, *arguments: str) -> None:
        self.store = store
        self.log = store.with_name(f"{store.name}.log")
        self._arguments = arguments
        self.ready: dict[str, Any] = {}

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "broker", "serve", "--store", str(self.store)]
        ports = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *ports, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment({}),
            )
        try:
            self.ready = json.loads(self._first_line())
        except BaseException:
            self._end()
            raise
        return self

    def _first_line(self) -> str:
        out = self._out
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            line = out.readline() if selector.select(READY_S) else ""
        assert line, f"no ready line; the log says:\n{self.log.read_text()}"
        return line

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._out.close()

    @property
    def endpoint(self) -> str:
        """Where gRPC is served."""
        return str(self.ready["grpc"])

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def stop(self) -> int:
        """Ask the process to end, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Return the exit code of a process that is about to end."""
        return self._process.wait(ANSWER_S)

    def rest(self) -> str:
        """Return what it printed behind the ready line; it has ended."""
        return self._out.read()

    def ask(self, *arguments: str, given: str | None = None) -> Done:
        """Run a command against this broker."""
        return pocketmq(*arguments, given=given, POCKETMQ_ENDPOINT=self.endpoint)

    def page(self, path: str) -> Page:
        """Return a page of the HTTP port."""
        try:
            with _open(f"http://{self.ready['http']}{path}", timeout=ANSWER_S) as answer:
                return Page(answer.status, answer.read().decode())
        except HTTPError as error:
            return Page(error.code, error.read().decode())
