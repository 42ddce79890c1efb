"""The loops of all services: each `step` is called again when it asked to be.

A step does a bounded piece of work and returns after how many ms it wants to run next; it owns no
loop, no thread and no clock. One that fails is told once and tried again: other services, and the
store, go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from broker.model.clock import Clock

Step = Callable[[int], Awaitable[int]]
"""Takes the wall clock's ms, returns the ms until it is called again."""

RETRY_PAUSE_MS: Final = 10_000

logger = logging.getLogger(__name__)


@asynccontextmanager
async def services_running(steps: Sequence[Step], clock: Clock) -> AsyncIterator[None]:
    """Call steps until the block ends."""
    tasks = [asyncio.create_task(_repeat(step, clock)) for step in steps]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _repeat(step: Step, clock: Clock) -> None:
    while True:
        pause_ms = await call_step(step, clock.wall_ms())
        await asyncio.sleep(pause_ms / 1000)


async def call_step(step: Step, now_ms: int) -> int:
    """Call a step once; one that fails is tried again after RETRY_PAUSE_MS."""
    try:
        return await step(now_ms)
    except Exception:
        logger.exception("service.failed", extra={"service": step.__qualname__})
        return RETRY_PAUSE_MS
