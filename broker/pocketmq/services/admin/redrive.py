"""Redrive: sends dead letters again, to their original topic, as their producers sent them.

When the redriven messages are durable, the group's offset in %DLQ%group advances. A crash before
that leaves the offset unchanged, so that the next redrive sends these messages again. All groups of
the original topic receive redriven messages.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from pocketmq.format.dead_letter import Revealed, reveal
from pocketmq.model.administration import Redriven
from pocketmq.model.reading import ReadRange
from pocketmq.services.admin.dead_letters import WaitingDeadLetters, sendable_queues, waiting_ranges
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

MESSAGES_MAX: Final = 1_024
"""Upper limit of messages that one redrive sends; callers repeat the call to send more."""
PIECE_BYTES_MAX: Final = 1024 * 1024
"""Upper limit of bytes of one put; a larger message is put alone."""


class Redrive:
    """Sends dead letters again; each call continues where the previous call ended.

    store_host   packed address of this broker
    """

    __slots__ = ("_piece_bytes", "_store", "_store_host", "_turn")

    def __init__(self, store: MessageStore, store_host: bytes) -> None:
        assert store_host, "no store host"
        self._store = store
        self._store_host = store_host
        # All records of a piece are in one file of the log.
        self._piece_bytes = min(PIECE_BYTES_MAX, store.settings.commit_log_file_size_bytes // 2)
        self._turn = asyncio.Lock()

    async def redrive(
        self,
        group: str,
        count_max: int = 0,
        *,
        topic: str = "",
        dry_run: bool = False,
        until: Mapping[int, int] | None = None,
        check: Callable[[str], object] = bool,
    ) -> list[Redriven]:
        """Sends the oldest pending dead letters again; durable when this returns.

        count_max   upper limit of messages to send; 0, or above MESSAGES_MAX: MESSAGES_MAX
        topic       target topic; "": the original topic of each message
        dry_run     whether to return only the targets
        until       by queue id, the end of the dead letters to send, as `ends` returned it: later
                    ones stay pending; None: all
        check       raises an error for a topic to which the caller may not send
        Errors      IllegalGroup, GroupNotFound; IllegalTopic, TopicNotFound, TopicNotWritable,
                    UnsupportedTopic, SystemTopic, OriginUnknown, StorageError, DiskSlow, errors of
                    puts: some dead letters may have been sent
        """
        self._store.tables.groups.existing(group)
        if topic:
            sendable_queues(self._store, topic)
        left = min(count_max or MESSAGES_MAX, MESSAGES_MAX)
        done: list[Redriven] = []
        async with self._turn:
            for waiting in waiting_ranges(self._store, group):
                queue = waiting if until is None else _before(waiting, until)
                while queue.begin < queue.end and left:
                    letters, following = await self._letters(queue, topic, left, check)
                    if dry_run:
                        done += [_planned(queue, letter) for letter in letters]
                    else:
                        # A cancellation must not leave the offset below sent messages.
                        done += await asyncio.shield(self._send(queue, letters, following))
                    left -= len(letters)
                    assert queue.begin < following <= queue.end, "the offset does not advance"
                    queue = queue._replace(begin=following)
        return done

    def ends(self, group: str) -> dict[int, int]:
        """Returns the present ends of a group's dead letters, by queue id.

        Errors   GroupNotFound
        """
        return {queue.queue_id: queue.end for queue in waiting_ranges(self._store, group)}

    async def _letters(
        self, queue: WaitingDeadLetters, topic: str, left: int, check: Callable[[str], object]
    ) -> tuple[list[Revealed], int]:
        """Returns the first dead letters of a queue, and the offset after them."""

        def queue_count_of(name: str) -> int:
            check(name)
            return sendable_queues(self._store, name)

        count = min(left, queue.end - queue.begin)
        wanted = ReadRange(queue.topic, queue.queue_id, queue.begin, count, self._piece_bytes)
        found = await value_of(self._store.reading.pull(wanted))
        letters = [
            reveal(
                record,
                queue.group,
                topic=topic,
                store_host=self._store_host,
                queue_count_of=queue_count_of,
            )
            for record in found.records
        ]
        return letters, found.next_begin_offset

    async def _send(
        self, queue: WaitingDeadLetters, letters: list[Revealed], following: int
    ) -> list[Redriven]:
        writing, offsets = self._store.writing, self._store.tables.offsets
        results = await writing.put([letter.run for letter in letters]) if letters else []
        await self._store.all_durable()
        await offsets.set_many(queue.group, queue.topic, {queue.queue_id: following})
        return [
            _planned(queue, letter)._replace(queue_offset=result.queue_offset)
            for letter, result in zip(letters, results, strict=True)
        ]


def _before(queue: WaitingDeadLetters, until: Mapping[int, int]) -> WaitingDeadLetters:
    return queue._replace(end=min(queue.end, until.get(queue.queue_id, 0)))


def _planned(queue: WaitingDeadLetters, letter: Revealed) -> Redriven:
    destination = letter.run[0]
    return Redriven(
        letter.message_id,
        queue.queue_id,
        letter.dead_queue_offset,
        destination.topic,
        destination.queue_id,
        None,
    )
