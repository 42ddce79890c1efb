"""The topic of a send, found where clients put it: first of all, without reading the rest.

    pocketmq.v1         0A size │ message: 0A size topic …
    apache.rocketmq.v2  0A size │ message: 0A size resource: [0A size namespace] 12 size name …

What begins otherwise is left to who reads the whole request.
"""

from typing import Final, NamedTuple

_FIRST: Final = 0x0A
_SECOND: Final = 0x12
_LONG: Final = 0x80
_VARINT_SIZE_MAX: Final = 5


class Named(NamedTuple):
    """A topic as an official client names it; the namespace may be ""."""

    namespace: str
    name: str


def own_topic(raw: bytes) -> str | None:
    """Return the topic of the first message of a pocketmq.v1 SendMessageRequest, None if unsure."""
    begin = _content(raw, 0, _FIRST)
    if begin is None:
        return None
    found = _text(raw, begin[0], _FIRST)
    return None if found is None else found[0]


def official_topic(raw: bytes) -> Named | None:
    """Return the topic of the one message of a v2 SendMessageRequest, None if unsure.

    None also where there are several messages: they may be of several topics.
    """
    message = _content(raw, 0, _FIRST)
    if message is None or message[1] != len(raw):
        return None
    resource = _content(raw, message[0], _FIRST)
    if resource is None:
        return None
    at, end = resource
    namespace = _text(raw, at, _FIRST)
    if namespace is not None:
        at = namespace[1]
    name = _text(raw, at, _SECOND)
    if name is None or name[1] != end:
        return None
    # Of a field that comes twice both would count: the next one has to be another.
    if end < len(raw) and raw[end] == _FIRST:
        return None
    return Named(namespace[0] if namespace else "", name[0])


def _content(raw: bytes, at: int, tag: int) -> tuple[int, int] | None:
    """Return where the content of a field begins and ends that stands at a place."""
    if at >= len(raw) or raw[at] != tag:
        return None
    size, shift = 0, 0
    for place in range(at + 1, min(at + 1 + _VARINT_SIZE_MAX, len(raw))):
        byte = raw[place]
        size |= (byte & ~_LONG) << shift
        if byte < _LONG:
            end = place + 1 + size
            return (place + 1, end) if end <= len(raw) else None
        shift += 7
    return None


def _text(raw: bytes, at: int, tag: int) -> tuple[str, int] | None:
    """Return a short text of printable ASCII that stands at a place, and where it ends."""
    begin = at + 2
    if begin > len(raw) or raw[at] != tag or raw[at + 1] >= _LONG:
        return None
    end = begin + raw[at + 1]
    text = raw[begin:end]
    if end > len(raw) or not text.isascii():
        return None
    return text.decode("ascii"), end
