"""What ordered consumers have in hand: RocketMQ's `config/consumerOrderInfo.json`.

    change     a queue's order is another one; encoded when the table is next written, once: rows
               that stay as they are keep their text
    saved      returns when every change so far is durable; many share one write
    forget     the committed offset was set anew: what was known of the queue holds no longer

What the file holds beside the queues is kept and written back.
Source: QueueLevelConsumerManager.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, ORDER_INFO_FILE, queue_id_from_name
from broker.format.order_row import (
    QueueOrder,
    decode_order,
    encode_order,
    is_earlier_form,
    order_from,
)
from broker.format.table_json import decode_rows, encode_compact
from broker.model.step import Clock
from broker.store.tables.durable_table import DurableTable, Encode

_TABLE: Final = "table"
_SEPARATOR: Final = "@"
Order = Callable[[], QueueOrder]
"""Returns a queue's order as it is when the table is written."""


class Row:
    """A queue's order as the file has it; never changed."""

    __slots__ = ("_text", "members")

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members
        self._text = b""

    def text(self) -> bytes:
        """Return it as it stands in the file; the thread that writes is the one to ask."""
        self._text = self._text or encode_compact(self.members)
        assert self._text
        return self._text


def text_of(members: dict[str, Any], rows: dict[str, dict[int, Row]]) -> bytes:
    """Return the text of the file: `encode_compact` of all of it."""
    queues = (
        b"%b:{%b}" % (_quoted(name), b",".join([b"%d:%b" % (i, r.text()) for i, r in its.items()]))
        for name, its in rows.items()
    )
    texts = {name: encode_compact({name: value})[1:-1] for name, value in members.items()}
    texts[_TABLE] = b'"%b":{%b}' % (_TABLE.encode(), b",".join(queues))
    return b"{%b}" % b",".join([text for _, text in sorted(texts.items())])


def _quoted(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()


class OrderInfo:
    """Orders by (group, topic, queue id)."""

    __slots__ = ("_changed", "_clock", "_durable", "_file", "_forgotten", "_others", "_rows")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / ORDER_INFO_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self._clock = clock
        self._others: dict[str, Any] = {}
        self._rows: dict[str, dict[int, Row]] = {}
        self._changed: dict[tuple[str, int], Order] = {}
        self._forgotten: Counter[tuple[str, int]] = Counter()

    def load(self) -> None:
        """Read the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be read
        """
        self._others = self._file.read(lambda text: decode_rows(text, _TABLE)) or {}
        rows = self._others.pop(_TABLE, None) or {}
        self._rows = {
            str(name): {int(i): self._row(row) for i, row in queues.items() if _is_queue(i, row)}
            for name, queues in rows.items()
        }

    def _row(self, members: dict[str, Any]) -> Row:
        """Return a row that was read; one of an earlier form is written anew with the next save."""
        if not is_earlier_form(members):
            return Row(members)
        self._durable.touch()
        return Row(encode_order(decode_order(members, 0), self._clock.wall_ms()))

    def find(self, group: str, topic: str, queue_id: int, committed: int) -> QueueOrder:
        """Return a queue's order as it is, or will be, in the file.

        committed   the group's committed offset in it
        """
        name = f"{topic}{_SEPARATOR}{group}"
        changed = self._changed.get((name, queue_id))
        if changed is not None:
            return order_from(changed(), committed)
        row = self._rows.get(name, {}).get(queue_id)
        return decode_order(row.members if row is not None else {}, committed)

    def forgotten_count(self, group: str, topic: str, queue_id: int) -> int:
        """Return how often a queue was forgotten: what somebody knew of it before is void."""
        return self._forgotten[f"{topic}{_SEPARATOR}{group}", queue_id]

    def change(self, group: str, topic: str, queue_id: int, order: Order) -> None:
        """Note that a queue's order changed; `saved` writes it down.

        Cost     nothing: `order` is called once for all changes until the next write
        """
        self._changed[f"{topic}{_SEPARATOR}{group}", queue_id] = order
        self._durable.touch()

    async def saved(self) -> None:
        """Return when every change so far is durable.

        Errors   DiskFull, FsyncFailed
        """
        await self._durable.saved()

    def when_saved(self, then: Callable[[BaseException | None], None]) -> None:
        """Call with None, or with an error, when every change so far is durable."""
        self._durable.when_saved(then)

    def save_soon(self) -> None:
        """Begin to write what changed, unless a write is under way."""
        self._durable.save_soon()

    async def forget(self, group: str, topic: str, queue_ids: Iterable[int]) -> None:
        """Know nothing more of queues whose committed offset was set; durable when it returns.

        Errors   DiskFull
        Source   clearBlock
        """
        name = f"{topic}{_SEPARATOR}{group}"
        for queue_id in queue_ids:
            self._forgotten[name, queue_id] += 1
            is_changed = self._changed.pop((name, queue_id), None) is not None
            if self._drop(name, queue_id) or is_changed:
                self._durable.touch()
        await self.saved()

    async def remove_topic(self, topic: str) -> None:
        """Forget a topic's queues; durable when it returns.

        Errors   DiskFull
        """
        await self._remove(lambda name: name.partition(_SEPARATOR)[0] == topic)

    async def remove_group(self, group: str) -> None:
        """Forget what a group has in hand; durable when it returns.

        Errors   DiskFull
        """
        await self._remove(lambda name: name.partition(_SEPARATOR)[2] == group)

    async def clamp(self, end_of: Callable[[str, int], int]) -> int:
        """Forget what lies behind a queue's end; returns in how many queues, durable then.

        end_of   (topic, queue id) -> the queue offset its next message gets
        Effects  messages that get the offsets of lost ones do not count as settled or given out
        Errors   DiskFull
        """
        assert not self._changed, "a table is clamped before it is used"
        count = 0
        for name, queues in self._rows.items():
            topic = name.partition(_SEPARATOR)[0]
            for queue_id, row in [*queues.items()]:
                order, end = decode_order(row.members, 0), end_of(topic, queue_id)
                if max((order.next_offset - 1, *order.settled, *order.delivered)) >= end:
                    members = encode_order(_below(order, end), self._clock.wall_ms())
                    queues[queue_id] = Row(members)
                    count += 1
        if count:
            self._durable.touch()
            await self.saved()
        return count

    async def _remove(self, is_meant: Callable[[str], bool]) -> None:
        names = {*self._rows, *(name for name, _ in self._changed)}
        for name in filter(is_meant, names):
            self._rows.pop(name, None)
            self._changed = {key: o for key, o in self._changed.items() if key[0] != name}
            self._durable.touch()
        await self.saved()

    def _drop(self, name: str, queue_id: int) -> bool:
        queues = self._rows.get(name, {})
        if queue_id not in queues:
            return False
        self._rows[name] = {i: row for i, row in queues.items() if i != queue_id}
        if not self._rows[name]:
            del self._rows[name]
        return True

    def _snapshot(self) -> Encode:
        changed, self._changed = self._changed, {}
        now = self._clock.wall_ms()
        for (name, queue_id), order in changed.items():
            row = Row(encode_order(order(), now))
            self._rows[name] = {**self._rows.get(name, {}), queue_id: row}
        assert not self._changed
        members = {
            **self._others,
            "orderInfoCount": len(self._rows),
            "orderedConsumptionLevel": "QUEUE",
        }
        rows = dict(self._rows)
        return lambda: text_of(members, rows)


def _below(order: QueueOrder, end: int) -> QueueOrder:
    """Return what an order says of queue offsets below an end."""
    settled = frozenset(offset for offset in order.settled if offset < end)
    delivered = {offset: d for offset, d in order.delivered.items() if offset < end}
    return QueueOrder(min(order.next_offset, end), settled, delivered)


def _is_queue(queue_id: Any, row: Any) -> bool:
    return queue_id_from_name(str(queue_id)) is not None and isinstance(row, dict)
