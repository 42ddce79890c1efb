"""Messages by key: candidates of the index, checked against the record itself.

The index knows hashes only: a hit counts when the record is of the topic and carries the key (or
unique key, or tag). Newest first. A page ends when it is full or after 10,000 steps along a chain,
and says where to go on; nothing is left out silently.
Source: DefaultMessageStore.queryMessage, without its time-based rounds.
"""

import base64
import binascii
import re
from typing import Final

from broker.format.index_layout import TAG_TYPE
from broker.format.record import decode_record
from broker.log.commit_log import CommitLog
from broker.log.hash_index import Candidate, HashIndex
from broker.model.cold_read import ColdRead
from broker.model.errors import IllegalPageToken
from broker.model.message import StoredMessage
from broker.model.results import QueryResult
from broker.model.stats import COUNT_BUCKETS, Counter, Histogram
from broker.store.reading.reader import find_record

STEPS_MAX: Final = 10_000
"""Chain steps of one page: colliding keys must not hold the event loop (0.3 µs each)."""
BYTES_MAX: Final = 8 * 1024 * 1024
"""Stored bytes of one page: a reply must fit its transport."""

_CURSOR = re.compile(r"([0-9]{17}):([0-9]{1,10}):(-?[0-9]{1,19})")


class Query:
    """Queries over one log and index."""

    __slots__ = ("_index", "_log", "candidates", "seconds", "stats", "truncated")

    def __init__(self, log: CommitLog, index: HashIndex) -> None:
        self._log = log
        self._index = index
        self.seconds = Histogram("pocketmq_query_key_seconds", "Time one query by key took.")
        self.candidates = Histogram(
            "pocketmq_query_key_candidates", "Index steps one query took.", COUNT_BUCKETS
        )
        self.truncated = Counter(
            "pocketmq_query_truncated_total", "Queries that ended before all was seen.", ("reason",)
        )
        self.stats: list[Counter | Histogram] = [self.seconds, self.candidates, self.truncated]

    def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        cursor: str = "",
        index_type: str = "",
    ) -> QueryResult:
        """Return one page of messages that carry a key, newest first.

        Units    times in ms since 1970, both ends included
        Errors   IllegalPageToken, Corruption, ColdRead
        """
        after, last_place = _parse_cursor(cursor)
        messages: list[StoredMessage] = []
        cold_reads: list[ColdRead] = []
        steps = size_sum = 0
        ended = ""
        step: Candidate | None = None
        for step in self._index.candidates(
            topic, key, begin_ms=begin_ms, end_ms=end_ms, index_type=index_type, after=after
        ):
            steps += 1
            # A real broker's restart can index records again: they lie before the last one seen.
            if step.is_match and not 0 <= last_place <= step.physical_offset:
                last_place = step.physical_offset
                message = self._read(last_place, topic, key, index_type, cold_reads)
                if message is not None and begin_ms <= message.store_timestamp_ms <= end_ms:
                    messages.append(message)
                    size_sum += message.store_size
            if len(messages) >= count_max or size_sum >= BYTES_MAX:
                ended = "count" if len(messages) >= count_max else "bytes"
                break
            if len(messages) + len(cold_reads) >= count_max:
                break
            if steps >= STEPS_MAX:
                ended = "steps"
                break
        if cold_reads:
            raise ColdRead(lambda: _fetch_all(cold_reads))
        self.candidates.observe(steps)
        if not ended or step is None:
            return QueryResult(messages, True, "")
        self.truncated.add((ended,))
        return QueryResult(messages, False, _make_cursor(step, last_place))

    def _read(
        self, place: int, topic: str, key: str, index_type: str, cold_reads: list[ColdRead]
    ) -> StoredMessage | None:
        """Return the record at a place when it carries the key; note it down when it is cold."""
        try:
            record = find_record(self._log, place)
        except ColdRead as cold:
            cold_reads.append(cold)
            return None
        if record is None:
            return None
        message = decode_record(record)
        if message.topic != topic:
            return None
        if index_type == TAG_TYPE:
            return message if message.tag == key else None
        return message if message.unique_key == key or key in message.keys else None


def _fetch_all(cold_reads: list[ColdRead]) -> None:
    for cold in cold_reads:
        cold.fetch()


def _make_cursor(step: Candidate, place: int) -> str:
    text = f"{step.file_name}:{step.number}:{place}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _parse_cursor(cursor: str) -> tuple[tuple[str, int] | None, int]:
    if not cursor:
        return None, -1
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
    except (ValueError, binascii.Error) as error:
        raise IllegalPageToken(token=cursor) from error
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise IllegalPageToken(token=cursor)
    return (match[1], int(match[2])), int(match[3])
