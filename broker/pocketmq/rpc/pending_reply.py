"""Replies that are encoded already, but are sent only after a flush.

PocketMQ's own transport needs no task for such a call: it joins the flush group, and sends the
reply after the flush. grpcio awaits the reply.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import final

from pocketmq.store.write.flush_group import FlushGroup


@final
class Late:
    """Creates the pending replies of one method.

    group       returns a flush group, which ends once all messages stored so far are durable
    otherwise   returns the reply to send after a timeout of the flush; None: the call waits for the
                next flush
    """

    __slots__ = ("_last", "group", "otherwise")

    def __init__(
        self, group: Callable[[], FlushGroup], otherwise: Callable[[bytes], bytes] | None
    ) -> None:
        self.group = group
        self.otherwise = otherwise
        self._last: FlushGroup | None = None

    def reply(self, in_time: bytes) -> "PendingReply":
        """Returns a reply that waits until everything stored so far is durable.

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
    """A reply that waits for a flush.

    group     the flush group
    in_time   the encoded reply, sent if the flush is in time
    user      the caller, "" without authentication
    """

    __slots__ = ("group", "in_time", "late", "user")

    def __init__(self, late: Late, group: FlushGroup, in_time: bytes) -> None:
        self.late = late
        self.group = group
        self.in_time = in_time
        self.user = ""

    def __await__(self) -> Generator[None, None, bytes]:
        """Waits for the flush; returns the reply to send.

        Errors   FsyncFailed
        """
        group, late = self.group, self.late
        while not (yield from asyncio.shield(group.future).__await__()):
            if late.otherwise is not None:
                return late.otherwise(self.in_time)
            group = late.group()
        return self.in_time
