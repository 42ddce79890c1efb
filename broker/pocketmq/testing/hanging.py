"""Notices of tests that wait for messages without an end.

    test ─► Client.tail, consume or answer_checks ─► no message for NOTICE_S ─► a line on stderr

The line names the test, the line that waits, and what would end the wait. The test goes on. Waits
in coroutines are not seen.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Timer, main_thread
from types import FrameType
from typing import Final

NOTICE_S: Final = 10.0
PACKAGE: Final = __name__.partition(".")[0]
CLIENTS: Final = (f"{PACKAGE}.client.client", f"{PACKAGE}.client.async_client")
ENDLESS: Final[Mapping[str, str]] = {
    "tail": (
        "no message came; without last_count or since_ms a tail begins at the ends of the queues, "
        "and without follow=False it never ends: TailQuery(topic, last_count=10, follow=False)"
    ),
    "consume": (
        "no message came for the group; rocketmq.lag(group) and rocketmq.messages(topic) show what "
        "there is, and receive(ReceiveQuery(group, topic, wait_ms=1_000)) ends without a message"
    ),
    "answer_checks": (
        "no transaction is checked; checks are of the producer group of the message, and "
        "rocketmq.advance_clock(60) makes them due"
    ),
}
"""Methods of the client that wait for ever -> what ends the wait."""


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
    method = ""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in CLIENTS and frame.f_code.co_name in ENDLESS:
            method = frame.f_code.co_name
        elif method and name.partition(".")[0] != PACKAGE:
            where = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
            return (
                f"{test} has run for {NOTICE_S:g} s and waits in {method} at {where}: "
                f"{ENDLESS[method]}"
            )
        frame = frame.f_back
    return ""
