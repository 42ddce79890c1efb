"""Two machines over one network file system that writes whole pages, as Linux's NFS client does.

Each machine caches the page of a first write as the file was then, and writes dirty pages back
whole when the file is closed. Two tasks of a pair meet in the worst order: the second runs from its
begin to its end between the first's writes and the first's close.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pytest

PAGE = 4096


class Machine:
    """Dirty pages of one machine, by file; `before_close` runs before its first page is written."""

    def __init__(self, before_close: Callable[[], None] | None = None) -> None:
        self._pages: dict[tuple[int, int], dict[int, bytearray]] = {}
        self._before_close = before_close

    def write(self, descriptor: int, content: Any, position: int) -> int:
        view = memoryview(content).cast("B")
        pages = self._pages.setdefault(_file_of(descriptor), {})
        for number in range(position // PAGE, -(-(position + len(view)) // PAGE)):
            if number not in pages:
                found = os.pread(descriptor, PAGE, number * PAGE)
                pages[number] = bytearray(found.ljust(PAGE, b"\0"))
            begin = max(position, number * PAGE)
            end = min(position + len(view), (number + 1) * PAGE)
            pages[number][begin - number * PAGE : end - number * PAGE] = view[
                begin - position : end - position
            ]
        return len(view)

    def write_back(self, descriptor: int, pwrite: Callable[[int, Any, int], int]) -> None:
        pages = self._pages.pop(_file_of(descriptor), {})
        if pages and self._before_close is not None:
            meet, self._before_close = self._before_close, None
            meet()
        size = os.fstat(descriptor).st_size
        for number, page in pages.items():
            pwrite(descriptor, page[: size - number * PAGE], number * PAGE)


def _file_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


class WideningDisk:
    """A map over two machines; `twins` also runs each task twice at the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, twins: bool = False) -> None:
        self._machines: list[Machine] = []
        self._twins = twins
        pwrite, close = os.pwrite, os.close

        def write(descriptor: int, content: Any, position: int) -> int:
            if not self._machines:
                return pwrite(descriptor, content, position)
            return self._machines[-1].write(descriptor, content, position)

        def close_after(descriptor: int) -> None:
            if self._machines:
                self._machines[-1].write_back(descriptor, pwrite)
            close(descriptor)

        monkeypatch.setattr(os, "pwrite", write)
        monkeypatch.setattr(os, "close", close_after)

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        pairs = [(task, task) for task in tasks] if self._twins else _in_pairs(tasks)
        answers = [self._meet(function, pair) for pair in pairs]
        return [found[0] for found in answers] if self._twins else list(chain(*answers))

    def _meet(self, function: Callable[[Any], Any], pair: Sequence[Any]) -> list[Any]:
        second: list[Any] = []

        def run_second() -> None:
            if len(pair) > 1 and not second:
                with self._on(Machine()):
                    second.append(function(pair[1]))

        with self._on(Machine(run_second)):
            first = function(pair[0])
        run_second()
        return [first, *second]

    @contextmanager
    def _on(self, machine: Machine) -> Iterator[None]:
        self._machines.append(machine)
        try:
            yield
        finally:
            self._machines.pop()


def _in_pairs(tasks: Sequence[Any]) -> list[Sequence[Any]]:
    return [tasks[begin : begin + 2] for begin in range(0, len(tasks), 2)]
