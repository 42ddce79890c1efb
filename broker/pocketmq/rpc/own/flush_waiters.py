"""Requests whose encoded replies wait for a flush; base of the classes for gRPC and remoting."""

import asyncio

from pocketmq.model.errors import BrokerError
from pocketmq.native.machine import i64
from pocketmq.rpc.admission import Holder
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.serving import ServedMethod


class FlushWaiters:
    """Requests of one connection and one method that wait for the same flush.

    group    the flush group
    count    number of requests that still wait
    """

    __slots__ = (
        "_begun_s", "_holder", "_late", "_replies", "_served", "_user", "count", "group",
    )  # fmt: skip

    def __init__(
        self, served: ServedMethod, late: PendingReply, holder: Holder, begun_s: float
    ) -> None:
        self._served = served
        self._late = late.late
        self._user = late.user
        self._holder = holder
        self._begun_s: float = begun_s
        self._replies: list[bytes] = []
        self.group = late.group
        self.count: i64 = 0

    def takes(self, late: PendingReply) -> bool:
        """Returns whether a reply of the same method can wait together with these requests."""
        is_same = late.group is self.group and late.late is self._late
        return is_same and late.user == self._user

    def room(self) -> i64:
        """Returns how many more requests may be added before the class's limit is checked again."""
        gate = self._served.gate
        limit: i64 = gate.tight
        entered: i64 = gate.count
        room: i64 = limit - entered - self.count
        if room <= 0 and not self._user:
            free: i64 = gate.room(self._holder.weights)
            return free - self.count
        return room

    def begin(self) -> None:
        """Counts the added requests and joins the flush group; called once."""
        assert self.count > 0, "no request was added"
        self._served.gate.enter(self._holder.weights, self.count)
        self._served.stats.begin(self.count)
        self.group.join(self.hear)

    def hear(self, flushed: asyncio.Future[bool]) -> None:
        """Answers all requests when the flush has ended, or makes them wait for the next flush."""
        if self.count == 0:
            return
        error = flushed.exception()
        if error is not None:
            assert isinstance(error, Exception), "an error that ends the process"
            self._refuse(error)
        elif flushed.result():
            self._answer(self._replies)
        elif self._late.otherwise is None:
            self._wait_on()
        else:
            self._answer([self._late.otherwise(reply) for reply in self._replies])

    def _wait_on(self) -> None:
        try:
            self.group = self._late.group()
        except BrokerError as error:
            self._refuse(error)
        else:
            self.group.join(self.hear)

    def _answer(self, replies: list[bytes]) -> None:
        raise NotImplementedError

    def _refuse(self, error: Exception) -> None:
        raise NotImplementedError
