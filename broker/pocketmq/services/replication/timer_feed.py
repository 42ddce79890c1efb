"""The records of the timer's files for one follower: pieces of its log, then `timercheck`."""

from collections.abc import Iterator

from pocketmq.format.timer_layout import TimerProgress, decode_progress
from pocketmq.services.replication.table_record import APPEND, DROP, TableRecord
from pocketmq.store.tables.copied_files import TIMER_LOG, timer_file
from pocketmq.store.tables.copied_timer import PIECE_SIZE, CopiedTimer, TimerProof


class TimerFeed:
    """Tracks how much of a leader's timer log a follower was sent.

    proof   proof of the follower's copy from an earlier connection; None: it has none
    """

    __slots__ = ("_at", "_begin", "_proof", "_timer")

    def __init__(self, timer: CopiedTimer, proof: TimerProof | None) -> None:
        self._timer = timer
        self._proof = proof
        self._begin = self._at = -1
        """Positions of the first byte that the follower has, and of the next one to send."""

    def records(self, check: bytes | None) -> Iterator[TableRecord]:
        """Yields the records that must precede `timercheck`; reads files in the tables' thread.

        check   the content of `timercheck`: log and wheel are durable up to a position in it
        """
        progress = (check and decode_progress(check)) or TimerProgress()
        begins, size = self._timer.files()
        proof = self._proof
        if self._at >= 0:
            pass
        elif proof is not None and proof.end <= progress.log_flushed and self._timer.has(proof):
            self._begin, self._at = proof.begin, proof.end
        else:
            self._begin = self._at = begins[0] if begins else 0
            yield TableRecord(TIMER_LOG, 0, DROP)
        while begins and self._begin < begins[0]:
            yield TableRecord(timer_file(self._begin), 0, DROP)
            self._begin += size
        self._at = max(self._at, self._begin)
        while begins and self._at < progress.log_flushed:
            position = self._at % size
            count = min(PIECE_SIZE, progress.log_flushed - self._at, size - position)
            begin = self._at - position
            content = self._timer.piece(begin, position, count)
            if content:  # Else all its messages were delivered, and it was removed meanwhile.
                yield TableRecord(timer_file(begin), 0, APPEND, 0, position, size, content)
            self._at += count
        assert self._begin <= self._at
