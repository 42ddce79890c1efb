"""The file that says up to where archives contain the log: `pocketmq/archived.json`.

    {"upto": 948185, "target": "s3://bucket/lake", "timeMs": 1795228200000}

`pocketmq archive` writes it in a store's directory, and the broker when an archive run reports it.
Source: none.
"""

import json
from typing import NamedTuple

from pocketmq.format.json_text import read_object
from pocketmq.model.message import OFFSET_MAX


class ArchivedUpto(NamedTuple):
    """The furthest archive of a log.

    upto      physical offset below which it has all messages
    target    its place, without credentials
    time_ms   wall time at which it was reported
    """

    upto: int
    target: str
    time_ms: int


NOTHING_ARCHIVED = ArchivedUpto(0, "", 0)


def encode_archived(found: ArchivedUpto) -> bytes:
    """Returns the content of the file."""
    document = {"upto": found.upto, "target": found.target, "timeMs": found.time_ms}
    return json.dumps(document).encode()


def decode_archived(content: bytes) -> ArchivedUpto:
    """Parses the content of the file.

    Errors   ValueError
    """
    document = read_object(content)
    upto, time_ms = document.get("upto"), document.get("timeMs")
    if type(upto) is not int or not 0 <= upto <= OFFSET_MAX:
        raise ValueError(f"upto is {upto!r}, no physical offset")
    if type(time_ms) is not int or not 0 <= time_ms <= OFFSET_MAX:
        raise ValueError(f"timeMs is {time_ms!r}, no time")
    return ArchivedUpto(upto, str(document.get("target", "")), time_ms)
