"""A reply that is there, and may be sent once a flush says so.

A transport that knows of it needs no task for the call: it joins the group, and asks for `result`
when it is told. Any other awaits it, like everything that handlers give.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, final

from broker.store.writing.flush_group import FlushGroup


@final
class LateReply:
    """One reply, and what is said in its place where its flush came too late.

    group   tells when it may be sent
    """

    __slots__ = ("_in_time", "_otherwise", "group")

    def __init__(
        self, group: FlushGroup, in_time: bytes, otherwise: Callable[[bytes], bytes]
    ) -> None:
        self.group = group
        self._in_time = in_time
        self._otherwise = otherwise

    def result(self) -> bytes:
        """Return what is to be sent, once the group's future is done.

        Errors   FsyncFailed
        """
        assert self.group.future.done()
        return self._in_time if self.group.future.result() else self._otherwise(self._in_time)

    def __await__(self) -> Generator[Any, None, bytes]:
        yield from asyncio.shield(self.group.future).__await__()
        return self.result()
