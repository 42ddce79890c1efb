"""Broker processes of a test: starts them, sends them requests, and kills them."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final

import pocketmq

START_S: Final = 30.0
"""Time limit of a start in seconds; the store of a test is small."""
ANSWER_S: Final = 30.0
KILL_S: Final = 30.0
"""Time limit of a kill in seconds."""
END_S: Final = 30.0
"""Time limit of the spawner's end in seconds; then it is killed."""
LOOK_AGAIN_S: Final = 0.001
CHUNK: Final = 65_536
PACKAGES: Final = str(Path(pocketmq.__file__).parents[1])
THREAD_COUNTS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ONE_THREAD: Final = dict.fromkeys(THREAD_COUNTS, "1")
"""Environment that prevents threads in the process that forks."""
SPAWNING: Final = "pocketmq.testing.spawner"
SPAWN: Final = f"import gc; gc.disable(); from {SPAWNING} import main; main()"
"""Program of the spawner; garbage collections would take a tenth of the imports' time."""


class BrokerEnded(Exception):
    """The broker's process has ended: it was stopped or killed, or it crashed.

    The broker's log has the reason of a crash.
    """


class BrokerNotStarted(Exception):
    """The broker could not start, for example because of a wrong setting or a damaged store."""


class Spawner:
    """The process from which brokers are forked; starts with the first broker, or by `begin`.

    Thread-safe, except for `close`. When it ends, all its brokers end.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def begin(self) -> None:
        """Starts the spawner without waiting until it can fork."""
        with self._lock:
            self._begun()

    def fork(self, request: dict[str, Any], control: socket.socket, log: int) -> int:
        """Forks a broker; returns its process id.

        Errors   BrokerNotStarted
        """
        with self._lock:
            spawner = self._begun()
            text = json.dumps(request).encode() + b"\n"
            try:
                socket.send_fds(spawner, [text], [control.fileno(), log])
                answer = spawner.recv(CHUNK)
            except OSError as error:
                raise BrokerNotStarted(f"no process to fork brokers from: {error}") from error
        if not answer:
            raise BrokerNotStarted("the process that brokers are forked from has ended")
        pid = int(answer)
        assert pid > 1, "illegal process id"
        return pid

    def _begun(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            path = os.pathsep.join(filter(None, (PACKAGES, os.environ.get("PYTHONPATH"))))
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", SPAWN],
                    stdin=theirs.fileno(),
                    env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
                    start_new_session=True,  # Ctrl-C must reach only the tests.
                )
        return self._socket

    def close(self) -> None:
        """Ends the spawner; may be called again."""
        if self._process is not None and self._socket is not None:
            # A process that a test forked may hold the socket open: only a shutdown ends it.
            self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = self._socket = None


class BrokerProcess:
    """One broker process, ready once created.

    Life     created, then `kill` or `stop`, any number of times
    Errors   of the creation: BrokerNotStarted
    """

    def __init__(self, spawner: Spawner, request: dict[str, Any], log: Path) -> None:
        self._lock = Lock()
        self._pending = b""
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_S)
        with theirs, log.open("ab") as written:
            self.pid = spawner.fork(request, theirs, written.fileno())
        try:
            said = self._line()
        except (BrokerEnded, TimeoutError) as error:
            self.kill()
            raise BrokerNotStarted(f"it was not ready in {START_S:.0f} s: {error}") from error
        if "ready" not in said:
            self.kill()
            raise BrokerNotStarted(said["failed"])
        self.endpoint = str(said["ready"]["grpc"])

    def ask(self, do: str, **fields: Any) -> Any:
        """Sends the broker a request; returns its answer.

        Errors   BrokerEnded, also for a broker that hangs, which is killed; ValueError: an invalid
                 request
        """
        with self._lock:
            if self._control.fileno() < 0:
                raise BrokerEnded("it was killed or stopped; restart() starts it again")
            try:
                self._control.settimeout(ANSWER_S)
                self._control.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")
                said = self._line()
            except TimeoutError as error:
                self._end_by(signal.SIGKILL)
                raise BrokerEnded(f"it did not {do} in {ANSWER_S:g} s: it was killed") from error
            except OSError as error:
                raise BrokerEnded(str(error)) from error
        if "wrong" in said:
            raise ValueError(said["wrong"])
        return said["ok"]

    def kill(self) -> None:
        """Kills the process (SIGKILL), and waits for its end."""
        with self._lock:
            self._end_by(signal.SIGKILL)

    def stop(self) -> None:
        """Stops the process in order (SIGTERM), and waits for its end.

        Errors   BrokerEnded: it did not stop in time and was killed
        """
        with self._lock:
            if not self._end_by(signal.SIGTERM):
                raise BrokerEnded(f"it did not stop in {ANSWER_S:g} s: it was killed")

    def _end_by(self, number: signal.Signals) -> bool:
        """Ends the process by a signal, then by SIGKILL; returns whether the signal sufficed."""
        if self._control.fileno() < 0:
            return True
        was_enough = self._has_ended() or self._signal(number)
        if not was_enough:
            self._signal(signal.SIGKILL)
        self._control.close()
        return was_enough

    def _has_ended(self) -> bool:
        """Returns whether the broker has closed its socket, which it does when it ends.

        Another process may then have its process id, and must not get the signal.
        """
        self._control.settimeout(0)
        try:
            return not self._control.recv(CHUNK, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _signal(self, number: signal.Signals) -> bool:
        """Sends a signal and waits; returns whether the process has ended."""
        wait_s = KILL_S if number == signal.SIGKILL else ANSWER_S
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        self._control.settimeout(wait_s)
        try:
            while self._control.recv(CHUNK):
                continue
        except TimeoutError:
            return False
        except OSError:
            pass
        return self._has_gone(monotonic() + wait_s)

    def _has_gone(self, end_s: float) -> bool:
        """Waits for the end of a process that has closed its socket; returns False after a timeout.

        The process locks its store until it has ended.
        """
        try:
            while monotonic() < end_s:
                os.kill(self.pid, 0)
                sleep(LOOK_AGAIN_S)
        except ProcessLookupError:
            return True
        return False

    def _line(self) -> dict[str, Any]:
        """Returns the broker's next answer.

        Errors   BrokerEnded, TimeoutError
        """
        while b"\n" not in self._pending:
            try:
                chunk = self._control.recv(CHUNK)
            except ConnectionError as error:
                raise BrokerEnded(str(error)) from error
            if not chunk:
                raise BrokerEnded("its process has ended; see its log")
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        assert len(line) > 1, "the line is empty"
        said: dict[str, Any] = json.loads(line)
        return said
