"""Finds messages that match a regular expression.

Bodies are decompressed. Bodies and properties are decoded as UTF-8; invalid bytes become U+FFFD.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from pocketmq.format.body_codec import plain_body
from pocketmq.format.properties import decode_properties
from pocketmq.model.message import KEY_SEPARATOR, KEYS, TAGS, UNIQUE_KEY, StoredMessage
from pocketmq.tools.selection import LogSearch, Picked

BODY: Final = "body"
KEY: Final = "key"
TAG: Final = "tag"
PROPERTY: Final = "property"
ANY: Final = "any"
PLACES: Final = (BODY, KEY, TAG, PROPERTY, ANY)


def matching(
    search: LogSearch,
    pattern: re.Pattern[str],
    place: str = BODY,
    searched: Callable[[int], None] = lambda count: None,
) -> Iterator[StoredMessage]:
    """Yields the messages of a search that match a pattern, in log order.

    place    one of PLACES:
             KEY: each of the message's keys, and its unique key
             PROPERTY: every property as NAME=VALUE, keys and tag included
             ANY: the body and every property
    searched called with the number of messages that the pattern is compared with next
    Cost     about 1.5 µs a record, plus the search
    """
    for picked in search:
        searched(len(picked.heads))
        for number in range(len(picked.heads)):
            if any(pattern.search(text) is not None for text in _texts(picked, number, place)):
                yield from picked.take(slice(number, number + 1)).messages()


def _texts(picked: Picked, number: int, place: str) -> Iterator[str]:
    heads = picked.heads
    if place in (BODY, ANY):
        begin = int(heads.body_begin[number])
        body = bytes(picked.buffer[begin : begin + int(heads.body_size[number])])
        yield plain_body(body, int(heads.system_flag[number])).decode("utf-8", "replace")
    if place == BODY:
        return
    begin = int(heads.block_begin[number])
    properties = decode_properties(picked.buffer[begin : begin + int(heads.block_size[number])])
    if place == TAG:
        yield from [properties[TAGS]] if TAGS in properties else []
    elif place == KEY:
        keys = properties.get(KEYS, "").split(KEY_SEPARATOR)
        yield from (key for key in [*keys, properties.get(UNIQUE_KEY, "")] if key)
    else:
        yield from (f"{name}={value}" for name, value in properties.items())
