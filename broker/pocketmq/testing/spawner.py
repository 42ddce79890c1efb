"""Forks brokers for the tests of one process; standard input is its control socket.

    test    ─► {"assignments": {origin: […]}, "listen": …, "ahead_ms": 0}
               and two descriptors: control, log
    spawner ─► the process id of the broker

Importing a broker takes longer than starting one, so the spawner imports it once. Each broker
writes its log and standard output to the log descriptor. The spawner ends when its socket closes.
The system then kills the remaining brokers: a broker that hangs would not notice that its control
socket has closed.
"""

import ctypes
import gc
import json
import os
import signal
import socket
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any, Final

from pocketmq.testing.controlled import run_controlled

REQUEST_MAX: Final = 1 << 20
DESCRIPTOR_COUNT: Final = 2
LATER: Final = ("uvloop", "encodings.idna")
"""Optional modules that a broker imports when it starts."""
PR_SET_PDEATHSIG: Final = 1
BROKEN: Final = 70
"""EX_SOFTWARE: exit code of a broker that raised an unexpected error."""


def main() -> None:
    """Forks a broker for every request.

    The caller may have disabled the garbage collector for the imports; this function enables it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The test's process ends the brokers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Brokers are reaped without a wait.
    for name in LATER:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()  # Pages that are not written stay shared with all brokers.
    gc.enable()
    system = ctypes.CDLL(None)
    own_number = os.getpid()
    with socket.socket(fileno=os.dup(0)) as test:
        while (asked := _next_request(test)) is not None:
            request, control, log = asked
            number = os.fork()
            if number == 0:
                test.close()
                _end_with_parent(system, own_number)
                _be_broker(request, control, log)
            os.close(control)
            os.close(log)
            test.sendall(b"%d\n" % number)


def _next_request(test: socket.socket) -> tuple[dict[str, Any], int, int] | None:
    """Returns (request, control descriptor, log descriptor), None at the end."""
    text, descriptors = b"", list[int]()
    while not text.endswith(b"\n"):
        chunk, came, _, _ = socket.recv_fds(test, REQUEST_MAX, DESCRIPTOR_COUNT)
        if not chunk:
            return None
        text += chunk
        descriptors += came
    assert len(descriptors) == DESCRIPTOR_COUNT
    control, log = descriptors
    return json.loads(text), control, log


def _end_with_parent(system: ctypes.CDLL, parent: int) -> None:
    """Requests a kill of this process when its parent ends; on Linux only.

    On other systems a broker ends when its control socket closes.
    """
    call = getattr(system, "prctl", None)
    if call is not None:
        call(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
        if os.getppid() != parent:  # The parent has ended before the call.
            os._exit(0)


def _be_broker(request: dict[str, Any], control: int, log: int) -> None:
    """Runs a broker in this process, and ends the process."""
    code = BROKEN
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with ExitStack() as files:
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            files.callback(os.close, nothing)
            files.callback(os.close, log)
        with socket.socket(fileno=control) as test:
            code = run_controlled(test, **request)
    finally:
        os._exit(code)
