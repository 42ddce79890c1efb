"""The shape of a store: every length and format that its files are made with.

A new store gets its shape from the settings. An existing one keeps its own: most of it stands in
`pocketmq/store.json`, and a store that another broker made shows it by its files
(store/starting/geometry.py). Whoever opens files of a store needs nothing else of its settings.
Source: MessageStoreConfig.
"""

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, kw_only=True)
class StoreShape:
    """Lengths in bytes or counts; the defaults are those of a new store.

    consume_queue_extension   units are written for new messages; those there are, are always read
    index_style    "5.5" or "5.3": whether tags are indexed too (format/index_layout.py)
    time_zone      the one index files are named in, for `zone_from_name`; "": the machine's
    delay_levels   delays by level as an operator writes them; "": RocketMQ's 18
    property_crc   records end with a CRC over all of them
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

    @classmethod
    def of(cls, wider: "StoreShape") -> "StoreShape":
        """Return the shape alone of what has one, and more."""
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
"""Fields that travel with a store in its manifest; the others are the operator's to say."""
