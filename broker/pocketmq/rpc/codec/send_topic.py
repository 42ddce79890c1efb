"""Finds the topic of a send request at its usual place: first, without reading the rest.

    pocketmq.v1         0A size │ message: 0A size topic …
    apache.rocketmq.v2  0A size │ message: 0A size resource: [0A size namespace] 12 size name …

Requests that begin otherwise are left to the reader of the whole request.
"""

from typing import Final

from pocketmq.rpc.codec.protobuf_scan import END, FieldScan, bits

_MESSAGE: Final = 1
_TOPIC: Final = 1
_SIZE_MAX: Final = 127
"""Bytes of a topic, in v2 with its namespace; longer ones take a closer look."""
_FIRST: Final = bits(1)
_NAMESPACE: Final = 1
_NAME: Final = 2


def own_topic(raw: bytes) -> str | None:
    """Returns the topic of the first message of a pocketmq.v1 SendMessageRequest, None if unsure.

    Cost     0.4 µs
    """
    text = _first_topic(raw)
    return text.decode("ascii") if text is not None and text.isascii() else None


def official_topic(raw: bytes) -> tuple[str, str] | None:
    """Returns namespace and name of the topic of a v2 SendMessageRequest's first message.

    None     it takes a closer look
    Cost     0.6 µs
    """
    resource = _first_topic(raw)
    if resource is None or not resource.isascii():
        return None
    parts = FieldScan(bits(_NAMESPACE, _NAME), required=bits(_NAME))
    parts.enter(0, len(resource))
    namespace = name = ""
    while (number := parts.step(resource)) > 0:
        text = resource[parts.begin : parts.end].decode("ascii")
        if number == _NAMESPACE:
            namespace = text
        else:
            name = text
    return (namespace, name) if number == END else None


def _first_topic(raw: bytes) -> bytes | None:
    """Returns the first field of the first message, None where another one of it follows."""
    scan = FieldScan(_FIRST)
    scan.enter(0, len(raw))
    if scan.step(raw) != _MESSAGE:
        return None
    scan.enter(scan.begin, scan.end)
    if scan.step(raw) != _TOPIC or scan.size > _SIZE_MAX:
        return None
    begin, end = scan.begin, scan.end
    is_again = raw[end : end + 1] == b"\n"  # Of a field that comes twice both would count.
    return None if is_again else raw[begin:end]
