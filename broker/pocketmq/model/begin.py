"""The point at which a new group begins to consume a queue, as text and as a time.

    text   "min", "max", or a time: RFC 3339 or ms since 1970
    time   ms since 1970; the group begins with the first message stored at or after this time
           0 (BEGIN_MIN): the queue's min offset; 2^63 - 1 (BEGIN_MAX): the queue's max offset

Source: ConsumeFromWhere, ConsumeInitMode.
"""

from datetime import UTC, datetime
from typing import Final

from pocketmq.model.decimal import number_of
from pocketmq.model.errors import IllegalBegin
from pocketmq.model.message import OFFSET_MAX

BEGIN_UNSET: Final = -1
"""The client states no begin: the group's setting applies."""
BEGIN_UNLESS_RECENT: Final = -2
"""The queue's max offset, or 0 if message 0 is recent: then group and topic may both be new. Only
clients state this begin; a group's settings cannot."""
BEGIN_MIN: Final = 0
BEGIN_MAX: Final = OFFSET_MAX
MIN: Final = "min"
MAX: Final = "max"
TIME_MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def begin_from_text(text: str) -> int:
    """Parses a begin to a time in ms.

    Errors   IllegalBegin
    """
    if text == MIN:
        return BEGIN_MIN
    if text == MAX:
        return BEGIN_MAX
    time_ms = number_of(text, TIME_MAX_MS) if text.isdecimal() else _moment_ms(text)
    if not BEGIN_MIN <= time_ms <= TIME_MAX_MS:
        raise IllegalBegin(begin=text)
    return time_ms


def begin_text(begin_ms: int) -> str:
    """Returns the text of a begin; `begin_from_text` parses it to the same time."""
    assert begin_ms >= BEGIN_MIN, "no begin is set"
    if begin_ms in (BEGIN_MIN, BEGIN_MAX):
        return MIN if begin_ms == BEGIN_MIN else MAX
    seconds, ms = divmod(begin_ms, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms:03}Z" if ms else f"{text}Z"


def is_timed(begin_ms: int) -> bool:
    """Returns whether a begin is a time, not one of the BEGIN constants."""
    return BEGIN_MIN < begin_ms < BEGIN_MAX


def _moment_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise IllegalBegin(begin=text) from None
    if moment.tzinfo is None:
        raise IllegalBegin(begin=text)
    seconds = moment.replace(microsecond=0).timestamp()
    return int(seconds) * 1000 + moment.microsecond // 1000
