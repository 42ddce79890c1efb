"""Finds messages by key: takes candidates from the index and checks their records.

The index contains only hashes. A candidate matches if its record has the topic and the key (or
unique key, or tag). A page ends when it is full or after STEPS_MAX, and contains a cursor for the
next page. If a chain or record was damaged, the last page is marked as incomplete.
Source: DefaultMessageStore.queryMessage, without its time-based rounds.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from pocketmq.files.mapped_file import ColdRead
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.hash_index import Candidate, HashIndex
from pocketmq.model.errors import Corruption, IllegalPageToken
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import KeyRange, QueryResult
from pocketmq.model.stats import COUNT_BUCKETS, Counter, Histogram

STEPS_MAX: Final = 10_000
"""Upper limit of chain steps for one page, of 0.3 µs each: many keys may have equal hashes."""
STEPS_OF_A_MISS: Final = 40
"""Steps charged for a record with another key: reading it takes 10 to 20 µs."""

_CURSOR = re.compile(r"([0-9]{17}):([0-9]{1,10}):(-?[0-9]{1,19})(!?)")
"""Index file, entry and physical offset of the last step; `!` after damage."""


class KeySearch:
    """Searches by key over one log and index."""

    __slots__ = (
        "_index", "_is_ours", "_is_purged", "_log", "_message_at", "candidates", "seconds", "stats",
        "truncated",
    )  # fmt: skip

    def __init__(
        self,
        log: CommitLog,
        index: HashIndex,
        message_at: Callable[[int], StoredMessage | None],
        *,
        is_purged: Callable[[StoredMessage], bool] = lambda _: False,
        is_ours: bool = False,
    ) -> None:
        """Arguments of a search.

        message_at   reads the record at a physical offset; may raise ColdRead and Corruption
        is_purged    returns whether a message in the log may not be read
        is_ours      whether only PocketMQ wrote the index; invalid links and entries then count as
                     damage (RocketMQ leaves some after a crash)
        """
        self._log = log
        self._message_at = message_at
        self._is_purged = is_purged
        self._is_ours = is_ours
        self._index = index
        self.seconds = Histogram("pocketmq_query_key_seconds", "Duration of one query by key.")
        self.candidates = Histogram(
            "pocketmq_query_key_candidates", "Index entries that one query visited.", COUNT_BUCKETS
        )
        self.truncated = Counter(
            "pocketmq_query_truncated_total",
            "Queries that ended before they had searched everything.",
            ("reason",),
        )
        self.stats: list[Counter | Histogram] = [self.seconds, self.candidates, self.truncated]

    def by_key(self, wanted: KeyRange) -> QueryResult:
        """Returns one page of messages that have a key, newest first.

        Errors   IllegalPageToken, ColdRead, ReadFailed; Corruption: only damaged records were found
        """
        topic, key, count_max, begin_ms, end_ms, cursor, index_type, bytes_max, lowest, _ = wanted
        after, last_place, was_damaged = _parse_cursor(cursor)
        messages: list[StoredMessage] = []
        cold_reads: list[ColdRead] = []
        damages: list[Corruption | None] = [None] if was_damaged else []
        steps = misses = size_sum = 0
        ended = ""
        step: Candidate | None = None
        for step in self._index.candidates(
            topic, key, begin_ms=begin_ms, end_ms=end_ms, index_type=index_type, after=after,
            lowest=lowest,
        ):  # fmt: skip
            steps += 1
            if not 0 <= step.physical_offset < self._log.appended:  # BROKEN, or outside the log
                damages += [None] if self._is_ours else []
            # RocketMQ may index records again after a restart: such duplicates are skipped.
            elif step.is_match and not 0 <= last_place <= step.physical_offset:
                last_place = step.physical_offset
                message = self._read(last_place, wanted, cold_reads, damages)
                misses += message is None
                if message is not None and begin_ms <= message.store_timestamp_ms <= end_ms:
                    messages.append(message)
                    size_sum += message.store_size
            if len(messages) >= count_max or size_sum >= bytes_max:
                ended = "count" if len(messages) >= count_max else "bytes"
                break
            if len(messages) + len(cold_reads) >= count_max:
                break
            if steps + misses * STEPS_OF_A_MISS >= STEPS_MAX:
                ended = "steps"
                break
        assert len(messages) + misses <= steps
        if cold_reads:
            raise ColdRead(lambda: _fetch_all(cold_reads))
        self.candidates.observe(steps)
        if ended and step is not None:
            self.truncated.add((ended,))
            return QueryResult(messages, False, _make_cursor(step, last_place, bool(damages)))
        if damages:
            self.truncated.add(("damage",))
            found = next((error for error in damages if error is not None), None)
            if found is not None and not messages:
                raise found
        return QueryResult(messages, not damages, "")

    def _read(
        self, place: int, wanted: KeyRange, cold_reads: list[ColdRead],
        damages: list[Corruption | None],
    ) -> StoredMessage | None:  # fmt: skip
        """Returns the message at a physical offset if it has the key and was not purged, else None.

        Effects   adds to `cold_reads` and `damages`; an expired record is no damage
        """
        try:
            message = self._message_at(place)
        except ColdRead as cold:
            cold_reads.append(cold)
            return None
        except Corruption as error:
            damages.append(error)
            return None
        if message is None:
            damages += [None] if self._is_ours and place >= self._log.min_offset else []
            return None
        keys = [message.tag] if wanted.index_type else [message.unique_key, *message.keys]
        is_match = message.topic == wanted.topic and wanted.key in keys
        is_shown = is_match and (wanted.with_purged or not self._is_purged(message))
        return message if is_shown else None


def _fetch_all(cold_reads: list[ColdRead]) -> None:
    for cold in cold_reads:
        cold.fetch()


def _make_cursor(step: Candidate, place: int, is_damaged: bool) -> str:
    text = f"{step.file_name}:{step.number}:{place}{'!' if is_damaged else ''}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _parse_cursor(cursor: str) -> tuple[tuple[str, int] | None, int, bool]:
    if not cursor:
        return None, -1, False
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
    except (ValueError, binascii.Error) as error:
        raise IllegalPageToken(token=cursor) from error
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise IllegalPageToken(token=cursor)
    return (match[1], int(match[2])), int(match[3]), bool(match[4])
