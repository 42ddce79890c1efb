"""RocketMQ's delay levels: "1s 5s 10s ..." and the delay each level stands for.

Levels count from 1. The schedule topic keeps level n in queue n - 1, and the consume unit of a
scheduled record holds its delivery time in place of a tag hash.
Source: ScheduleMessageService.parseDelayLevel; MessageStoreConfig.messageDelayLevel.
"""

from typing import Final

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
UNKNOWN_LEVEL_MS: Final = 1_000
"""Delay of a level that the table does not hold."""


class DelayLevels:
    """A parsed level table."""

    __slots__ = ("delays_ms",)

    def __init__(self, text: str = DEFAULT_DELAY_LEVELS) -> None:
        self.delays_ms = tuple(_delay_ms(word) for word in text.split())

    @property
    def level_max(self) -> int:
        """The highest level of the table."""
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """Return the level, lowered to the highest one of the table."""
        return min(level, len(self.delays_ms))

    def deliver_at_ms(self, level: int, store_timestamp_ms: int) -> int:
        """Return when a record stored at `store_timestamp_ms` with this level is due."""
        if 1 <= level <= len(self.delays_ms):
            return store_timestamp_ms + self.delays_ms[level - 1]
        return store_timestamp_ms + UNKNOWN_LEVEL_MS


def _delay_ms(word: str) -> int:
    unit_ms = UNIT_MS.get(word[-1:])
    if unit_ms is None or not word[:-1].isdigit():
        raise ValueError(f"delay level {word!r} is not a number followed by one of s, m, h, d")
    return int(word[:-1]) * unit_ms
