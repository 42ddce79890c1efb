"""Where each consumer group stands: RocketMQ's `config/consumerOffset.json`.

An offset is durable when `commit` returns; many commits share one write of the table.
Source: ConsumerOffsetManager.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, CONSUMER_OFFSETS_FILE, queue_id_from_name
from broker.format.table_json import decode_rows, encode_table
from broker.model.clock import Clock
from broker.model.offsets import OFFSET_MAX
from broker.store.tables.durable_table import DurableTable
from broker.store.tables.topics import GroupTable

_OFFSETS: Final = "offsetTable"
_PULL_OFFSETS: Final = "pullOffsetTable"
"""What a real broker keeps of pull consumers beside it, under the same names."""
_SEPARATOR: Final = "@"


class ConsumerOffsets:
    """Committed offsets by (group, topic, queue id)."""

    __slots__ = ("_clock", "_durable", "_file", "_groups", "_offsets", "_table")

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        clock: Clock,
        pool: ThreadPoolExecutor,
        groups: GroupTable,
    ) -> None:
        self._groups = groups
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / CONSUMER_OFFSETS_FILE)
        self._durable = DurableTable(self._file, pool, self._encode)
        self._clock = clock
        self._table: dict[str, Any] = {}
        self._offsets: dict[str, dict[int, int]] = {}

    def load(self) -> None:
        """Read the table.

        Errors   ValueError when neither the file nor its `.bak` can be read
        """
        self._table = self._file.read(_decode) or {}
        rows = self._table.get(_OFFSETS) or {}
        # Other writers may quote the queue ids; RocketMQ reads both.
        self._offsets = {
            str(name): {int(i): o for i, o in queues.items() if _is_place(i, o)}
            for name, queues in rows.items()
        }
        self._table[_OFFSETS] = self._offsets

    def _encode(self) -> bytes:
        return encode_table(self._table)

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset in a queue, None before its first commit."""
        return self._offsets.get(f"{topic}{_SEPARATOR}{group}", {}).get(queue_id)

    def all_of(self, group: str) -> dict[str, dict[int, int]]:
        """Return where a group stands: topic -> queue id -> queue offset."""
        rows = self._offsets.items()
        return {_topic_of(name): dict(row) for name, row in rows if _group_of(name) == group}

    def positions(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Yield (group, topic, queue id -> queue offset) of every group in every topic."""
        for name, row in self._offsets.items():
            yield _group_of(name), _topic_of(name), row

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics each group has an offset in, both in order of their names."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._offsets):
            found.setdefault(_group_of(name), []).append(_topic_of(name))
        return dict(sorted(found.items()))

    async def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set a group's offset in a queue; durable when it returns.

        Effects  a group that commits for the first time is made
        Errors   IllegalGroup, DiskFull
        Source   ConsumerOffsetManager.commitOffset, SubscriptionGroupManager.findSubscriptionGroup
        """
        await self.set_many(group, topic, {queue_id: queue_offset})

    async def set_many(self, group: str, topic: str, queue_offsets: Mapping[int, int]) -> None:
        """Set a group's offsets in queues of a topic, all in one write; durable when it returns.

        Effects  a group without a row is made
        Errors   IllegalGroup, DiskFull
        """
        await self._groups.ensure(group)
        if queue_offsets:
            queues = self._offsets.setdefault(f"{topic}{_SEPARATOR}{group}", {})
            queues.update(queue_offsets)
            self._touch()
        await self._durable.saved()

    async def clamp(self, end_of: Callable[[str, int], int]) -> int:
        """Bring offsets beyond a queue's end down to it; returns how many, durable when it returns.

        end_of   (topic, queue id) -> the queue offset its next message gets
        Effects  a consumer that stood behind messages a crash took does not miss those that come
        Errors   DiskFull
        """
        count = 0
        for name, queues in self._offsets.items():
            topic = _topic_of(name)
            beyond = {i: end_of(topic, i) for i, at in queues.items() if at > end_of(topic, i)}
            queues.update(beyond)
            count += len(beyond)
        if count:
            self._touch()
            await self._durable.saved()
        return count

    async def clone(self, source: str, target: str, topic: str) -> None:
        """Let a group stand where another one stands in a topic; durable when it returns.

        Effects  nothing where the other has no offset; else all the group had there is replaced
        Errors   IllegalGroup, DiskFull
        Source   ConsumerOffsetManager.cloneOffset
        """
        await self._groups.ensure(target)
        queues = self._offsets.get(f"{topic}{_SEPARATOR}{source}")
        if queues:
            self._offsets[f"{topic}{_SEPARATOR}{target}"] = dict(queues)
            self._touch()
        await self._durable.saved()

    async def remove_topic(self, topic: str) -> None:
        """Forget where anybody stands in a topic; durable when it returns.

        Errors   DiskFull
        Source   ConsumerOffsetManager.cleanOffsetByTopic
        """
        await self._remove(lambda name: _topic_of(name) == topic)

    async def remove_group(self, group: str) -> None:
        """Forget where a group stands; durable when it returns.

        Errors   DiskFull
        Source   ConsumerOffsetManager.removeOffset
        """
        await self._remove(lambda name: _group_of(name) == group)

    async def _remove(self, is_meant: Callable[[str], bool]) -> None:
        tables = (self._offsets, self._table.get(_PULL_OFFSETS) or {})
        found = [(table, name) for table in tables for name in table if is_meant(name)]
        for table, name in found:
            del table[name]
        if found:
            self._touch()
        await self._durable.saved()

    def _touch(self) -> None:
        version = self._table.get("dataVersion") or {}
        self._table["dataVersion"] = {
            "counter": int(version.get("counter", 0)) + 1,
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": self._clock.wall_ms(),
        }
        self._table = dict(sorted(self._table.items()))
        self._durable.touch()


def _decode(content: bytes) -> dict[str, Any]:
    return decode_rows(content, _OFFSETS)


def _is_place(queue_id: Any, queue_offset: Any) -> bool:
    """Return whether a pair of the file is a queue's id and an offset the wire can hold."""
    is_id = queue_id_from_name(str(queue_id)) is not None
    return is_id and isinstance(queue_offset, int) and 0 <= queue_offset <= OFFSET_MAX


def _topic_of(name: str) -> str:
    return name.partition(_SEPARATOR)[0]


def _group_of(name: str) -> str:
    return name.partition(_SEPARATOR)[2]
