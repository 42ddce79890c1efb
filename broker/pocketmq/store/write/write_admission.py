"""Admission of puts: the conditions under which a store refuses them."""

from typing import final

from pocketmq.model.errors import BrokerError, DiskFull, Draining, StoreFailed
from pocketmq.store.dispatch.dispatcher import Dispatcher
from pocketmq.store.marks import Marks
from pocketmq.store.write.allocation import Reserve


@final
class WriteAdmission:
    """Checks all conditions under which puts are refused.

    refusal     error with which puts are refused; None: they are not refused
    is_ending   whether the store drains and therefore refuses all puts
    """

    __slots__ = ("_dispatcher", "_marks", "_reserve", "is_ending", "refusal")

    def __init__(
        self, marks: Marks, dispatcher: Dispatcher, reserve: Reserve, refusal: BrokerError | None
    ) -> None:
        self._marks = marks
        self._dispatcher = dispatcher
        self._reserve = reserve
        self.refusal = refusal
        self.is_ending = False

    @property
    def is_open(self) -> bool:
        """Whether `check` would pass."""
        if self.is_ending or self.refusal is not None or self._marks.failure is not None:
            return False
        return self._dispatcher.failure is None and self._reserve.released is None

    def check(self) -> None:
        """Raises StoreFailed, Draining, DiskFull or `refusal` if puts are refused."""
        self.check_room()
        if self.refusal is not None:
            raise self.refusal
        assert self.is_open

    def check_room(self) -> None:
        """Raises StoreFailed, Draining or DiskFull if nothing may be appended."""
        if self._marks.failure is not None:
            raise StoreFailed(why="it has failed before")
        if self.is_ending:
            raise Draining()
        view_failure = self._dispatcher.failure
        if view_failure is not None:
            raise DiskFull(path=view_failure.path)
        if self._reserve.released is not None:
            raise self._reserve.released
