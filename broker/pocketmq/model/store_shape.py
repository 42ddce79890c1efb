"""The shape of a store: lengths and formats of its files.

The settings determine the shape of a new store. Of an existing store, the fields in RECORDED do not
change: they are stored in `pocketmq/store.json`, or derived from the files of a RocketMQ store
(store/recovery/geometry.py).

Delay levels are "1s 5s 10s ...": the delay of each level, counted from 1. Messages of level n are
in queue n - 1 of the schedule topic. The consume units of this topic contain due times instead of
tags codes.
Source: MessageStoreConfig, ScheduleMessageService.parseDelayLevel.
"""

import re
from dataclasses import dataclass, fields
from typing import Final

from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.topic import SCHEDULE_TOPIC


@dataclass(frozen=True, kw_only=True)
class StoreShape:
    """Lengths and formats of files; the defaults are for a new store.

    consume_queue_extension
                   whether new messages get extension units; existing units are always read
    index_style    "5.5": tags are indexed, "5.3": tags are not indexed (format/index_layout.py)
    time_zone      time zone of index file names, for `zone_from_name`; "": the machine's zone
    delay_levels   text of the delay levels; "": RocketMQ's 18 levels
    property_crc   whether records end with a CRC of the whole record
    """

    commit_log_file_size_bytes: int = 64 * 1024 * 1024
    consume_queue_file_size_bytes: int = 6_000_000
    consume_queue_extension: bool = False
    consume_queue_extension_file_size_bytes: int = 48 * 1024 * 1024
    index_slot_count: int = 200_000
    index_entry_count_max: int = 1_000_000
    index_style: str = "5.5"
    time_zone: str = ""
    delay_levels: str = ""
    property_crc: bool = False

    @property
    def levels(self) -> "DelayLevels":
        """The delay levels, parsed."""
        return DelayLevels(self.delay_levels or DEFAULT_DELAY_LEVELS)

    @classmethod
    def of(cls, wider: "StoreShape") -> "StoreShape":
        """Returns the shape of an object that has further fields."""
        return StoreShape(**{item.name: getattr(wider, item.name) for item in fields(StoreShape)})


RECORDED: Final = (
    "commit_log_file_size_bytes",
    "consume_queue_file_size_bytes",
    "index_slot_count",
    "index_entry_count_max",
    "index_style",
    "time_zone",
    "consume_queue_extension",
    "consume_queue_extension_file_size_bytes",
)
"""Fields that the manifest of a store contains; the operator sets all other fields."""

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL: Final = re.compile(r"[+-]?[0-9]{1,10}")


class DelayLevels:
    """A parsed table of delay levels.

    Errors   ValueError: a part of the text is not a number with a unit
    """

    __slots__ = ("delays_ms",)

    def __init__(self, text: str = DEFAULT_DELAY_LEVELS) -> None:
        self.delays_ms = tuple(_delay_ms(word) for word in text.split())

    def apply_to(self, topic: str) -> bool:
        """Returns whether records of a topic wait for a delay level."""
        return topic == SCHEDULE_TOPIC

    def due_ms(self, level_text: str, store_timestamp_ms: int) -> int | None:
        """Returns the due time in ms; None: the text is not a number above 0.

        A level above the highest level counts as the highest level.

        Source   CommitLog.checkMessageAndReturnSize
        """
        if _LEVEL.fullmatch(level_text) is None:
            return None
        level = min(int(level_text), len(self.delays_ms))
        return store_timestamp_ms + self.delays_ms[level - 1] if level > 0 else None


def _delay_ms(word: str) -> int:
    unit_ms = UNIT_MS.get(word[-1:])
    number = number_of(word[:-1], SUMMABLE_MAX)
    if unit_ms is None or number < 0:
        raise ValueError(f"delay level {word!r} is not a number followed by one of s, m, h, d")
    return number * unit_ms
