"""The file that records how much of the log each archive has: `pocketmq/archived.json`.

    {"upto": 948185, "target": "s3://bucket/lake", "timeMs": 1795228200000,
     "archives": [["/mnt/archive", 950000, 1795228201000], ["s3://bucket/lake", 948185, …]]}

`pocketmq archive` writes it to a store's directory, or reports to the broker, which writes it.
An archive that does not report for ALIVE_MS, while another one does, is removed from the file.
Earlier versions wrote no `archives`, and supported only one archive.
Source: none.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pocketmq.format.json_text import read_object
from pocketmq.model.message import OFFSET_MAX

ALIVE_MS: Final = 7 * 24 * 3_600_000
"""Time without a report after which an archive no longer counts, if another one reports."""


class ArchivedUpto(NamedTuple):
    """An archive of a log.

    upto      physical offset below which it has all messages
    target    its path or URL, without credentials
    time_ms   wall time of its last report
    """

    upto: int
    target: str
    time_ms: int


NOTHING_ARCHIVED = ArchivedUpto(0, "", 0)


def least_of(archives: Sequence[ArchivedUpto]) -> ArchivedUpto:
    """Returns the archive with the lowest `upto`; NOTHING_ARCHIVED if there is none."""
    return min(archives, default=NOTHING_ARCHIVED)


def with_report(archives: Sequence[ArchivedUpto], report: ArchivedUpto) -> tuple[ArchivedUpto, ...]:
    """Returns the archives that still report, after a report is applied, sorted by target.

    The `upto` of an archive never falls: of two reports the higher one counts.
    """
    known = {one.target: one for one in archives}
    before = known.get(report.target, report)
    upto, time_ms = max(before.upto, report.upto), max(before.time_ms, report.time_ms)
    known[report.target] = ArchivedUpto(upto, report.target, time_ms)
    newest = max(one.time_ms for one in known.values())
    alive = [one for one in known.values() if one.time_ms > newest - ALIVE_MS]
    return tuple(sorted(alive, key=lambda one: one.target))


def encode_archived(archives: Sequence[ArchivedUpto]) -> bytes:
    """Returns the content of the file."""
    least = least_of(archives)
    document = {"upto": least.upto, "target": least.target, "timeMs": least.time_ms}
    rows = [[one.target, one.upto, one.time_ms] for one in archives]
    return json.dumps({**document, "archives": rows}).encode()


def decode_archived(content: bytes) -> tuple[ArchivedUpto, ...]:
    """Parses the content of the file.

    Errors   ValueError
    """
    document = read_object(content)
    own = [document.get("target", ""), document.get("upto"), document.get("timeMs")]
    rows = document.get("archives", [own])
    if not isinstance(rows, list):
        raise ValueError(f"archives is {rows!r}, no list")
    return tuple(_archive(row) for row in rows)


def _archive(row: Any) -> ArchivedUpto:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError(f"{row!r} is no archive")
    target, upto, time_ms = row
    if type(upto) is not int or not 0 <= upto <= OFFSET_MAX:
        raise ValueError(f"upto is {upto!r}, no physical offset")
    if type(time_ms) is not int or not 0 <= time_ms <= OFFSET_MAX:
        raise ValueError(f"timeMs is {time_ms!r}, no time")
    return ArchivedUpto(upto, str(target), time_ms)
