"""Durations and times as the protocol has them."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.rpc.v2.durations import duration_of, ms_of, timestamp_of

FURTHEST_MS = 2**63 - 1


@pytest.mark.parametrize(
    ("seconds", "nanos", "ms"),
    [
        (0, 999_999, 0),
        (0, 1_000_000, 1),
        (1, 999_999_999, 1_999),
        (-1, 0, -1_000),
        (2**62, 0, FURTHEST_MS),
        (-(2**62), 0, -FURTHEST_MS),
    ],
)
def test_what_clients_send_is_whole_ms_that_fit_64_bits(seconds: int, nanos: int, ms: int) -> None:
    assert ms_of(Duration(seconds=seconds, nanos=nanos)) == ms
    assert ms_of(Timestamp(seconds=seconds, nanos=nanos)) == ms


@pytest.mark.parametrize("ms", [0, 1, 999, 1_000, 1_001, 7_200_000])
def test_a_duration_is_read_as_it_was_written(ms: int) -> None:
    made = duration_of(ms)
    assert made.ToMilliseconds() == ms == ms_of(made)
    assert (made.seconds, made.nanos) == (ms // 1_000, ms % 1_000 * 1_000_000)


@pytest.mark.parametrize(
    ("time_ms", "seconds", "nanos"),
    [
        (-1, 0, 0),
        (0, 0, 0),
        (1_795_000_000_123, 1_795_000_000, 123_000_000),
        (253_402_300_799_999, 253_402_300_799, 999_000_000),
        (253_402_300_800_000, 253_402_300_799, 999_000_000),
    ],
)
def test_a_time_is_from_1970_to_the_end_of_the_year_9999(
    time_ms: int, seconds: int, nanos: int
) -> None:
    assert timestamp_of(time_ms) == Timestamp(seconds=seconds, nanos=nanos)
