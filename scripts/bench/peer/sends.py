"""Sends to both sides in the same rounds: unary by two clients, batches, and latency at a rate."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.peer.clients import Run, go_load
from bench.peer.content import Content, equal_contents, mixed_contents, unary_content
from bench.peer.rows import Aim, Row, sides
from bench.peer.sides import Extent, Measured, Pair, Side, pair
from harness.figures import alternated, ratios
from harness.process import tell

PEAK_SHARE: Final = 0.7
UNARY: Final = Aim(3.0, 2.0)
UNARY_SYNC: Final = Aim(2.0, 1.4)
UNARY_GO: Final = Aim(2.0, 1.4)
EQUAL: Final = Aim(2.0, 1.3)
MIXED: Final = Aim(1.5, 1.1)
BATCH_CPU: Final = Aim(0.4, at_most=True)
WAIT: Final = Aim(1.0, at_most=True)
SHARE_OF_UNARY: Final = 0.6
"""Duration of a batch run relative to a unary run: batches store more bytes."""


class Face(NamedTuple):
    """The protocol of sends to PocketMQ: pocketmq.v1, or RocketMQ's, with the same bytes.

    cpu, go_cpu   goals of a unary send's processor time, from h2load and from grpc-go
    """

    prefix: str
    said: str
    cpu: Aim
    go_cpu: Aim | None = None

    @property
    def is_official(self) -> bool:
        """Whether PocketMQ receives the same bytes as RocketMQ."""
        return bool(self.prefix)


OWN: Final = Face("", "", Aim(0.15, at_most=True))
V2: Final = Face("official_", "v2 to both: ", Aim(0.35, at_most=True), Aim(0.35, at_most=True))


def async_rows(jars: Path, extent: Extent, face: Face = OWN) -> Iterator[Row]:
    """Sends with asynchronous flush."""
    unary, name, said = [unary_content()], f"{face.prefix}unary", face.said
    with pair(jars, extent, official=face.is_official) as both:
        ours, real = both.rounds(unary, extent.rounds, extent.seconds)
        yield rate(name, f"{said}unary send 1 KiB, 8 × 8 in flight, h2load", UNARY, ours, real)
        yield cost(f"{name}_cpu", f"{said}processor time of a unary send", face.cpu, ours, real)
        ours, real = both.rounds(unary, extent.rounds, extent.seconds, _by_go)
        what = f"{said}unary send 1 KiB, 8 × 8, grpc-go, headers that differ from call to call"
        yield rate(f"{name}_go", what, UNARY_GO, ours, real)
        what = f"{said}processor time of a unary send from grpc-go"
        yield cost(f"{name}_go_cpu", what, face.go_cpu, ours, real)
        slower = min(median(one.run.per_second for one in side) for side in (ours, real))
        for size in (32, 100):
            for kind, contents in (
                ("equal", equal_contents(size)),
                ("mixed", mixed_contents(size)),
            ):
                yield from _batches(both, extent, face, kind, contents)
        if not face.is_official:
            yield _waits(both, extent, PEAK_SHARE * slower)


def sync_rows(jars: Path, extent: Extent, face: Face = OWN) -> Iterator[Row]:
    """Sends with synchronous flush on both sides."""
    with pair(jars, extent, sync=True, official=face.is_official) as both:
        ours, real = both.rounds([unary_content()], extent.rounds, extent.seconds)
        name = f"{face.prefix}unary_sync"
        what = f"{face.said}unary send 1 KiB with sync flush on both, h2load"
        yield rate(name, what, UNARY_SYNC, ours, real)
        what = f"{face.said}processor time of a unary send with sync flush"
        yield cost(f"{name}_cpu", what, None, ours, real)


def _batches(
    both: Pair, extent: Extent, face: Face, kind: str, contents: Sequence[Content]
) -> Iterator[Row]:
    """Yields rate and processor time of requests with many messages."""
    ours, real = both.rounds(contents, extent.rounds, SHARE_OF_UNARY * extent.seconds)
    shown = "× 1 KiB" if kind == "equal" else "of mixed sizes, keys, tags and ids"
    name, size = f"{face.prefix}batch_{len(contents)}_{kind}", len(contents)
    what = f"{face.said}batch of {size} {shown}, messages/s"
    yield rate(name, what, EQUAL if kind == "equal" else MIXED, ours, real)
    what = f"{face.said}processor time of a message, batch of {size} {shown}"
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
    """P99 of a send, at a rate that both sides can keep."""

    def paced(target: str, method: str, request: bytes, _: int) -> Run:
        return go_load(target, method, request, seconds=extent.seconds, rate=rate)

    def wait(side: Side) -> float:
        return side.run([unary_content()], 0, paced).run.p99_ms

    subjects: dict[str, Callable[[], float]] = {side.name: partial(wait, side) for side in both}
    ours, real = alternated(extent.rounds, subjects, unit="p99, ms").values()
    what = f"p99 of a unary send at {rate:,.0f}/s (70 % of the slower one's peak), grpc-go"
    return told(Row("p99", what, WAIT, ratios(ours, real), sides(ours, real, "ms", 2)))


def _by_go(target: str, method: str, request: bytes, calls: int) -> Run:
    return go_load(target, method, request, calls=calls)


def told(row: Row) -> Row:
    """Prints a row to standard error, and returns it."""
    short = {"row": row.name, "value": round(row.value, 3), "verdict": row.verdict}
    tell({**short, "plain": row.plain})
    return row
