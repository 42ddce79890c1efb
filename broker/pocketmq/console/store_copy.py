"""Copies the store of a broker on this machine: `pocketmq store backup` in a process of its own.

The process has a low priority, so that it takes little processor time from the broker. A setting
names the directory, so that no visitor chooses where files are written.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any, Final

from pocketmq.native import PURE_VARIABLE

NICE: Final = 10
"""Priority of the process; 0 is that of the broker."""
FAILURE_MAX: Final = 2_000
"""Characters of an error that are kept."""


class StoreCopy:
    """The last copy, running or ended.

    target    directory of the copy
    begun_s, took_s   monotonic time of its begin, and its duration
    made      JSON output of the command; empty before the first copy, and if it printed none
    failure   error of the command; "": none
    """

    def __init__(self, target: str) -> None:
        assert target, "a copy needs a directory"
        self.target = target
        self.begun_s = self.took_s = 0.0
        self.made: dict[str, Any] = {}
        self.failure = ""
        self._running: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether a copy is being made."""
        return self._running is not None and not self._running.done()

    @property
    def age_ms(self) -> float:
        """Time since the begin of the last copy."""
        return 1000 * (time.monotonic() - self.begun_s)

    def begin(self, directory: str) -> None:
        """Begins to copy a store, unless a copy is running."""
        if not self.is_running:
            self.begun_s, self.made, self.failure = time.monotonic(), {}, ""
            self._running = asyncio.Task(self._run(directory))

    async def _run(self, directory: str) -> None:
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "pocketmq", "store", "backup", "-o", "json",
                directory, self.target, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name != PURE_VARIABLE},
            )  # fmt: skip
            with suppress(OSError):  # It may have ended.
                os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            output, errors = await process.communicate()
            self.made = json.loads(output) if output.strip() else {}
            if process.returncode:
                self.failure = errors.decode(errors="replace").strip()[-FAILURE_MAX:] or "it failed"
        except (OSError, ValueError) as error:
            self.failure = str(error)
        finally:
            self.took_s = time.monotonic() - self.begun_s

    async def wait(self) -> None:
        """Returns once no copy is running."""
        if self._running is not None:
            await asyncio.wait([self._running])

    async def close(self) -> None:
        """Ends a running copy; the next copy continues it."""
        if self.is_running and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        await self.wait()
