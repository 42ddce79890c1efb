"""Decisions of a plain EndTransactionRequest: which half messages it decides, and how.

Ids are plain as `transaction_id.py` writes them, of printable ASCII without a space. Other requests
are left to the generated classes.
"""

from typing import Final, final

from pocketmq.format.plain_text import text_hash
from pocketmq.native.machine import i64

DECISIONS_MAX: Final = 256
"""Most decisions of a plain request: those that one put takes."""
_DOT: Final = 0x2E
_DIGITS_MAX: Final = 15
"""Of a hexadecimal number that is no larger than an offset can be."""


@final
class EndRequest:
    """The decisions of one request after another: `begin` forgets the one before.

    group      their producer's
    at         queue offset of each among the half messages; places: its physical offset
    keys       its unique key
    commits    whether it is committed
    """

    __slots__ = ("at", "commits", "group", "keys", "places")

    def __init__(self) -> None:
        self.begin(b"")

    def begin(self, group: bytes) -> None:
        """Clears all decisions, and takes the producer group."""
        self.group = group
        self.at: list[int] = []
        self.places: list[int] = []
        self.keys: list[bytes] = []
        self.commits: list[bool] = []

    def take(self, text: bytes, *, is_commit: bool) -> bool:
        """Takes a decision over the transaction of an id; returns whether it is plain."""
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
    """Returns a number that ends with a dot, and where the rest begins; -1 when it is none."""
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
