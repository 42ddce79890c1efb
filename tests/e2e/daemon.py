"""A broker as a process of its own, and commands that talk to it as another.

Whatever a test does, the broker's event loop is never late for long: its probe is read when the
broker is ready and before it ends, and a `with` whose broker stalled meanwhile fails. What it was
late because a crowded machine gave it no core does not count.
"""

import asyncio
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Self
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from pocketmq import native
from pocketmq.client import AsyncClient, PullQuery
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus
from tests.cli import command_line

READY_S: Final = 60
"""How long a start may take on a machine that does other things too."""
ANSWER_S: Final = 60
LATE_S: Final = 0.05
"""What the event loop may be late, start and end of the process excepted."""
LATE_FACTOR: Final = 4
"""How much more it may be where others want the cores too."""

HAND_OVER: Final = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that runs a command with a descriptor, as systemd hands it a socket."""

_LATE: Final = re.compile(r'pocketmq_event_loop_lag_seconds_bucket\{.*le="([^"]+)".*\} (\S+)')
_open = build_opener(ProxyHandler({})).open
_LATE_SUM: Final = re.compile(r"pocketmq_event_loop_lag_seconds_sum\S* (\S+)")


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
    """Runs `pocketmq ARGUMENTS` to its end."""
    command = [sys.executable, "-m", "pocketmq", *arguments]
    return ended(command, input=given, env=_environment(environment))


def here(*arguments: str, given: str | None = None, **environment: str) -> Done:
    """Runs `pocketmq ARGUMENTS` to its end in this process, unless an event loop runs in it.

    It is for commands that are no subject of a test: to start Python for each costs half a second.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return pocketmq(*arguments, given=given, **environment)
    foreign = {
        name: None
        for name in os.environ
        if name.startswith("POCKETMQ") and name != native.PURE_VARIABLE
    }
    return Done(*command_line.run(*arguments, given=given, **{**foreign, **environment}))


def ended(command: Sequence[str], **options: Any) -> Done:
    """Runs a command to its end."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=ANSWER_S, **options
    )
    return Done(done.returncode, done.stdout, done.stderr)


def is_busy() -> bool:
    """Tells whether others want the cores too: tests beside this one, or other work."""
    cores = os.cpu_count() or 1
    is_shared = "PYTEST_XDIST_WORKER" in os.environ or os.environ.get("CI") == "true"
    return is_shared or os.getloadavg()[0] > cores / 2


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("POCKETMQ")}
    return {**own, **extra}


class Served:
    """A process that prints one JSON document when it serves, and writes a log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.ready: dict[str, Any] = {}

    def start(self, command: Sequence[str], **options: Any) -> None:
        """Starts the process, and waits for nothing."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, **options
            )

    def becomes_ready(self) -> bool:
        """Waits until it serves; False when it ends before."""
        out = self._out
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            line = out.readline() if selector.select(READY_S) else None
        assert line is not None, f"it neither serves nor ends: {self.log.read_text()}"
        if line:
            self.ready = json.loads(line)
        return bool(line)

    def serve(self) -> None:
        """Returns when it serves; it is ended where it does not."""
        try:
            assert self.becomes_ready(), f"no ready line; the log says:\n{self.log.read_text()}"
        except BaseException:
            self.end()
            raise

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def end(self) -> None:
        """Kills the process unless it has ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._out.close()

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def rest(self) -> str:
        """Returns what it printed behind the ready line; it has ended."""
        return self._out.read()

    def wait(self) -> int:
        """Returns the exit code of a process that is about to end."""
        return self._process.wait(ANSWER_S)


class Daemon(Served):
    """`pocketmq serve` on free ports; serves inside a `with` and is ended by its process id.

    tracer      words of a command that runs the broker's, as strace does
    listening   a socket that is handed over, as systemd does, in place of a free port
    """

    def __init__(
        self,
        store: Path,
        *arguments: str,
        tracer: Sequence[str] = (),
        listening: socket.socket | None = None,
    ) -> None:
        super().__init__(store.with_name(f"{store.name}.log"))
        self.store = store
        self._arguments = arguments
        self._tracer = tracer
        self._handed: tuple[int, ...] = ()
        if listening is not None:
            self._handed = (listening.fileno(),)
            self._tracer = (sys.executable, "-c", HAND_OVER, str(listening.fileno()))
        self._late_at_first: dict[float, float] = {}
        self._late_at_last: dict[float, float] = {}
        self._kept_waiting_s = (0.0, 0.0)

    def __enter__(self) -> Self:
        self.begin()
        self.serve()
        # Making the first page counts as late behind it: what it waited meanwhile has to count too.
        self._kept_waiting_s = (self.kept_waiting_s(), 0.0)
        self._late_at_first = self.lateness()
        return self

    def begin(self) -> None:
        """Starts the process, and waits for nothing; `becomes_ready` and `end` belong to it."""
        command = [sys.executable, "-m", "pocketmq", "serve", "--store", str(self.store)]
        ports = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        self.start(
            [*self._tracer, *command, *ports, *self._arguments],
            env=_environment({}), pass_fds=self._handed,
        )  # fmt: skip

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._look()
        self.end()
        if kind is None:
            self._check_lateness()

    def lateness(self) -> dict[float, float]:
        """Returns how many looks at the event loop were late by more than so many seconds."""
        found = {float(le): float(n) for le, n in _LATE.findall(self.page("/metrics").text)}
        return {le: found[float("inf")] - count for le, count in found.items()}

    def kept_waiting_s(self) -> float:
        """Returns how long its main thread was ready to run and had no core, in all its life.

        Clients of other languages are built and started beside it, by as many threads as there are
        cores and more: nothing that the loop does makes up for that.
        """
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def late_s(self) -> float:
        """Returns the total lateness of the event loop in s: the sum of all samples."""
        found = _LATE_SUM.search(self.page("/metrics").text)
        assert found is not None
        return float(found[1])

    def _look(self) -> None:
        """Reads the probe while the process lives."""
        if self.ready and self._process.poll() is None:
            with suppress(OSError):
                self._late_at_last = self.lateness()
                self._kept_waiting_s = (self._kept_waiting_s[0], self.kept_waiting_s())

    def _check_lateness(self) -> None:
        """Fails where the loop was late; what the last look said holds for a process that ended."""
        waited_s = max(self._kept_waiting_s[1] - self._kept_waiting_s[0], 0.0)
        allowed_s = LATE_S * (LATE_FACTOR if is_busy() else 1) + waited_s
        since = {
            le: count - self._late_at_first.get(le, 0) for le, count in self._late_at_last.items()
        }
        late = [le for le, count in since.items() if le >= allowed_s and count > 0]
        assert not late, (
            f"the event loop was late by more than {max(late)} s, {since[min(late)]:g} times; "
            f"allowed are {allowed_s:.2f} s, {waited_s:.2f} of them without a core; {self.log}"
        )

    @property
    def endpoint(self) -> str:
        """Where gRPC is served."""
        return str(self.ready["grpc"])

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Sends the broker a signal."""
        if self._tracer and self.ready:
            os.kill(self.ready["pid"], number)
        else:
            super().signal(number)

    def stop(self) -> int:
        """Asks the process to end, and returns its exit code."""
        self._look()
        self.signal(signal.SIGTERM)
        return self.wait()

    def ask(self, *arguments: str, given: str | None = None) -> Done:
        """Runs a command against this broker."""
        return pocketmq(*arguments, given=given, POCKETMQ_ENDPOINT=self.endpoint)

    def ask_here(self, *arguments: str, given: str | None = None) -> Done:
        """Runs a command against this broker, where possible in this process."""
        return here(*arguments, given=given, POCKETMQ_ENDPOINT=self.endpoint)

    def page(self, path: str) -> Page:
        """Returns a page of the HTTP port."""
        try:
            with _open(f"http://{self.ready['http']}{path}", timeout=ANSWER_S) as answer:
                return Page(answer.status, answer.read().decode())
        except HTTPError as error:
            return Page(error.code, error.read().decode())


async def messages_of(
    client: AsyncClient, topic: str, queue_id: int = 0, *, as_admin: bool = False
) -> list[StoredMessage]:
    """Returns every message of a queue, from its first one on."""
    pull = client.admin.pull if as_admin else client.pull
    position = (await client.admin.describe_topic(topic)).queues[queue_id].min_offset
    messages: list[StoredMessage] = []
    while True:
        page = await pull(PullQuery(topic, queue_id, position, max_messages=256))
        if page.status is not PullStatus.FOUND:
            return messages
        messages += page.messages
        position = page.next_begin_offset


def bodies_of(endpoint: str, topic: str) -> list[bytes]:
    """Returns the bodies of every message of a topic's first queue, asked for by a new client."""

    async def read() -> list[bytes]:
        async with AsyncClient(endpoint, retry_ms=0) as client:
            return [message.body for message in await messages_of(client, topic)]

    return asyncio.run(read())
