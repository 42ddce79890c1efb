"""Answers to pops: messages, and the parts of their receipt handles.

    startOffsetInfo   kind queueId start;…           msgOffsetInfo   kind queueId offset,offset;…
    orderCountInfo    kind qoQUEUE%OFFSET times;…    kind: 0 topic, 1 and 2 retry topics

Clients build receipt handles from these fields and from popTime, invisibleTime and reviveQid. So
the fields list only leases of the requested topic that have these three values, one for each queue.
All other records are changed: they name the requested topic, and their property POP_CK is their
handle. The Java client overwrites POP_CK if startOffsetInfo is empty, so it is never empty.
A stored record does not contain the number of its deliveries in FIFO order. Clients that pop in
order get it in orderCountInfo, other clients as the retry count of each record.
Source: PopMessageProcessor, ExtraInfoUtil, MQClientAPIImpl.processPopResponse.
"""

from typing import Final

from pocketmq.format.properties import NAME_END, PAIR_END, PROPERTIES_SIZE_MAX
from pocketmq.format.receipt_handle import NORMAL, ORDERED, LeasePlace
from pocketmq.format.record import split_record
from pocketmq.format.record_heads import split_pieces
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.message import POP_CHECKPOINT
from pocketmq.rpc.classic.status import POLLING_TIMEOUT, SUCCESS
from pocketmq.services.consume.handles import runs_of
from pocketmq.wire.remoting import Command

_TOPIC_SIZE_MAX: Final = 127
_RETRY_COUNT_TO_BODY: Final = -16
"""Position of a record's retry count, relative to its body."""


def nothing_found(request: ReceiveRequest, now_ms: int) -> Command:
    """Returns the answer to a pop that found no message in time."""
    fields = {
        "popTime": str(now_ms), "invisibleTime": str(request.invisible_ms), "reviveQid": "0",
        "restNum": "0", "startOffsetInfo": "", "msgOffsetInfo": "",
    }  # fmt: skip
    return Command(POLLING_TIMEOUT, fields, remark="NO_MESSAGE_IN_QUEUE")


def popped(request: ReceiveRequest, received: Received, rest: int) -> Command:
    """Returns received messages as the answer to a pop.

    rest   number of further messages that the group may receive now
    """
    runs = [(place, handles, at) for place, handles, at in runs_of(received.handles) if place]
    assert runs, "messages without handles"
    head = next((place for place, _, _ in runs if place.retry == NORMAL), runs[0][0])
    starts: list[str] = []
    offsets: list[str] = []
    counts: list[str] = []
    records: list[bytes] = []
    left, attempts = split_pieces(received.records), received.attempts
    assert len(left) == len(received.handles), "records and handles differ in number"
    seen: set[int] = set()
    for place, handles, queue_offsets in runs:
        own, left = left[: len(handles)], left[len(handles) :]
        own_attempts, attempts = attempts[: len(handles)], attempts[len(handles) :]
        if place.queue_id in seen or not _is_shown_by(head, place):
            own = [
                named(one, request.topic, handle) for one, handle in zip(own, handles, strict=True)
            ]
        else:
            seen.add(place.queue_id)
            starts.append(f"{NORMAL} {place.queue_id} {place.start_offset}")
            offsets.append(f"{NORMAL} {place.queue_id} {','.join(map(str, queue_offsets))}")
        if place.revive_queue == ORDERED and not request.in_order:
            own = [retried(*one) for one in zip(own, own_attempts, strict=True)]
        elif place.revive_queue == ORDERED:
            counts += [
                f"{place.retry} qo{place.queue_id}%{offset} {times - 1}"
                for offset, times in zip(queue_offsets, own_attempts, strict=True)
                if times > 1
            ]
        records += own
    starts = starts or [f"{NORMAL} {head.queue_id} {head.start_offset}"]
    fields = {
        "popTime": str(head.popped_at_ms), "invisibleTime": str(head.invisible_ms),
        "reviveQid": str(head.revive_queue), "restNum": str(rest),
        "startOffsetInfo": ";".join(starts), "msgOffsetInfo": ";".join(offsets),
    }  # fmt: skip
    if counts:
        fields["orderCountInfo"] = ";".join(counts)
    return Command(SUCCESS, fields, b"".join(records), remark="FOUND")


def _is_shown_by(head: LeasePlace, place: LeasePlace) -> bool:
    return place.retry == NORMAL and place[1:4] == head[1:4]


def retried(record: bytes, attempt: int) -> bytes:
    """Returns a record with the retry count of a delivery attempt."""
    body_begin = split_record(record, 0)[1]
    times, end = (attempt - 1).to_bytes(4), body_begin + _RETRY_COUNT_TO_BODY
    return record[:end] + times + record[end + len(times) :]


def named(record: bytes, topic: str, handle: str) -> bytes:
    """Returns a record with another topic, and with its receipt handle as the property POP_CK.

    A record of version 2, or without room for the handle, is returned unchanged.
    """
    _, _, begin, end, block_begin, block_end = split_record(record, 0)
    name, block = topic.encode(), record[block_begin:block_end]
    if record[begin - 1] != end - begin or len(name) > _TOPIC_SIZE_MAX:
        return record
    pair = POP_CHECKPOINT.encode() + NAME_END + handle.encode() + PAIR_END
    block = (block if not block or block.endswith(PAIR_END) else block + PAIR_END) + pair
    if len(block) > PROPERTIES_SIZE_MAX:
        return record
    made = b"".join((record[: begin - 1], bytes((len(name),)), name, len(block).to_bytes(2), block))
    return len(made).to_bytes(4) + made[4:]
