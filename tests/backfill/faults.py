"""Faults of a task, each of which happens once: the next try finds the mark of the first.

mapper = faulty(mapper, die_after, marks)      the first task of each kind dies once
"""

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pocketmq.rebuild.plan import Mapper

Task = Callable[[Any], Any]
Fault = Callable[[str, Task, Any], Any]


def faulty(mapper: Mapper, fault: Fault, marks: Path) -> Mapper:
    """A map whose tasks meet a fault, once for each function that is mapped."""

    def run(function: Task, tasks: Sequence[Any]) -> Iterable[Any]:
        mark = str(marks / f"{fault.__name__}-{function.__name__}")
        return mapper(partial(fault, mark, function), tasks)

    return run


def _is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def die_after(mark: str, function: Task, task: Any) -> Any:
    """The worker dies after it has written everything and before it reports that."""
    answer = function(task)
    if _is_first(mark):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def die_at_third_write(mark: str, function: Task, task: Any) -> Any:
    """The worker dies between two writes."""
    if not _is_first(mark):
        return function(task)
    write, left = os.pwrite, 3

    def counted(descriptor: int, content: Any, position: int) -> int:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(descriptor, content, position)

    os.pwrite = counted
    try:
        return function(task)
    finally:
        os.pwrite = write


def fail_once(mark: str, function: Task, task: Any) -> Any:
    """The disk answers with an error, once."""
    if _is_first(mark):
        raise OSError(5, "Input/output error")
    return function(task)


def fail_always(_: str, function: Task, task: Any) -> Any:
    """The disk is full."""
    raise OSError(28, "No space left on device")
