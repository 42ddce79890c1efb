"""Tag filters: "TagA || TagB" matches messages with one of these tags.

A consume unit contains a hash of its message's tag. A filter first checks the hash, which has false
positives but does not require the record. It then checks the tag in the record.

    "", "*"         all messages, including those without a tag
    "a || b"        tag a or tag b; blanks around tags and empty parts are ignored
Source: FilterAPI.buildSubscriptionData, DefaultMessageFilter.
"""

import re
from collections.abc import Callable
from typing import Final

from pocketmq.format.named_properties import property_block, property_key, property_text
from pocketmq.model.errors import IllegalFilter
from pocketmq.model.message import TAGS

ALL: Final = "*"
SEPARATOR: Final = "||"
EXTENSION_ADDRESS_MAX: Final = -2_147_483_649
"""Largest address in a queue's extension (ConsumeQueueExt). Codes up to this value are addresses,
not hashes. They all match, and the tag in the record decides."""

_TAGS_KEY: Final = property_key(TAGS)
_LOW_32_BITS: Final = 0xFFFF_FFFF
_UNUSABLE = re.compile(r"[|\x00-\x1f\x7f]")


class TagFilter:
    """A parsed expression; `tags` is empty if everything matches."""

    __slots__ = ("_codes", "is_everything", "tags")

    reads_records: Final = False

    def __init__(self, tags: frozenset[str], codes: frozenset[int]) -> None:
        self.tags = tags
        self.is_everything = not tags
        self._codes = codes

    def matches_code(self, code: int) -> bool:
        """Returns whether a message with this tags code may match; only the low 32 bits count."""
        if self.is_everything or code <= EXTENSION_ADDRESS_MAX:
            return True
        return code & _LOW_32_BITS in self._codes

    def cost_ns(self, record: bytes) -> int:
        """Returns 0: finding the tag is cheap."""
        return 0

    def matches(self, record: bytes) -> bool:
        """Returns whether a stored record has one of the tags."""
        return self.is_everything or property_text(property_block(record), _TAGS_KEY) in self.tags

    def matches_tag(self, tag: str | None) -> bool:
        """Returns whether a message with a tag, or None for no tag, matches."""
        return self.is_everything or tag in self.tags


EVERYTHING: Final = TagFilter(frozenset(), frozenset())


def parse(expression: str, code_of: Callable[[str], int]) -> TagFilter:
    """Returns the filter of an expression; `code_of` computes the tags code of a tag.

    Errors   IllegalFilter: no tag between the separators, "*" with tags, or an illegal tag
    """
    text = expression.strip()
    if text in ("", ALL):
        return EVERYTHING
    tags = frozenset(piece.strip() for piece in text.split(SEPARATOR)) - {""}
    if not tags:
        raise IllegalFilter(expression=expression, why="it names no tag")
    if ALL in tags:
        raise IllegalFilter(expression=expression, why="* cannot be combined with tags")
    if any(_UNUSABLE.search(tag) for tag in tags):
        why = "tags are separated by ||, and contain neither | nor control characters"
        raise IllegalFilter(expression=expression, why=why)
    return TagFilter(tags, frozenset(code_of(tag) & _LOW_32_BITS for tag in tags))
