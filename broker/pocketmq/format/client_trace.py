"""Traces of classic clients: the bodies of messages in RMQ_SYS_TRACE_TOPIC.

    entry \\x02 entry \\x02 …         field \\x01 field \\x01 …
    Pub             time region group topic id tags keys store-host size cost type [offset-id]
                    success [client-host]
    SubBefore       time region group request id retries keys
    SubAfter        request id cost success keys [code [time group]]
    EndTransaction  time region group topic id tags keys store-host type transaction state checked
    Recall          time region group topic id success

Times are ms of the client's clock, a cost is ms.
Source: TraceDataEncoder, TraceType, ConsumeReturnType.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pocketmq.model.decimal import SUMMABLE_MAX, number_of, signed_number_of

ENTRY_END: Final = b"\x02"
FIELD_END: Final = "\x01"
SUCCESS: Final = "SUCCESS"
FAILED: Final = "FAILED"
RETURNED: Final = (SUCCESS, "TIME_OUT", "EXCEPTION", "RETURNNULL", FAILED)
"""Outcome of a listener, by its code."""


class ClientTrace(NamedTuple):
    """One entry: a step of a client with a message, such as a send.

    step                 name of the entry's kind, as in RocketMQ
    message_id           unique key; a batch has those of all its messages, separated by commas
    client_timestamp_ms  None: the client sent no time
    group                producer or consumer group; "": the client sent none
    topic                "": consumers send none
    client               address of the client; "": the client sent none
    cost_ms              duration of the send, or of the listener's call divided by its messages; it
                         is negative if the client's clock was set back; None: the step has none
    status               outcome of the step; "" for a step that begins
    reconsume_times      retries before this delivery
    request_id           id that SubBefore and SubAfter of one call share; "" for other steps
    """

    step: str
    message_id: str
    client_timestamp_ms: int | None = None
    group: str = ""
    topic: str = ""
    client: str = ""
    cost_ms: int | None = None
    status: str = ""
    reconsume_times: int | None = None
    request_id: str = ""


def read_traces(body: bytes) -> tuple[list[ClientTrace], int]:
    """Returns the entries of a body, and the number of skipped ones.

    Entries are skipped that are damaged or of an unknown kind.

    Cost     2 µs an entry
    """
    found: list[ClientTrace] = []
    skipped_count = 0
    for raw in body.split(ENTRY_END):
        if not raw:
            continue
        try:
            step, *fields = raw.decode().split(FIELD_END)
            found.append(READERS[step](fields))
        except (ValueError, LookupError):
            skipped_count += 1
    return found, skipped_count


def _published(fields: Sequence[str]) -> ClientTrace:
    time, _, group, topic, message_id, _, _, _, _, cost, _, *more = fields
    success = more[0] if len(more) == 1 else more[1]
    return ClientTrace(
        "Pub", message_id, _number(time), group, topic,
        client=more[2] if len(more) > 2 else "",
        cost_ms=_cost(cost),
        status=_status(success),
    )  # fmt: skip


def _consuming(fields: Sequence[str]) -> ClientTrace:
    time, _, group, request_id, message_id, retries, *_ = fields
    return ClientTrace(
        "SubBefore", message_id, _number(time), group,
        reconsume_times=_number(retries), request_id=request_id,
    )  # fmt: skip


def _consumed(fields: Sequence[str]) -> ClientTrace:
    request_id, message_id, cost, success, _, *more = fields
    code = _number(more[0]) if more and more[0] else 0
    has_time = len(more) > 1 and bool(more[1])
    return ClientTrace(
        "SubAfter", message_id,
        _number(more[1]) if has_time else None,
        more[2] if len(more) > 2 else "",
        cost_ms=_cost(cost),
        status=RETURNED[code] if code else _status(success),
        request_id=request_id,
    )  # fmt: skip


def _ended(fields: Sequence[str]) -> ClientTrace:
    time, _, group, topic, message_id, _, _, _, _, _, state, _ = fields[:12]
    return ClientTrace("EndTransaction", message_id, _number(time), group, topic, status=state)


def _recalled(fields: Sequence[str]) -> ClientTrace:
    time, _, group, topic, message_id, success = fields[:6]
    return ClientTrace("Recall", message_id, _number(time), group, topic, status=_status(success))


READERS: Final[Mapping[str, Callable[[Sequence[str]], ClientTrace]]] = {
    "Pub": _published,
    "EndTransaction": _ended,
    "Recall": _recalled,
    "SubBefore": _consuming,
    "SubAfter": _consumed,
}
STEPS: Final = (*READERS,)
"""Kinds of entries, in the order of a message's life."""


def _number(text: str) -> int:
    number = number_of(text, SUMMABLE_MAX)
    if number < 0:
        raise ValueError(f"{text!r} is no number")
    return number


def _cost(text: str) -> int:
    cost_ms = signed_number_of(text, SUMMABLE_MAX)
    if cost_ms is None:
        raise ValueError(f"{text!r} is no duration")
    return cost_ms


def _status(success: str) -> str:
    if success not in ("true", "false"):
        raise ValueError(f"{success!r} is neither true nor false")
    return SUCCESS if success == "true" else FAILED
