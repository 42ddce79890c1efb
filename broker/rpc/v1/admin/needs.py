"""What the methods of Admin need of the store and its tables, and nothing more."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from broker.model.clock import Clock
from broker.model.group import GroupConfig, GroupSettings
from broker.model.stats import Stat
from broker.model.topic import TopicConfig
from broker.rpc.topic_access import Topics
from broker.store.reading.reading import Reading


class TopicTable(Topics, Protocol):
    """All topics; a change is durable when its method returns."""

    def names(self) -> list[str]:
        """Return all names, sorted."""

    async def create(
        self, topic: str, /, *, queue_count: int, attributes: dict[str, str] | None = None
    ) -> TopicConfig:
        """Make a topic."""

    async def update(
        self,
        topic: str,
        /,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        permission: int | None = None,
        order: bool | None = None,
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig:
        """Change what is given."""

    async def remove(self, topic: str, /) -> None:
        """Forget a topic."""


class GroupTable(Protocol):
    """All consumer groups; a change is durable when its method returns."""

    def find(self, group: str, /) -> GroupConfig | None:
        """Return a group, None when nobody made it."""

    def names(self) -> list[str]:
        """Return all names, sorted."""

    async def create(self, group: str, settings: GroupSettings, /) -> GroupConfig:
        """Make a group."""

    async def update(self, group: str, settings: GroupSettings, /) -> GroupConfig:
        """Change what is set."""

    async def remove(self, group: str, /) -> None:
        """Forget a group."""


class Offsets(Protocol):
    """Where consumer groups stand; a change is durable when its method returns."""

    def find(self, group: str, topic: str, queue_id: int, /) -> int | None:
        """Return a group's offset in a queue."""

    def all_of(self, group: str, /) -> dict[str, dict[int, int]]:
        """Return topic -> queue id -> queue offset."""

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics each group has an offset in, in order."""

    async def commit(self, group: str, topic: str, queue_id: int, queue_offset: int, /) -> None:
        """Set one offset."""

    async def set_many(self, group: str, topic: str, queue_offsets: Mapping[int, int], /) -> None:
        """Set offsets in queues of a topic."""

    async def clone(self, source: str, target: str, topic: str, /) -> None:
        """Let a group stand where another one stands."""

    async def remove_topic(self, topic: str, /) -> None:
        """Forget a topic."""

    async def remove_group(self, group: str, /) -> None:
        """Forget a group."""


class Settings(Protocol):
    """Settings of the store that its status tells."""

    @property
    def directory(self) -> Path:
        """Where it lies."""

    @property
    def flush(self) -> str:
        """What a send waits for."""

    @property
    def cluster(self) -> str:
        """The cluster's name."""

    @property
    def broker(self) -> str:
        """The broker's name."""


class Store(Protocol):
    """The numbers that describe a store, and what only the store can do; offsets are physical."""

    @property
    def settings(self) -> Settings:
        """How it was opened."""

    @property
    def clock(self) -> Clock:
        """What stamps its records."""

    @property
    def groups(self) -> GroupTable:
        """Its consumer groups."""

    @property
    def stats(self) -> Sequence[Stat]:
        """What metrics show of it."""

    @property
    def state(self) -> str:
        """What it is doing."""

    @property
    def state_since_ms(self) -> int:
        """Since when, wall time."""

    @property
    def min_offset(self) -> int:
        """Where its oldest file begins."""

    @property
    def appended(self) -> int:
        """Where the log ends."""

    @property
    def flushed(self) -> int:
        """Up to where it is durable."""

    @property
    def dispatched(self) -> int:
        """Up to where queues and index know it."""

    @property
    def reading(self) -> Reading:
        """What its queues hold."""

    async def remove_topic(self, topic: str, /) -> None:
        """Remove the files of all its queues, and where groups stand in it."""

    async def flush(self) -> int:
        """Make all that is appended durable; returns up to where it is."""

    def disk_usage(self) -> tuple[int, int]:
        """Return (free, total) bytes of its file system."""

    def retention_status(self) -> str:
        """Return what retention is doing."""


class SettingRow(NamedTuple):
    """One setting as it holds now, and where its value comes from."""

    key: str
    value: str
    origin: str


class Process(NamedTuple):
    """What the process around the store tells and does; the defaults know of none.

    read_settings   returns every setting
    drain           asks the process to end in order, and returns at once; None: nobody can
    """

    read_settings: Callable[[], Iterable[tuple[str, str, str]]] = tuple
    drain: Callable[[], None] | None = None
