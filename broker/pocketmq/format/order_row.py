"""State of a group in a FIFO queue, as a row of RocketMQ's `config/consumerOrderInfo.json`.

    o        delivered queue offsets: the first one, then the difference of each other one from it
    cm       bit n is set if the n-th of these queue offsets is settled
    oc       queue offset -> number of earlier deliveries, for messages delivered more than once
    ot       queue offset -> wall ms from which it may be delivered again
    popTime · i         time of the last receive, and its invisible duration
    l                   time at which the row was written
    a        attempt id of the last receive
    pocketmq            PocketMQ's members, which RocketMQ ignores and does not preserve

RocketMQ keeps one receive for a queue, of at most 64 messages, and delivers no more while any of
them is invisible. In PocketMQ each message group has its own receive, which RocketMQ's members
cannot express. A row without the member `pocketmq` was written by RocketMQ.
Source: QueueLevelConsumerManager.OrderInfo.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pocketmq.model.decimal import number_of
from pocketmq.model.message import INT32_MAX, OFFSET_MAX

OWN_MEMBER: Final = "pocketmq"
BIT_COUNT: Final = 64
"""Bits of `cm`, a Java long."""
SPAN_MAX: Final = 1 << 20
"""Upper limit of settled offsets read from a row; no group has more settled offsets in a queue."""
DELIVERIES_MAX: Final = 1 << 30
"""Highest delivery attempt read from a row, so that later attempts fit clients' 32-bit integers."""


class OrderedDelivery(NamedTuple):
    """A message that was delivered and is not settled.

    number          delivery attempt, 1 for the first
    popped_at_ms    wall ms of the last delivery, which the receipt handle contains
    visible_at_ms   wall ms from which it may be delivered again
    claim           id of the receive that delivered the message: a client that repeats the receive
                    gets the same messages; "" if the receive cannot be repeated
    """

    number: int
    popped_at_ms: int
    visible_at_ms: int
    claim: str = ""


class QueueOrder(NamedTuple):
    """State of a group in one FIFO queue.

    next_offset   all lower offsets are settled
    settled       settled queue offsets above `next_offset`: some lower one is not settled yet
    delivered     delivered and unsettled messages, by queue offset
    """

    next_offset: int = 0
    settled: frozenset[int] = frozenset()
    delivered: Mapping[int, OrderedDelivery] = {}


def encode_order(order: QueueOrder, written_at_ms: int) -> dict[str, Any]:
    """Returns the row of a queue, readable by RocketMQ and PocketMQ."""
    known = sorted({*order.settled, *order.delivered})
    shown = [offset for offset in known[:BIT_COUNT] if offset - known[0] <= INT32_MAX]
    last = max(
        order.delivered.values(), key=lambda d: d.popped_at_ms, default=OrderedDelivery(0, 0, 0)
    )
    delivered = {offset: order.delivered[offset] for offset in shown if offset in order.delivered}
    bits = sum(1 << n for n, offset in enumerate(shown) if offset in order.settled)
    row = {
        "cm": bits - (1 << BIT_COUNT) if bits >> (BIT_COUNT - 1) else bits,
        "i": max(last.visible_at_ms - last.popped_at_ms, 0),
        "l": written_at_ms,
        "o": shown[:1] + [offset - shown[0] for offset in shown[1:]],
        "oc": {offset: d.number - 1 for offset, d in delivered.items() if d.number > 1},
        "ot": {offset: d.visible_at_ms for offset, d in delivered.items()},
        OWN_MEMBER: {
            # A list, as an object's integer keys are written without quotes: in a member that
            # RocketMQ does not know, it fails on them.
            "delivered": [[offset, *d] for offset, d in sorted(order.delivered.items())],
            "next": order.next_offset,
            "settled": spans_of(sorted(order.settled)),
        },
        "popTime": last.popped_at_ms,
    }
    attempt_id = last.claim.rpartition(" ")[2]
    return {"a": attempt_id, **row} if attempt_id else row


def decode_order(row: Mapping[str, Any], committed: int) -> QueueOrder:
    """Parses a row; members without valid numbers are ignored.

    committed   the group's committed offset in the queue
    """
    own = row.get(OWN_MEMBER)
    found = _own(own) if isinstance(own, dict) else _real(row)
    return order_from(found, committed)


def order_from(order: QueueOrder, committed: int) -> QueueOrder:
    """Returns the order after the group committed an offset."""
    begin = max(order.next_offset, committed)
    settled = {offset for offset in order.settled if offset >= begin}
    while begin in settled:
        settled.remove(begin)
        begin += 1
    delivered = {o: d for o, d in order.delivered.items() if o >= begin and o not in settled}
    return QueueOrder(begin, frozenset(settled), delivered)


def is_earlier_form(row: Mapping[str, Any]) -> bool:
    """Returns whether PocketMQ wrote the row in an earlier form, on which RocketMQ fails."""
    own = row.get(OWN_MEMBER)
    return isinstance(own, dict) and isinstance(own.get("delivered"), dict)


def _own(own: Mapping[str, Any]) -> QueueOrder:
    settled = read_spans(own.get("settled"))
    rows = own.get("delivered")
    if isinstance(rows, list):  # An earlier form has an object.
        rows = {row[0]: row[1:] for row in rows if _begins_with_number(row)}
    found = _rows({"delivered": rows}, "delivered", _is_delivery)
    delivered = {
        offset: OrderedDelivery(min(row[0], DELIVERIES_MAX), *row[1:]) for offset, row in found
    }
    return QueueOrder(_number(own.get("next")), frozenset(settled), delivered)


def read_spans(spans: Any) -> list[int]:
    """Returns the offsets of [begin, end) pairs; ignores invalid pairs."""
    offsets: list[int] = []
    for span in spans if isinstance(spans, list) else ():
        room = SPAN_MAX - len(offsets)
        if isinstance(span, list) and len(span) == 2 and all(map(_is_number, span)):
            offsets += range(span[0], min(span[1], span[0] + room))
    return offsets


def _begins_with_number(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and _is_number(row[0])


def _real(row: Mapping[str, Any]) -> QueueOrder:
    """Parses RocketMQ's members: one receive with one time and attempt id."""
    distances = row.get("o")
    if not isinstance(distances, list) or not all(map(_is_number, distances)):
        return QueueOrder()
    offsets = distances[:1] + [distances[0] + distance for distance in distances[1:]]
    if not all(map(_is_number, offsets)):
        return QueueOrder()
    popped_at_ms, hidden_ms = (_number(row.get(name)) for name in ("popTime", "i"))
    bits = row.get("cm")
    bits = bits if isinstance(bits, int) else 0
    settled = frozenset(offset for n, offset in enumerate(offsets) if bits >> min(n, 63) & 1)
    counts, times = dict(_rows(row, "oc", _is_number)), dict(_rows(row, "ot", _is_number))
    attempt_id = row.get("a")
    claim = f" {attempt_id}" if isinstance(attempt_id, str) and attempt_id else ""
    delivered = {
        offset: OrderedDelivery(
            min(counts.get(offset, 0) + 1, DELIVERIES_MAX),
            popped_at_ms,
            times.get(offset, min(popped_at_ms + hidden_ms, OFFSET_MAX)),
            claim,
        )
        for offset in offsets
        if offset not in settled
    }
    return QueueOrder(0, settled, delivered)


def _rows(table: Mapping[str, Any], member: str, is_fit: Any) -> Iterator[tuple[int, Any]]:
    rows = table.get(member)
    for key, value in rows.items() if isinstance(rows, dict) else ():
        queue_offset = number_of(str(key))
        if queue_offset >= 0 and is_fit(value):
            yield queue_offset, value


def _is_delivery(row: Any) -> bool:
    is_shaped = isinstance(row, list) and len(row) == len(OrderedDelivery._fields)
    return is_shaped and all(map(_is_number, row[:3])) and row[0] > 0 and isinstance(row[3], str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= OFFSET_MAX


def _number(value: Any) -> int:
    return int(value) if _is_number(value) else 0


def spans_of(offsets: Sequence[int]) -> list[list[int]]:
    """Returns ascending offsets as [begin, end) pairs."""
    spans: list[list[int]] = []
    for offset in offsets:
        if spans and spans[-1][1] == offset:
            spans[-1][1] = offset + 1
        else:
            spans.append([offset, offset + 1])
    return spans
