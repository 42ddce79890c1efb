"""Rows of RocketMQ's `config/consumerOrderInfo.json`, and its text.

Source: QueueLevelConsumerManager.
"""

import json
from typing import Any, Final

from pocketmq.format.names import queue_id_from_name
from pocketmq.format.order_row import QueueOrder, decode_order, encode_order, order_from
from pocketmq.format.table_json import encode_compact

TABLE_MEMBER: Final = "table"


class Row:
    """A queue's order as the file has it; never changed.

    found   the text that was read; else `order` is encoded when it is written, in a thread
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
        """Returns it as the file contains it; called by the thread that writes."""
        if not self._text:
            order = self._order
            self._text = encode_compact(
                self._found if order is None else encode_order(order, self._written_at_ms)
            )
        assert self._text
        return self._text

    def order(self, committed: int) -> QueueOrder:
        """Returns the row for a group that has committed an offset."""
        if self._order is None:
            return decode_order(self._found, committed)
        return order_from(self._order, committed)


def text_of(members: dict[str, Any], rows: dict[str, dict[int, Row]]) -> bytes:
    """Returns the text of the file: `encode_compact` of all of it."""
    queues = (
        b"%b:{%b}" % (_quoted(name), b",".join([b"%d:%b" % (i, r.text()) for i, r in its.items()]))
        for name, its in rows.items()
    )
    texts = {name: encode_compact({name: value})[1:-1] for name, value in members.items()}
    texts[TABLE_MEMBER] = b'"%b":{%b}' % (TABLE_MEMBER.encode(), b",".join(queues))
    return b"{%b}" % b",".join([text for _, text in sorted(texts.items())])


def _quoted(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()


def is_queue(queue_id: Any, row: Any) -> bool:
    """Returns whether a pair of the table is a queue's id and a row."""
    return queue_id_from_name(str(queue_id)) is not None and isinstance(row, dict)
