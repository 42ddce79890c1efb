"""State of FIFO consumers: RocketMQ's `config/consumerOrderInfo.json`.

    change     replaces a queue's order
    saved      returns when every change so far is durable; many callers share one write
    forget     drops a queue's state after its committed offset was set

    changes ─► rows of the journal (order_files.py) ─► acknowledged
               └─► whole table: after FOLD_INTERVAL_MS, when the journal is full, at a stop

Acknowledged changes are as durable as sends in the same flush mode; RocketMQ loses those of some
seconds. State that does not fit the journal is written to the table at once. Unknown members of the
table are preserved.
Source: QueueLevelConsumerManager.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pocketmq.format.names import queue_id_from_name
from pocketmq.format.order_changes import (
    VERSION_MEMBER,
    OrderChange,
    ReplayedOrder,
    version_of,
    whole_change,
)
from pocketmq.format.order_row import (
    QueueOrder,
    decode_order,
    encode_order,
    is_earlier_form,
    order_from,
)
from pocketmq.format.table_json import ORDERS_MEMBER, encode_compact
from pocketmq.model.errors import DiskFull
from pocketmq.model.step import Clock
from pocketmq.store.tables.durable_table import Encode, Saving, Work
from pocketmq.store.tables.order_files import OrderFiles

# -- rows of consumerOrderInfo.json ------------------------------------------------------------


class Row:
    """A queue's order for the file; immutable.

    found   row that was read, which is written unchanged if `order` is None
    """

    __slots__ = ("_found", "_order", "_text", "_written_at_ms")

    def __init__(
        self, found: dict[str, Any], order: QueueOrder | None = None, written_at_ms: int = 0
    ) -> None:
        self._found = found
        self._order = order
        self._written_at_ms = written_at_ms
        self._text = b""

    def text(self) -> bytes:
        """Returns the encoded row; called by the writing thread."""
        if not self._text:
            order = self._order
            self._text = encode_compact(
                self._found if order is None else encode_order(order, self._written_at_ms)
            )
        assert self._text
        return self._text

    def order(self, committed: int) -> QueueOrder:
        """Returns the order for a group with a committed offset."""
        if self._order is None:
            return decode_order(self._found, committed)
        return order_from(self._order, committed)


def text_of(members: dict[str, Any], rows: dict[str, dict[int, Row]]) -> bytes:
    """Returns the text of the file, equal to `encode_compact` of the whole table."""
    queues = (
        b"%b:{%b}" % (_quoted(name), b",".join([b"%d:%b" % (i, r.text()) for i, r in its.items()]))
        for name, its in rows.items()
    )
    texts = {name: encode_compact({name: value})[1:-1] for name, value in members.items()}
    texts[ORDERS_MEMBER] = b'"%b":{%b}' % (ORDERS_MEMBER.encode(), b",".join(queues))
    return b"{%b}" % b",".join([text for _, text in sorted(texts.items())])


def _quoted(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()


def is_queue(queue_id: Any, row: Any) -> bool:
    """Returns whether a pair of the table is a queue's id and a row."""
    return queue_id_from_name(str(queue_id)) is not None and isinstance(row, dict)


# -- the table ---------------------------------------------------------------------------------
_SEPARATOR: Final = "@"
FOLD_INTERVAL_MS: Final = 5_000
"""Interval of table writes while orders change; RocketMQ's interval is 10 s."""
Order = Callable[[], QueueOrder]
"""Returns the present order of a queue; called when the table is written."""
Since = Callable[[], OrderChange]
"""Returns a queue's changes since the last call."""
Place = tuple[str, int]
"""(topic@group, queue id)."""


class OrderInfo:
    """Orders by (group, topic, queue id).

    is_sync   whether acknowledged changes survive a power cut
    """

    __slots__ = (
        "_changed",
        "_clock",
        "_decompressed",
        "_files",
        "_fold_at_ms",
        "_forgotten",
        "_is_behind",
        "_is_stale",
        "_is_sync",
        "_others",
        "_rows",
        "_saving",
        "_version",
    )  # fmt: skip

    def __init__(
        self, files: OrderFiles, clock: Clock, pool: ThreadPoolExecutor, *, is_sync: bool
    ) -> None:
        self._files = files
        self._saving = Saving(pool, self._begin, files.when_copied)
        self._clock = clock
        self._is_sync = is_sync
        self._others: dict[str, Any] = {}
        self._rows: dict[str, dict[int, Row]] = {}
        self._changed: dict[Place, Since] = {}
        """Changes that neither the journal nor the table contains yet."""
        self._decompressed: dict[Place, Order] = {}
        """Changes that the table does not contain yet."""
        self._forgotten: Counter[Place] = Counter()
        self._version = 0
        self._fold_at_ms = 0
        self._is_behind = False
        """Whether the journal lacks a change, so that the table must be written."""
        self._is_stale = False
        """Whether the table on disk lacks a change."""

    def load(self) -> None:
        """Reads the table, and the changes that were made after it was written.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._others = self._files.table()
        rows = self._others.pop(ORDERS_MEMBER, None) or {}
        self._rows = {
            name: {int(i): self._row(row) for i, row in queues.items() if is_queue(i, row)}
            for name, queues in rows.items()
        }
        self._version = version_of(self._others)
        self._others.pop(VERSION_MEMBER, None)
        if self._version:
            self._replay()

    def _replay(self) -> None:
        replayed: dict[Place, ReplayedOrder] = {}
        for name, queue_id, change in self._files.changes(self._version):
            order = replayed.get((name, queue_id))
            if order is None:
                row = self._rows.get(name, {}).get(queue_id)
                order = ReplayedOrder(QueueOrder() if row is None else row.order(0))
                replayed[name, queue_id] = order
            order.change(change)
        for (name, queue_id), order in replayed.items():
            self._set(name, queue_id, order.order())
        self._is_stale = bool(replayed)

    def _row(self, found: dict[str, Any]) -> Row:
        """Returns a row that was read; a row of an earlier format is rewritten by the next save."""
        if not is_earlier_form(found):
            return Row(found)
        self._saving.touch()
        return Row({}, decode_order(found, 0), self._clock.wall_ms())

    def _set(self, name: str, queue_id: int, order: QueueOrder) -> None:
        row = Row({}, order, self._clock.wall_ms())
        self._rows[name] = {**self._rows.get(name, {}), queue_id: row}

    def find(self, group: str, topic: str, queue_id: int, committed: int) -> QueueOrder:
        """Returns the present order of a queue.

        committed   the group's committed offset in the queue
        """
        name = f"{topic}{_SEPARATOR}{group}"
        changed = self._decompressed.get((name, queue_id))
        if changed is not None:
            return order_from(changed(), committed)
        row = self._rows.get(name, {}).get(queue_id)
        return order_from(QueueOrder(), committed) if row is None else row.order(committed)

    def forgotten_count(self, group: str, topic: str, queue_id: int) -> int:
        """Returns how often a queue's state was dropped; cached state of another count is stale."""
        return self._forgotten[f"{topic}{_SEPARATOR}{group}", queue_id]

    def change(
        self, group: str, topic: str, queue_id: int, order: Order, since: Since | None = None
    ) -> None:
        """Registers a change of a queue's order; `saved` writes it.

        since   returns the changes since the last call; None: the whole order changed
        Cost    constant: the next write calls `order` and `since` once for all changes
        """
        place = f"{topic}{_SEPARATOR}{group}", queue_id
        self._decompressed[place] = order
        self._changed[place] = since or (lambda: whole_change(order()))
        self._is_stale = True
        self._saving.touch()

    async def saved(self) -> None:
        """Waits until every change so far is as durable as a send in this flush mode.

        Errors   DiskFull, StoreFailed
        """
        await self._saving.saved()

    def when_saved(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None when every change is durable as in `saved`, or with the error."""
        self._saving.when_saved(then)

    def save_soon(self) -> None:
        """Begins to write the changes, and the table if it is due, unless a write is running.

        `saved` raises the failure of a write.
        """
        if self._is_stale and self._clock.monotonic_ms() >= self._fold_at_ms:
            self._saving.touch()
        self._saving.save_soon()

    async def folded(self) -> None:
        """Waits until the table contains every change.

        Errors   DiskFull: the changes are only in the journal, if it has room; StoreFailed
        """
        if self._is_stale:
            self._fold_at_ms = 0
            self._saving.touch()
        await self._saving.saved()

    def close(self) -> None:
        """Closes the journal."""
        self._files.close()

    async def forget(self, group: str, topic: str, queue_ids: Iterable[int]) -> None:
        """Drops the state of queues whose committed offset was set; durable when it returns.

        Errors   DiskFull, StoreFailed
        Source   clearBlock
        """
        name = f"{topic}{_SEPARATOR}{group}"
        for queue_id in queue_ids:
            self._forgotten[name, queue_id] += 1
            self._changed.pop((name, queue_id), None)
            is_changed = self._decompressed.pop((name, queue_id), None) is not None
            if self._drop(name, queue_id) or is_changed:
                self._rewrite()
        await self.saved()

    def _rewrite(self) -> None:
        """Requests the whole table with the next save, for a change that no journal row covers."""
        self._is_behind = self._is_stale = True
        self._saving.touch()

    async def remove_topic(self, topic: str) -> None:
        """Drops the state of a topic's queues; durable when it returns.

        Errors   DiskFull, StoreFailed
        """
        await self._remove(lambda name: name.partition(_SEPARATOR)[0] == topic)

    async def remove_group(self, group: str) -> None:
        """Drops the state of a group's queues; durable when it returns.

        Errors   DiskFull, StoreFailed
        """
        await self._remove(lambda name: name.partition(_SEPARATOR)[2] == group)

    async def clamp(self, end_of: Callable[[str, int], int]) -> int:
        """Drops entries at or beyond a queue's end; returns the number of changed queues.

        end_of   (topic, queue id) -> queue offset of the queue's next message
        Effects  new messages at the offsets of lost messages do not count as settled or delivered;
                 durable when it returns
        Errors   DiskFull, StoreFailed
        """
        assert not self._decompressed, "orders have changed before the clamp"
        count = 0
        for name, queues in self._rows.items():
            topic = name.partition(_SEPARATOR)[0]
            for queue_id, row in [*queues.items()]:
                order, end = row.order(0), end_of(topic, queue_id)
                if max((order.next_offset - 1, *order.settled, *order.delivered)) >= end:
                    queues[queue_id] = Row({}, _below(order, end), self._clock.wall_ms())
                    count += 1
        if count:
            self._rewrite()
            await self.saved()
        return count

    async def _remove(self, is_meant: Callable[[str], bool]) -> None:
        names = {*self._rows, *(name for name, _ in self._decompressed)}
        for name in filter(is_meant, names):
            self._rows.pop(name, None)
            for place in [place for place in self._decompressed if place[0] == name]:
                del self._decompressed[place]
                self._changed.pop(place, None)
            self._rewrite()
        await self.saved()

    def _drop(self, name: str, queue_id: int) -> bool:
        queues = self._rows.get(name, {})
        if queue_id not in queues:
            return False
        self._rows[name] = {i: row for i, row in queues.items() if i != queue_id}
        if not self._rows[name]:
            del self._rows[name]
        return True

    # -- writing -------------------------------------------------------------------------------
    def _begin(self) -> Work | None:
        changed, self._changed = self._changed, {}
        changes = [(name, queue_id, since()) for (name, queue_id), since in changed.items()]
        is_told = not self._is_behind and self._files.append(changes)
        now_ms = self._clock.monotonic_ms()
        if is_told and now_ms < self._fold_at_ms:
            return self._files.sync if self._is_sync else None
        self._fold_at_ms = now_ms + FOLD_INTERVAL_MS
        self._is_behind = self._is_stale = False
        encode, version = self._snapshot(), self._version
        return lambda: self._fold(encode, version, is_told=is_told)

    def _fold(self, encode: Encode, version: int, *, is_told: bool) -> None:
        """Writes the table; nothing is appended to the journal meanwhile.

        is_told   whether the journal contains every change: a full disk then only delays the table
        """
        try:
            self._files.fold(encode(), version)
        except BaseException as error:
            self._is_stale = True
            if not (is_told and isinstance(error, DiskFull)):
                self._is_behind = True
                raise
            self._files.sync()

    def _snapshot(self) -> Encode:
        for (name, queue_id), order in self._decompressed.items():
            self._set(name, queue_id, order())
        self._decompressed.clear()
        self._version = max(self._version + 1, self._clock.wall_ms())
        members = {
            **self._others,
            "orderInfoCount": len(self._rows),
            "orderedConsumptionLevel": "QUEUE",
            VERSION_MEMBER: self._version,
        }
        assert not self._changed
        rows = dict(self._rows)
        return lambda: text_of(members, rows)


def _below(order: QueueOrder, end: int) -> QueueOrder:
    settled = frozenset(offset for offset in order.settled if offset < end)
    delivered = {offset: d for offset, d in order.delivered.items() if offset < end}
    return QueueOrder(min(order.next_offset, end), settled, delivered)
