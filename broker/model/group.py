"""A consumer group and what of it can be set.

Source: SubscriptionGroupConfig.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class GroupSettings(NamedTuple):
    """What of a group may be set; None: as it is, or as RocketMQ makes it.

    max_attempts   deliveries in all, the first included
    """

    enabled: bool | None = None
    fifo: bool | None = None
    max_attempts: int | None = None
    retry_queue_count: int | None = None
    broadcast_enabled: bool | None = None
    begins_at_min: bool | None = None
    consume_timeout_minutes: int | None = None


@dataclass(slots=True)
class GroupConfig:
    """One group, not changed once it is made."""

    name: str
    settings: GroupSettings
    """All of them, none is None."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Attributes without the leading plus."""
