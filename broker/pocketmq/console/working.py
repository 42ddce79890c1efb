"""Work of pages off the event loop: rendering, and sorting of long lists.

One thread does it, so that the event loop serves other pages, and malloc adds one arena at most.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

SWITCH_S: Final = 0.001
"""Time after which the working thread lets the loop run; Python's default is 5 ms."""
_WORKER: Final = ThreadPoolExecutor(1, "page")

Answer = TypeVar("Answer")


async def worked(work: Callable[[], Answer]) -> Answer:
    """Returns the result of a function that the thread calls."""
    return await asyncio.get_running_loop().run_in_executor(_WORKER, work)


def share_processor() -> None:
    """Lets the loop interrupt the thread soon; for a process that only serves the console."""
    sys.setswitchinterval(SWITCH_S)
