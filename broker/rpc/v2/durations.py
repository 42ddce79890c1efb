"""Durations and times of the protocol, in ms."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


def ms_of(moment: Duration | Timestamp) -> int:
    """Return a duration, or a time since 1970, in whole ms."""
    return moment.seconds * 1000 + moment.nanos // 1_000_000


def duration_of(value_ms: int) -> Duration:
    """Return so many ms."""
    seconds, ms = divmod(value_ms, 1000)
    return Duration(seconds=seconds, nanos=ms * 1_000_000)


def timestamp_of(time_ms: int) -> Timestamp:
    """Return a time in ms since 1970."""
    seconds, ms = divmod(time_ms, 1000)
    return Timestamp(seconds=seconds, nanos=ms * 1_000_000)
