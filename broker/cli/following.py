"""Messages of several queues as they come: a long poll on every queue, first come first shown.

What arrives together is sorted by its place in the log; the order within a queue is kept.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from math import ceil, inf
from typing import Any, Final

from broker.cli.documents import PAGE_COUNT
from broker.cli.watching import Patience
from broker.client.values import ClientError, PullPage, PullQuery
from broker.model.message import StoredMessage
from broker.model.reading import PullStatus

WAIT_MS: Final = 15_000
"""How long one poll waits."""
GATHER_S: Final = 0.02
"""So long what arrives is gathered before it is sorted and shown."""
RETRY_S: Final = 0.5
"""Between two tries to reach a broker that went away."""

Pull = Callable[[PullQuery], Coroutine[Any, Any, PullPage]]
Show = Callable[[Sequence[StoredMessage]], bool]
"""Prints messages; False: that was the last one asked for."""
Arrivals = asyncio.Queue[list[StoredMessage] | None]
"""What came, and None for each queue from which no more will come."""


async def follow(
    pull: Pull,
    queries: Sequence[PullQuery],
    show: Show,
    *,
    wait_ms: float = inf,
    patience: Patience | None = None,
) -> None:
    """Show messages as they come, until `show` has enough or the time is over.

    wait_ms    for all queues together
    patience   waits for a broker that goes away; None: that is an error
    Errors     ClientError
    """
    arrivals: Arrivals = asyncio.Queue()
    deadline = asyncio.get_running_loop().time() + wait_ms / 1000
    try:
        async with asyncio.TaskGroup() as tasks:
            watchers = [
                tasks.create_task(_watch(pull, query, arrivals, deadline, patience))
                for query in queries
            ]
            await _show_all(arrivals, len(watchers), show)
            for watcher in watchers:
                watcher.cancel()
    except BaseExceptionGroup as errors:
        raise _first(errors) from errors


async def _watch(
    pull: Pull, query: PullQuery, arrivals: Arrivals, deadline: float, patience: Patience | None
) -> None:
    """Put what comes to one queue into the arrivals."""
    clock = asyncio.get_running_loop().time
    left_ms = (deadline - clock()) * 1000
    while left_ms > 0:
        # A broker that was away is asked for what there is, so that it is known to be back.
        is_gone = patience is not None and patience.is_gone
        wait_ms = 0 if is_gone else ceil(min(WAIT_MS, left_ms))
        try:
            page = await pull(replace(query, max_messages=PAGE_COUNT, wait_ms=wait_ms))
        except ClientError as error:
            if patience is None:
                raise
            patience.failed(error)
            await asyncio.sleep(RETRY_S)
            continue
        if patience is not None:
            patience.answered()
        if page.status is PullStatus.NO_SUCH_QUEUE:
            break
        if page.messages:
            arrivals.put_nowait(page.messages)
        elif page.next_begin_offset == query.queue_offset:
            left_ms -= wait_ms
            await asyncio.sleep(GATHER_S)  # a broker that stops answers at once
        left_ms = min(left_ms, (deadline - clock()) * 1000)
        query = replace(query, queue_offset=page.next_begin_offset)
    arrivals.put_nowait(None)


async def _show_all(arrivals: Arrivals, open_count: int, show: Show) -> None:
    """Show what arrives, until `show` has enough or no queue is left."""
    while open_count:
        found = [await arrivals.get()]
        await asyncio.sleep(GATHER_S)
        while not arrivals.empty():
            found.append(arrivals.get_nowait())
        open_count -= found.count(None)
        assert open_count >= 0
        messages = [message for page in found if page for message in page]
        if messages and not show(sorted(messages, key=place_in_log)):
            return


def place_in_log(message: StoredMessage) -> int:
    """Return what sorts messages into the order of the log."""
    return message.physical_offset


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
