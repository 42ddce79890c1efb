"""Parses the options of streams, in addition to those of `backfill/request.py`.

    path, or endpoint      the directory of a store, or a broker: host:port, tls://host:port
    access_key, secret_key   a user of the broker
    topic, topicsPattern   names, separated by commas; a regular expression
    startingOffsets        earliest (default), latest, or JSON {"orders": {"0": 12, "1": -2}} with
                           -2 for earliest and -1 for latest
    startingTimestamp      begins with messages stored at this time or later
    maxOffsetsPerTrigger   upper limit of the messages of a batch, before `tags` or `sql` applies
    minOffsetsPerTrigger   a batch waits for so many messages, at most for maxTriggerDelay (15m)
    failOnDataLoss         true (default): fails if messages were removed before they were read
    tags, sql              an expression that the broker applies

Starting options apply only to a stream without a checkpoint.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

from pocketmq.backfill.request import (
    MESSAGES,
    TRUTHS,
    Request,
    number_in,
    one_of,
    request_from,
    time_in,
)
from pocketmq.config.units import duration_from_text
from pocketmq.model.message import QueueKey

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
EARLIEST_NUMBER: Final = -2
LATEST_NUMBER: Final = -1
STREAM_OPTIONS: Final = (
    "endpoint", "access_key", "secret_key", "topicsPattern", "startingOffsets",
    "startingTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "failOnDataLoss", "tags", "sql",
)  # fmt: skip
_OF_BROKERS: Final = ("access_key", "secret_key", "tags", "sql")
_OF_BATCHES: Final = (
    "queue_begin", "queue_upto", "begin", "upto", "since", "until", "queue_id", "ranges",
)  # fmt: skip
DELAY: Final = "15m"
_STREAM_NAMES: Final = {name.lower(): name for name in STREAM_OPTIONS}


@dataclass(slots=True)
class BatchMinimum:
    """Delays a batch until it has enough messages, or the query waited long enough.

    count        fewest messages of a batch; 0: no minimum
    delay_ms     longest wait since the last batch, or since the begin of the query
    """

    count: int
    delay_ms: int
    _since_s: float | None = field(default=None, init=False)

    def is_due(self, count: int, clock: Callable[[], float] = monotonic) -> bool:
        """Returns whether a batch of so many messages begins now.

        clock   returns seconds
        """
        if not self.count:
            return True
        now = clock()
        if self._since_s is None:
            self._since_s = now
        assert now >= self._since_s, "the clock goes backwards"
        if not count or (count < self.count and (now - self._since_s) * 1000 < self.delay_ms):
            return False
        self._since_s = now
        return True


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """Parsed options of a stream.

    rows            columns, topics and damage, as for a batch
    endpoint        "": a directory is read
    starting        EARLIEST, LATEST, or queue offsets
    starting_ms     store time; None: `starting` applies
    count_max       None: no limit
    count_min       0: no minimum
    delay_ms        longest wait for `count_min` messages
    expression      "" without a filter
    """

    rows: Request
    endpoint: str
    access_key: str
    secret_key: str
    starting: str | Mapping[QueueKey, int]
    starting_ms: int | None
    count_max: int | None
    count_min: int
    delay_ms: int
    fails_on_loss: bool
    expression: str
    is_sql: bool


def parted_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the options of streams, by their usual names, and the others."""
    streams = {
        _STREAM_NAMES[name.lower()]: text
        for name, text in options.items()
        if name.lower() in _STREAM_NAMES
    }
    others = {name: text for name, text in options.items() if name.lower() not in _STREAM_NAMES}
    return streams, others


def stream_request_from(options: Mapping[str, str]) -> StreamRequest:
    """Parses the options of a stream.

    Errors   ValueError: an unknown option, or an invalid value; NotAStore
    """
    streams, others = parted_options(options)
    endpoint = streams.get("endpoint", "")
    for name in others:
        if name.lower() in _OF_BATCHES:
            raise ValueError(
                f"a stream has no option {name!r}; set its begin with startingOffsets or "
                "startingTimestamp, and select rows with a filter of the query"
            )
    _check_place(streams, others, endpoint)
    rows = request_from(others, is_local=not endpoint)
    if rows.kind != MESSAGES:
        raise ValueError(f"a stream reads the table {MESSAGES}, not {rows.kind}")
    pattern = streams.get("topicsPattern", "")
    _check_topics(rows, pattern, endpoint)
    if "startingOffsets" in streams and "startingTimestamp" in streams:
        raise ValueError("startingOffsets and startingTimestamp exclude each other")
    timed = "startingTimestamp" in streams
    count_min, count_max = (_count(streams, f"{one}OffsetsPerTrigger") for one in ("min", "max"))
    if count_max is not None and (count_min or 0) > count_max:
        raise ValueError(
            f"minOffsetsPerTrigger is {count_min}, above maxOffsetsPerTrigger {count_max}"
        )
    fails = one_of("failOnDataLoss", streams.get("failOnDataLoss", "true"), TRUTHS)
    return StreamRequest(
        rows=replace(rows, wanted=replace(rows.wanted, pattern=pattern)),
        endpoint=endpoint,
        access_key=streams.get("access_key", ""),
        secret_key=streams.get("secret_key", ""),
        starting=_starting(streams.get("startingOffsets", EARLIEST)),
        starting_ms=time_in(streams, "startingTimestamp") if timed else None,
        count_max=count_max,
        count_min=count_min or 0,
        delay_ms=_delay_ms(streams),
        fails_on_loss=fails == "true",
        expression=streams.get("sql", streams.get("tags", "")),
        is_sql="sql" in streams,
    )


def _check_place(streams: Mapping[str, str], others: Mapping[str, str], endpoint: str) -> None:
    has_path = any(name.lower() == "path" for name in others)
    if bool(endpoint) == has_path:
        raise ValueError("a stream reads either a directory, .load(path), or a broker, endpoint")
    for name in _OF_BROKERS:
        if name in streams and not endpoint:
            raise ValueError(f"{name} needs a broker (endpoint); filter the rows of a directory")
    if "tags" in streams and "sql" in streams:
        raise ValueError("tags and sql exclude each other")


def _check_topics(rows: Request, pattern: str, endpoint: str) -> None:
    if pattern:
        if rows.wanted.topics is not None:
            raise ValueError("topic and topicsPattern exclude each other")
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"topicsPattern is {pattern!r}: {error}") from error
    elif endpoint and rows.wanted.topics is None:
        raise ValueError("a stream of a broker needs topic or topicsPattern")


def _count(streams: Mapping[str, str], name: str) -> int | None:
    if name not in streams:
        return None
    count = number_in(streams, name, 0)
    if count < 1:
        raise ValueError(f"{name} is {count}, which is not above 0")
    return count


def _delay_ms(streams: Mapping[str, str]) -> int:
    if "maxTriggerDelay" in streams and "minOffsetsPerTrigger" not in streams:
        raise ValueError("maxTriggerDelay needs minOffsetsPerTrigger")
    try:
        return duration_from_text(streams.get("maxTriggerDelay", DELAY))
    except ValueError as error:
        raise ValueError(f"maxTriggerDelay is no duration: {error}") from error


def _starting(text: str) -> str | Mapping[QueueKey, int]:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    try:
        offsets = offsets_from(json.loads(text))
    except ValueError as error:
        raise ValueError(
            f"startingOffsets is {text!r}, not {EARLIEST}, {LATEST} or JSON like "
            '{"orders": {"0": 12}}: ' + str(error)
        ) from error
    if any(number < EARLIEST_NUMBER for number in offsets.values()):
        raise ValueError(f"startingOffsets is {text!r}, with an offset below {EARLIEST_NUMBER}")
    return offsets


def offsets_from(document: Any) -> dict[QueueKey, int]:
    """Returns queue offsets from {topic: {queue id as text: offset}}.

    Errors   ValueError
    """
    try:
        return {
            (topic, int(queue_id)): _whole(number)
            for topic, queues in document.items()
            for queue_id, number in queues.items()
        }
    except AttributeError as error:
        raise ValueError("topics and queues are JSON objects") from error


def document_of(offsets: Mapping[QueueKey, int]) -> dict[str, dict[str, int]]:
    """Returns the document of queue offsets; equal offsets have equal texts."""
    document: dict[str, dict[str, int]] = {}
    for (topic, queue_id), number in sorted(offsets.items()):
        document.setdefault(topic, {})[str(queue_id)] = number
    return document


def _whole(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{number!r} is no queue offset")
    return number
