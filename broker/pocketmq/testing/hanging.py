"""Notices of tests that wait for messages without an end.

    test ─► Client.tail, consume or answer_checks ─► no message for NOTICE_S ─► a line on stderr

The line names the test, the line that waits, and what would end the wait. The test goes on. Waits
of an event loop's tasks are seen if the loop runs in the main thread.
"""

import gc
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Timer, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio import Task

NOTICE_S: Final = 10.0
PACKAGE: Final = __name__.partition(".")[0]
CLIENTS: Final = (f"{PACKAGE}.client.client", f"{PACKAGE}.client.async_client")
ENDLESS: Final[Mapping[str, str]] = {
    "tail": (
        "it waits for a further message; a tail without last_count or since_ms begins at the ends "
        "of the queues, and one without follow=False never ends: TailQuery(topic, last_count=10, "
        "follow=False)"
    ),
    "consume": (
        "it waits for a further message, and ends only after count_max messages; "
        "rocketmq.lag(group) and rocketmq.messages(topic) show what there is, and "
        "receive(ReceiveQuery(group, topic, wait_ms=1_000)) ends without a message"
    ),
    "answer_checks": (
        "it waits for a further check, and ends only after count_max decisions; checks are of the "
        "producer group of the message, and rocketmq.advance_clock(60) makes them due"
    ),
}
"""Methods of the client that wait for ever -> what ends the wait."""

AWAITED: Final = {"cr": "cr_await", "ag": "ag_await", "gi": "gi_yieldfrom"}
"""Prefix of the attributes of a kind of coroutine -> attribute for what it awaits."""


class Notices:
    """Writes notices past pytest's capture; created while nothing is captured.

    Life   created, `during` any number of times, `close`
    """

    __slots__ = ("_fd",)

    def __init__(self) -> None:
        self._fd = -1
        with suppress(AttributeError, OSError, ValueError):
            self._fd = os.dup(sys.stderr.fileno())

    def close(self) -> None:
        """Ends the notices; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextmanager
    def during(self, test: str) -> Iterator[None]:
        """Watches the main thread during a block, which belongs to a test."""
        assert test, "the test has no name"
        timer = Timer(NOTICE_S, self._look, (test,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _look(self, test: str) -> None:
        frame = sys._current_frames().get(main_thread().ident or 0)
        text = notice(test, frame)
        if text and self._fd >= 0:
            os.write(self._fd, f"\n{text}\n".encode())


def notice(test: str, frame: FrameType | None) -> str:
    """Returns the notice of a thread's innermost frame; "" unless it waits in such a method."""
    frames = [*_callers(frame)]
    waits = [_wait(frames), *(_wait(reversed([*_awaiting(task)])) for task in _tasks(frames))]
    return next((f"{test} has run for {NOTICE_S:g} s and {wait}" for wait in waits if wait), "")


def _wait(frames: Iterable[FrameType]) -> str:
    """Returns the method in which a stack waits, and where; the innermost frame is the first."""
    method = ""
    for frame in frames:
        name = frame.f_globals.get("__name__", "")
        if name in CLIENTS and frame.f_code.co_name in ENDLESS:
            method = frame.f_code.co_name
        elif method and name.partition(".")[0] != PACKAGE:
            where = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
            return f"waits in {method} at {where}: {ENDLESS[method]}"
    return ""


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _tasks(frames: Iterable[FrameType]) -> set["Task[Any]"]:
    """Returns the tasks of the event loop that runs in a stack."""
    from asyncio import AbstractEventLoop, all_tasks  # A run without brokers needs no asyncio.

    owners = (frame.f_locals.get("self") for frame in frames)
    loop = next((one for one in owners if isinstance(one, AbstractEventLoop)), None)
    return set() if loop is None else all_tasks(loop)


def _awaiting(task: "Task[Any]") -> Iterator[FrameType]:
    """Yields the frames of a waiting task; the outermost is the first."""
    at: object = task.get_coro()
    while at is not None:
        kind = next((kind for kind in AWAITED if hasattr(at, f"{kind}_frame")), "")
        if kind:
            frame = getattr(at, f"{kind}_frame")
            if frame is not None:
                yield frame
            at = getattr(at, AWAITED[kind])
        else:  # The step of an asynchronous generator has no public attribute for its generator.
            at = next((one for one in gc.get_referents(at) if hasattr(one, "ag_frame")), None)
