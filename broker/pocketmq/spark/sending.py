"""Sends the messages of a task in batches that depend only on the task's rows."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from pocketmq.client import ClientError, Message
from pocketmq.model.errors import RequestError
from pocketmq.spark.message_rows import RowRefused, column_of

BATCH_COUNT_MAX: Final = 1_024
"""Most messages of a request: the broker's limit."""
BATCH_SIZE_MAX: Final = 1024 * 1024
"""Bytes of bodies at which a batch is sent; brokers accept 4 MiB by default."""
BUFFER_COUNT_MAX: Final = 32 * BATCH_COUNT_MAX
BUFFER_SIZE_MAX: Final = 32 * 1024 * 1024
THREADS: Final = 4
PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses before a failed batch is sent again: a broker restarts meanwhile."""

Send = Callable[[Sequence[Message]], Any]
Rows = list[tuple[int, Message]]


class BatchPlace(NamedTuple):
    """Properties that all messages of a batch share."""

    topic: str
    message_group: str | None
    queue_id: int | None
    is_delayed: bool
    priority: int | None


def place_of(message: Message) -> BatchPlace:
    """Returns the place of a message."""
    delays = (message.delay_level, message.deliver_at_ms, message.delay_ms)
    return BatchPlace(
        message.topic, message.message_group, message.queue_id,
        any(delay is not None for delay in delays), message.priority,
    )  # fmt: skip


class BatchSender:
    """Sends messages batch by batch; the messages of a batch have one `BatchPlace`.

    Messages of one group are sent in their order, one batch after another.

    send     sends one batch, all or nothing
    place    description of the rows for errors
    """

    __slots__ = ("_pause", "_place", "_rows", "_send", "_size", "count")

    def __init__(self, send: Send, place: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._send, self._place, self._pause = send, place, pause
        self._rows: Rows = []
        self._size = 0
        self.count = 0

    def add(self, number: int, message: Message) -> None:
        """Adds the message of a row; sends all added messages once they fill a batch.

        Errors   RowRefused, ClientError
        """
        self._rows.append((number, message))
        self._size += len(message.body)
        if len(self._rows) >= BUFFER_COUNT_MAX or self._size >= BUFFER_SIZE_MAX:
            self.flush()

    def flush(self) -> None:
        """Sends all messages that were added.

        Errors   RowRefused, ClientError
        """
        rows, self._rows, self._size = self._rows, [], 0
        lots: dict[Any, Rows] = {}
        for number, message in rows:
            lots.setdefault(place_of(message), []).append((number, message))
        queues = [
            queue
            for shared, lot in lots.items()
            for queue in _queues_of(shared, list(batches_of(lot)))
        ]
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(self._send_all, queues):
                pass
        self.count += len(rows)
        assert not self._rows, "rows were added during a flush"

    def _send_all(self, batches: list[Rows]) -> None:
        for batch in batches:
            self._send_batch(batch)

    def _send_batch(self, batch: Rows) -> None:
        for pause_s in (*PAUSES_S, None):
            try:
                self._send([message for _, message in batch])
            except ClientError as error:
                if isinstance(error, RequestError):
                    self._refused(batch, error)
                    return
                if pause_s is None or not (error.retryable or error.is_uncertain):
                    raise
                self._pause(pause_s)
            else:
                return

    def _refused(self, batch: Rows, error: ClientError) -> None:
        """Sends the halves of a refused batch, until the refused row is known."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self._send_batch(batch[:middle])
            self._send_batch(batch[middle:])
            return
        ((number, message),) = batch
        column = column_of(error)
        where = f", column {column}" if column else ""
        raise RowRefused(
            f"{self._place}, row {number}{where} (topic {message.topic}): {error}"
        ) from error


def batches_of(rows: Rows) -> Iterator[Rows]:
    """Divides rows into batches."""
    batch: Rows = []
    size = 0
    for row in rows:
        length = len(row[1].body)
        if batch and (len(batch) == BATCH_COUNT_MAX or size + length > BATCH_SIZE_MAX):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch


def _queues_of(shared: BatchPlace, batches: list[Rows]) -> list[list[Rows]]:
    """Returns lists of batches that may be sent at the same time."""
    is_ordered = shared.message_group is not None or shared.queue_id is not None
    return [batches] if is_ordered else [[batch] for batch in batches]
