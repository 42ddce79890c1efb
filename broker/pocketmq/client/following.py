"""Long polls of several queues.

Messages that arrive together are sorted by physical offset; the order in a queue is kept.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from math import ceil, inf
from time import monotonic
from typing import Any, Final, TypeVar

from pocketmq.client.client_error import ClientError
from pocketmq.client.values import PullPage, PullQuery
from pocketmq.client.wire import RunningCall, Wire
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus

Found = TypeVar("Found")

PAGE_COUNT: Final = 256
"""Upper limit of messages in one pull."""
WAIT_MS: Final = 15_000
"""Longest wait of one poll, in ms."""
GATHER_S: Final = 0.02
"""Time for which arrivals are gathered before they are sorted and yielded."""
RETRY_S: Final = 0.5
"""Pause between two attempts to reach an unreachable broker."""

Pull = Callable[[PullQuery], Coroutine[Any, Any, PullPage]]


def keep_quiet(text: str) -> None:
    """Discards a report."""


class BrokerWait:
    """Decides whether to wait for an unreachable broker: only if the broker has answered before.

    So a loop's first call must not wait for messages: a broker that goes away during that wait
    would not have answered.

    say           reports to the user that the broker became unreachable, or answers again
    has_answered  a call has succeeded
    """

    __slots__ = ("_say", "has_answered", "is_gone")

    def __init__(self, say: Callable[[str], None] = keep_quiet) -> None:
        self._say = say
        self.has_answered = False
        self.is_gone = False

    def answered(self) -> None:
        """Records an answer."""
        if self.is_gone:
            self._say("The broker answers again.")
        self.has_answered = True
        self.is_gone = False

    def failed(self, error: ClientError) -> None:
        """Records an error.

        Errors   this error, if it is not retryable or if no call has succeeded yet
        """
        if not (self.has_answered and error.retryable):
            raise error
        if not self.is_gone:
            self._say(f"{error.message}; trying again until Ctrl-C")
        self.is_gone = True
        assert self.has_answered


async def asked_until_answered(
    wire: Wire, patience: BrokerWait | None, ask: Callable[[], Awaitable[Found]]
) -> Found:
    """Returns the answer of a call, repeated while the broker is waited for.

    Errors   ClientError: without patience, or of a call that waiting does not help
    """
    while True:
        try:
            found = await ask()
        except ClientError as error:
            if patience is None:
                raise
            patience.failed(error)
            await wire.sleep(RETRY_S)
            continue
        if patience is not None:
            patience.answered()
        return found


@dataclass
class Watch:
    """The next pull of a queue, and the remaining wait."""

    query: PullQuery
    left_ms: float


class Following:
    """Polls of several queues.

    wire       the transport of `pull`
    wait_ms    time limit of all polls in total
    patience   waits for an unreachable broker; None: the error is raised
    """

    __slots__ = ("_deadline_ms", "_patience", "_pull", "_wait_ms", "_wire")

    def __init__(
        self,
        wire: Wire,
        pull: Pull,
        *,
        wait_ms: float = inf,
        patience: BrokerWait | None = None,
    ) -> None:
        assert wait_ms > 0, "wait_ms is not positive"
        self._wire = wire
        self._pull = pull
        self._wait_ms = wait_ms
        self._patience = patience
        self._deadline_ms = inf

    async def pages(
        self, queries: Iterable[PullQuery]
    ) -> AsyncGenerator[list[StoredMessage], None]:
        """Yields messages as they arrive, until the time limit or until all queues are deleted.

        Without `patience` it also ends when the broker stops.

        Errors   ClientError
        """
        wire = self._wire
        self._deadline_ms = monotonic() * 1000 + self._wait_ms
        watches = [Watch(query, self._wait_ms) for query in queries]
        waiting: dict[RunningCall[list[StoredMessage]], Watch] = {
            wire.begin(self._arrival(watch)): watch for watch in watches
        }
        try:
            while waiting:
                await wire.first_of(waiting)
                await wire.sleep(GATHER_S)
                messages: list[StoredMessage] = []
                failure: ClientError | None = None
                for pending in [pending for pending in waiting if pending.done()]:
                    watch = waiting.pop(pending)
                    try:
                        arrived = pending.result()
                    except ClientError as error:
                        failure = error
                        continue
                    messages += arrived
                    if arrived:
                        waiting[wire.begin(self._arrival(watch))] = watch
                if messages:
                    yield sorted(messages, key=place_in_log)
                if failure is not None:
                    raise failure
        finally:
            for pending in waiting:
                pending.cancel()

    async def _arrival(self, watch: Watch) -> list[StoredMessage]:
        """Returns a queue's next messages; none at the time limit, or if the queue was deleted."""
        patience = self._patience
        while watch.left_ms > 0:
            # After a failure, the next pull does not wait for messages. So its answer shows at once
            # that the broker is reachable again.
            is_gone = patience is not None and patience.is_gone
            wait_ms = 0 if is_gone else ceil(min(WAIT_MS, watch.left_ms))
            query = replace(watch.query, max_messages=PAGE_COUNT, wait_ms=wait_ms)
            asked_ms = monotonic() * 1000
            try:
                page = await self._pull(query)
            except ClientError as error:
                if patience is None:
                    raise
                patience.failed(error)
                await self._wire.sleep(RETRY_S)
                continue
            if patience is not None:
                patience.answered()
            if page.status is PullStatus.NO_SUCH_QUEUE:
                break
            watch.query = replace(query, queue_offset=page.next_begin_offset)
            if not page.messages and page.next_begin_offset == query.queue_offset:
                if patience is None and monotonic() * 1000 - asked_ms < wait_ms / 2:
                    break  # the broker is stopping, as it answered early
                watch.left_ms -= wait_ms
                await self._wire.sleep(GATHER_S)  # a stopping broker answers without waiting
            watch.left_ms = min(watch.left_ms, self._deadline_ms - monotonic() * 1000)
            if page.messages:
                return page.messages
        return []


def place_in_log(message: StoredMessage) -> int:
    """Returns the sort key for log order."""
    return message.physical_offset
