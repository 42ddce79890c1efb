"""A plan says which way of building views is the quicker one."""

import pytest

from pocketmq.backfill.advice import SPARK_START_SECONDS, expected_times


@pytest.mark.parametrize(
    ("records", "workers", "is_spark"),
    [(200_000, 2, False), (1_000_000, 2, False), (1_000_000, 64, False), (10_000_000, 1, False),
     (30_000_000, 2, True), (30_000_000, 16, True), (1_000_000_000, 4, True)],
)  # fmt: skip
def test_spark_is_for_large_logs(records: int, workers: int, is_spark: bool) -> None:
    times = expected_times(records, 3 * records, tasks=records // 100_000, workers=workers)
    assert times.is_spark_quicker == is_spark


def test_a_log_of_one_range_gains_nothing_by_workers() -> None:
    one, many = (expected_times(10**7, 0, tasks=1, workers=count) for count in (1, 50))
    assert many.spark_seconds >= SPARK_START_SECONDS + 10**7 * 1.6e-6
    assert many.spark_seconds <= one.spark_seconds
    assert expected_times(0, 0, tasks=0, workers=4).rebuild_seconds == 0
