"""Decisions of a plain EndTransactionRequest: which half messages it decides, and how.

A transaction id is plain if `transaction_id.py` could have written it and its unique key consists
of printable ASCII without spaces. The generated classes parse all other requests.
"""

from typing import Final, final

from pocketmq.format.plain_text import text_hash
from pocketmq.native.machine import i64

DECISIONS_MAX: Final = 256
"""Upper limit of decisions in a plain request, which become one put."""
_DOT: Final = 0x2E
_DIGITS_MAX: Final = 15
"""Upper limit of hexadecimal digits: the number fits a signed 64-bit integer."""


@final
class EndRequest:
    """The decisions of a request, as lists of equal length; `begin` starts the next request.

    group      producer group of the request
    at         queue offset of each half message in the half topic
    places     physical offset of each half message
    keys       unique key of each half message
    commits    whether each decision is a commit; False: a rollback
    """

    __slots__ = ("at", "commits", "group", "keys", "places")

    def __init__(self) -> None:
        self.begin(b"")

    def begin(self, group: bytes) -> None:
        """Removes all decisions, and sets the producer group."""
        self.group = group
        self.at: list[int] = []
        self.places: list[int] = []
        self.keys: list[bytes] = []
        self.commits: list[bool] = []

    def take(self, text: bytes, *, is_commit: bool) -> bool:
        """Adds a decision about a transaction id.

        Returns  False if the id is not plain, or the request already has DECISIONS_MAX decisions
        """
        if len(self.at) == DECISIONS_MAX:
            return False
        end: i64 = len(text)
        at, begin = _hexadecimal(text, 0, end)
        place, key_begin = _hexadecimal(text, begin, end)
        if at < 0 or place < 0 or key_begin >= end or text_hash(text, key_begin, end, 0) < 0:
            return False
        self.at.append(at)
        self.places.append(place)
        self.keys.append(text[key_begin:end])
        self.commits.append(is_commit)
        assert len(self.commits) == len(self.at)
        return True


def _hexadecimal(text: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """Parses a number and the dot after it to (number, position after the dot); -1 if invalid."""
    value: i64 = 0
    begin = position
    while position < end and position - begin <= _DIGITS_MAX:
        byte: i64 = text[position]
        position += 1
        if byte == _DOT:
            is_short = position - begin == 2 or text[begin] != 0x30
            return (value, position) if position - begin > 1 and is_short else (-1, end)
        if 0x30 <= byte <= 0x39:
            value = value << 4 | byte - 0x30
        elif 0x41 <= byte <= 0x46:
            value = value << 4 | byte - 0x37
        else:
            return -1, end
    return -1, end
