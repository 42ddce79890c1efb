"""Converts durations and times of the protocol from and to ms.

Clients' values are clamped to 64 bits of ms; times sent are clamped to the range of a Timestamp.
"""

from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.model.message import OFFSET_MAX

TIME_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the largest Timestamp."""


def ms_of(moment: Duration | Timestamp) -> int:
    """Returns a duration, or a time since 1970, in whole ms."""
    value_ms = moment.seconds * 1000 + moment.nanos // 1_000_000
    return max(min(value_ms, OFFSET_MAX), -OFFSET_MAX)


def duration_of(value_ms: int) -> Duration:
    """Returns a number of ms as a Duration."""
    seconds, ms = divmod(value_ms, 1000)
    return Duration(seconds=seconds, nanos=ms * 1_000_000)


def timestamp_of(time_ms: int) -> Timestamp:
    """Returns a time, in ms since 1970, as a Timestamp."""
    seconds, ms = divmod(max(min(time_ms, TIME_MAX_MS), 0), 1000)
    return Timestamp(seconds=seconds, nanos=ms * 1_000_000)
