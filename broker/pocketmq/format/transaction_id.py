"""The id of a transaction as its producer gets it: position and key of its half message.

    2A.1F4C0.FD0000000000000000000000000000024E854E0E2F2A672150F7005D
    queue offset in the half topic (hex) . physical offset (hex) . unique key

A decision is accepted only if all three parts match one half message. In the log, a transaction is
identified by its unique key alone, as in RocketMQ.
Source: EndTransactionRequestHeader (tranStateTableOffset, commitLogOffset, transactionId).
"""

from typing import Final, NamedTuple

from pocketmq.model.message import OFFSET_MAX

_SEPARATOR: Final = "."
_DIGITS_MAX: Final = 16
_HEX: Final = frozenset("0123456789ABCDEF")


class HalfPlace(NamedTuple):
    """The half message that a transaction id names."""

    queue_offset: int
    physical_offset: int
    unique_key: str


def transaction_id(place: HalfPlace) -> str:
    """Returns the id that a producer gets."""
    return (
        f"{place.queue_offset:X}{_SEPARATOR}{place.physical_offset:X}{_SEPARATOR}{place.unique_key}"
    )


def read_transaction_id(text: str) -> HalfPlace | None:
    """Parses an id; returns None if it is invalid."""
    queue_offset, _, rest = text.partition(_SEPARATOR)
    physical_offset, _, unique_key = rest.partition(_SEPARATOR)
    numbers = _number(queue_offset), _number(physical_offset)
    if not unique_key or min(numbers) < 0:
        return None
    return HalfPlace(*numbers, unique_key)


def _number(text: str) -> int:
    """Parses a hexadecimal number in the form that `transaction_id` writes; -1 if invalid."""
    if not 0 < len(text) <= _DIGITS_MAX or not _HEX.issuperset(text):
        return -1
    if text[0] == "0" and len(text) > 1:
        return -1
    value = int(text, 16)
    return value if value <= OFFSET_MAX else -1
