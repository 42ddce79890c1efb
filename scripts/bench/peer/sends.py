"""Sends of both sides in the same rounds: unary by two clients, batches, and how long one waits."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.peer.clients import Run, go_load
from bench.peer.content import Content, equal_contents, mixed_contents, unary_content
from bench.peer.rows import Aim, Row, ratios, sides
from bench.peer.sides import Extent, Measured, Pair, pair
from bench.table import turns

PEAK_SHARE: Final = 0.7
UNARY: Final = Aim(3.0, 2.0)
UNARY_SYNC: Final = Aim(2.0, 1.4)
UNARY_GO: Final = Aim(2.0, 1.4)
EQUAL: Final = Aim(2.0, 1.3)
MIXED: Final = Aim(1.5, 1.1)
UNARY_CPU: Final = Aim(0.15, at_most=True)
BATCH_CPU: Final = Aim(0.4, at_most=True)
WAIT: Final = Aim(1.0, at_most=True)
SHARE_OF_UNARY: Final = 0.6
"""Batches make more bytes than single sends: their runs are shorter."""


def async_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Sends that no disk is waited for."""
    unary = [unary_content()]
    with pair(jars, extent) as both:
        what = "unary send 1 KiB, 8 × 8 in flight, h2load"
        ours, real = both.rounds(unary, extent.rounds, extent.seconds)
        yield rate("unary", what, UNARY, ours, real)
        yield cost("unary_cpu", "processor time of a unary send", UNARY_CPU, ours, real)
        what = "unary send 1 KiB, 8 × 8, grpc-go, headers that differ from call to call"
        ours, real = both.rounds(unary, extent.rounds, extent.seconds, _by_go)
        yield rate("unary_go", what, UNARY_GO, ours, real)
        what = "processor time of a unary send from grpc-go"
        yield cost("unary_go_cpu", what, None, ours, real)
        slower = min(median(one.run.per_second for one in side) for side in (ours, real))
        for size in (32, 100):
            yield from batches(both, extent, size, "equal", EQUAL, equal_contents(size))
            yield from batches(both, extent, size, "mixed", MIXED, mixed_contents(size))
        yield _waits(both, extent, PEAK_SHARE * slower)


def sync_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Sends whose answers wait for the disk, on both sides."""
    with pair(jars, extent, sync=True) as both:
        ours, real = both.rounds([unary_content()], extent.rounds, extent.seconds)
        what = "unary send 1 KiB with sync flush on both, h2load"
        yield rate("unary_sync", what, UNARY_SYNC, ours, real)
        what = "processor time of a unary send with sync flush"
        yield cost("unary_sync_cpu", what, None, ours, real)


def batches(
    both: Pair, extent: Extent, size: int, kind: str, aim: Aim, contents: Sequence[Content],
    prefix: str = "",
) -> Iterator[Row]:  # fmt: skip
    """Yields rate and processor time of requests with many messages."""
    ours, real = both.rounds(contents, extent.rounds, SHARE_OF_UNARY * extent.seconds)
    shown = "× 1 KiB" if kind == "equal" else "of mixed sizes, keys, tags and ids"
    name, faces = f"{prefix}batch_{size}_{kind}", "v2 to both: " if prefix else ""
    what = f"{faces}batch of {size} {shown}, messages/s"
    yield rate(name, what, aim, ours, real)
    what = f"{faces}processor time of a message, batch of {size} {shown}"
    yield cost(f"{name}_cpu", what, BATCH_CPU, ours, real)


def rate(name: str, what: str, aim: Aim, ours: Sequence[Measured], real: Sequence[Measured]) -> Row:
    """Returns the row of messages each second."""
    own, other = ([one.messages_per_second for one in side] for side in (ours, real))
    return told(Row(name, what, aim, ratios(own, other), sides(own, other, "/s")))


def cost(
    name: str, what: str, aim: Aim | None, ours: Sequence[Measured], real: Sequence[Measured]
) -> Row:
    """Returns the row of the processor time of a message."""
    own, other = ([one.us for one in side] for side in (ours, real))
    return told(Row(name, what, aim, ratios(own, other), sides(own, other, "µs", 1)))


def _waits(both: Pair, extent: Extent, rate: float) -> Row:
    """How long one in a hundred waits at a rate that either side can keep."""
    waits: dict[str, list[float]] = {side.name: [] for side in both}
    for number in range(extent.rounds):
        for side in turns(both, number):

            def paced(target: str, method: str, request: bytes, _: int) -> Run:
                return go_load(target, method, request, seconds=extent.seconds, rate=rate)

            run = side.run([unary_content()], 0, paced).run
            waits[side.name].append(run.p99_ms)
    ours, real = (waits[side.name] for side in both)
    what = f"p99 of a unary send at {rate:,.0f}/s (70 % of the slower one's peak), grpc-go"
    return told(Row("p99", what, WAIT, ratios(ours, real), sides(ours, real, "ms", 2)))


def _by_go(target: str, method: str, request: bytes, calls: int) -> Run:
    return go_load(target, method, request, calls=calls)


def told(row: Row) -> Row:
    """Returns a row, shown on standard error as soon as it is known."""
    short = {"row": row.name, "value": round(row.value, 3), "verdict": row.verdict}
    print(json.dumps({**short, "plain": row.plain}, ensure_ascii=False), file=sys.stderr)
    return row
