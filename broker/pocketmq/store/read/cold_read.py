"""Reads that may wait for the disk: they return a value, or an awaitable of the value.

    read ──in memory──────────────────────────────────► value
      └──ColdRead──► Later ──fetched in a thread, read again──► value

A read changes nothing, so that it can be repeated. A `Later` fetches nothing until it is awaited.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from pocketmq.files.mapped_file import ColdRead
from pocketmq.model.errors import DiskSlow

TRIES_MAX: Final = 1_000
"""Upper limit of fetches for one read: if these do not suffice, the system evicts its pages."""

Found = TypeVar("Found")
NowOrLater: TypeAlias = Found | Awaitable[Found]


class Later(Awaitable[Found]):
    """Awaitable value of a read that waits for the disk."""

    __slots__ = ("_begin",)

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Found]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, Found]:
        return self._begin().__await__()


async def value_of(found: NowOrLater[Found]) -> Found:
    """Returns the value of a read; awaits the value if it is not in memory."""
    return await found if isinstance(found, Awaitable) else found


class ColdReads:
    """Repeats reads after a thread of `pool` has read the missing pages."""

    __slots__ = ("_pool", "_turn")

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._turn = asyncio.Lock()

    def now_or_later(self, read: Callable[[], Found]) -> NowOrLater[Found]:
        """Returns the result of a read, or an awaitable of it.

        Errors   those of the read; the awaitable also raises DiskSlow
        """
        try:
            return read()
        except ColdRead as cold:
            return Later(partial(self.again, read, cold.fetch))

    async def again(
        self, read: Callable[[], Found], fetch: Callable[[], None] | None = None
    ) -> Found:
        """Runs `fetch`, then repeats a read until all its pages are in memory.

        Errors   those of the read; DiskSlow
        """
        for _ in range(TRIES_MAX):
            if fetch is not None:
                await self.apart(fetch)
            try:
                return read()
            except ColdRead as cold:
                fetch = cold.fetch
        raise DiskSlow(tries=TRIES_MAX)

    async def in_turn(
        self, read: Callable[[], Found], has_more: Callable[[Found], bool], tries: Iterator[int]
    ) -> Found:
        """Returns one page of a search; searches alternate, one page in each loop iteration.

        has_more   returns whether the search continues after this page
        tries      yields once for each fetch that all pages of the search may still make
        Errors     those of the read; DiskSlow
        """
        while True:
            async with self._turn:
                try:
                    found = read()
                except ColdRead as cold:
                    fetch = cold.fetch
                else:
                    if has_more(found):
                        await asyncio.sleep(0)
                    return found
            if next(tries, None) is None:
                raise DiskSlow(tries=TRIES_MAX)
            await self.apart(fetch)

    async def apart(self, job: Callable[[], Found], end: Callable[[], None] | None = None) -> Found:
        """Runs a job in a thread, even if the caller is cancelled; then calls `end` on the loop."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, job)
        if end is not None:
            running.add_done_callback(lambda _: end())
        return await asyncio.shield(running)
