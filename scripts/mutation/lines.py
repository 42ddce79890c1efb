"""Records which lines of some files a test executes, by the interpreter's trace function."""

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

Lines = dict[str, set[int]]
"""Line numbers by the name of their file."""


class LineRecorder:
    """Collects executed lines of some files; calls in other files cost one lookup each."""

    def __init__(self, files: Collection[str]) -> None:
        self._files = frozenset(files)
        self._lines: Lines = {}
        self._known: dict[int, tuple[set[int] | None, CodeType]] = {}
        """By identity, as code of two files may be equal; the entry keeps the code object alive."""

    @contextmanager
    def recording(self) -> Iterator[Lines]:
        """Records the lines that the block executes, also in threads that it starts."""
        lines: Lines = {}
        self._lines = lines
        self._known = {}
        before = sys.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield lines
        finally:
            sys.settrace(before)
            threading.settrace(None)

    def _called(self, frame: FrameType, event: str, given: Any) -> Any:
        code = frame.f_code
        try:
            lines, _ = self._known[id(code)]
        except KeyError:
            name = code.co_filename
            lines = self._lines.setdefault(name, set()) if name in self._files else None
            self._known[id(code)] = lines, code
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def executed(frame: FrameType, event: str, given: Any) -> Any:
            lines.add(frame.f_lineno)
            return executed

        return executed
