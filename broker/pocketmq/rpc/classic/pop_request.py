"""Parses pops: group, topic, filter, wait, and the duration of the leases.

Source: PopMessageRequestHeader.
"""

from typing import Final

from pocketmq.filter.parsing import parse_filter
from pocketmq.filter.tag import EVERYTHING
from pocketmq.model.begin import BEGIN_MIN, BEGIN_UNLESS_RECENT, BEGIN_UNSET
from pocketmq.model.consuming import (
    INVISIBLE_MAX_MS,
    INVISIBLE_MIN_MS,
    RECEIVE_MAX,
    ReceiveRequest,
)
from pocketmq.model.errors import IllegalFilter, IllegalInvisibleTime
from pocketmq.model.message import INT32_MAX, OFFSET_MAX
from pocketmq.rpc.call import Call, reading_user
from pocketmq.rpc.classic.fields import flag_field, number_field, text_field
from pocketmq.rpc.classic.heartbeat_body import SQL, TAG
from pocketmq.wire.remoting import Command

WAIT_MS_MAX: Final = 30_000
"""Upper limit of a wait in ms, as proxies close silent connections."""
ATTEMPT_ID_MAX: Final = 255
"""Upper limit of an attempt id's characters; a longer one counts as absent."""
BEGINS: Final = {0: BEGIN_MIN, 1: BEGIN_UNLESS_RECENT}
"""Values of initMode (ConsumeInitMode)."""


def is_sql(request: Command) -> bool:
    """Returns whether the filter of a pop is SQL."""
    return request.fields.get("expType") == SQL


def wait_of(request: Command) -> int:
    """Returns the ms that a request waits for messages.

    Errors   MalformedRequest, IllegalNumber
    """
    wait_ms = number_field(request, "pollTime", lower=-OFFSET_MAX, upper=OFFSET_MAX, absent=0)
    return min(max(wait_ms, 0), WAIT_MS_MAX)


def expected(request: Command, group: str, topic: str) -> ReceiveRequest:
    """Returns the receive that would get the messages for which a NOTIFICATION request waits.

    Errors   MalformedRequest, IllegalNumber
    """
    in_order, attempt_id = order_of(request)
    wait_ms = wait_of(request)
    return ReceiveRequest(
        group, topic, EVERYTHING, 1, 0, wait_ms, attempt_id=attempt_id, in_order=in_order
    )


def order_of(request: Command) -> tuple[bool, str]:
    """Returns (whether messages are popped in FIFO order, the attempt id).

    The id is "" if the order is not FIFO, or the given id is too long.

    Errors   MalformedRequest
    """
    in_order, attempt_id = flag_field(request, "order"), request.fields.get("attemptId", "")
    return in_order, attempt_id if in_order and len(attempt_id) <= ATTEMPT_ID_MAX else ""


def request_of(request: Command, call: Call) -> ReceiveRequest:
    """Returns a checked pop as `Consume.receive` expects it, with message count and wait limited.

    Errors   MalformedRequest, IllegalNumber, IllegalFilter, IllegalInvisibleTime
    """
    fields = request.fields
    kind, expression = fields.get("expType") or TAG, fields.get("exp", "")
    if kind not in (TAG, SQL):
        raise IllegalFilter(expression=expression, why=f"type {kind} is neither {TAG} nor {SQL}")
    invisible_ms = number_field(request, "invisibleTime", lower=-OFFSET_MAX, upper=OFFSET_MAX)
    if not INVISIBLE_MIN_MS <= invisible_ms <= INVISIBLE_MAX_MS:
        raise IllegalInvisibleTime(
            value_ms=invisible_ms, lower_ms=INVISIBLE_MIN_MS, upper_ms=INVISIBLE_MAX_MS
        )
    count = number_field(request, "maxMsgNums", lower=-INT32_MAX)
    begin = number_field(request, "initMode", absent=-1, lower=-1)
    in_order, attempt_id = order_of(request)
    return ReceiveRequest(
        text_field(request, "consumerGroup"),
        text_field(request, "topic"),
        parse_filter(expression, is_sql=kind == SQL),
        min(max(count, 1), RECEIVE_MAX),
        invisible_ms,
        wait_of(request),
        attempt_id=attempt_id,
        room=call.room,
        user=reading_user(call, is_heavy=kind == SQL),
        joined=True,
        begin_ms=BEGINS.get(begin, BEGIN_UNSET),
        in_order=in_order,
    )
