"""Replies that are ready, and are sent after a flush.

A transport that supports them needs no task for such a call: it joins the group, and sends the
replies at the flush. Other transports await the reply, like any awaitable of a handler.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import final

from pocketmq.store.write.flush_group import FlushGroup


@final
class Late:
    """Makes replies of one method that wait.

    group       returns a future that ends once the log is durable as far as it goes now
    otherwise   returns the reply that is sent instead when the flush comes too late; None: such
                a one waits on
    """

    __slots__ = ("_last", "group", "otherwise")

    def __init__(
        self, group: Callable[[], FlushGroup], otherwise: Callable[[bytes], bytes] | None
    ) -> None:
        self.group = group
        self.otherwise = otherwise
        self._last: FlushGroup | None = None

    def reply(self, in_time: bytes) -> "PendingReply":
        """Returns a reply that waits for all that was stored before.

        Errors   FsyncFailed
        """
        group = self._last
        if group is None or not group.is_open:
            group = self._last = self.group()
        else:
            group.count += 1
        assert not group.future.cancelled()
        return PendingReply(self, group, in_time)


@final
class PendingReply:
    """One reply.

    group     ends when it may be sent
    in_time   the reply that is sent then
    user      the caller, "" where users are not checked
    """

    __slots__ = ("group", "in_time", "late", "user")

    def __init__(self, late: Late, group: FlushGroup, in_time: bytes) -> None:
        self.late = late
        self.group = group
        self.in_time = in_time
        self.user = ""

    def __await__(self) -> Generator[None, None, bytes]:
        """Returns the reply to send, once it may be sent.

        Errors   FsyncFailed
        """
        group, late = self.group, self.late
        while not (yield from asyncio.shield(group.future).__await__()):
            if late.otherwise is not None:
                return late.otherwise(self.in_time)
            group = late.group()
        return self.in_time
