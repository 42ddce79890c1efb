"""A load generator in a separate process; it drives every compared server.

    python -m bench.load TARGET METHOD REQUESTS [--in-flight N] [--count N | --seconds S]
                                 [--rate R] [--each]

REQUESTS is a file of requests (`framed`), which are sent repeatedly in order.

--in-flight N   N callers, each of which waits for its reply: measures throughput
--rate R        R calls a second, replied to or not: measures latency
--each          before the results, a JSON array of all calls, to be pooled by the caller: each an
                array of its begin in s of the monotonic clock, and its latency in ms

Prints "begun" at the first counted call, then one JSON object: calls counted, calls answered, calls
failed, seconds, latencies in ms (p50, p99, maximum). With --count every call is counted, with
--seconds every call after a short warm-up.
"""

import argparse
import asyncio
import json
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from time import perf_counter

import grpc

WARM_UP_SECONDS = 0.5
CONNECT_SECONDS = 60
HANG_SECONDS = 600
"""Delay after a run's planned end at which it counts as hanging in a call without a reply."""
_LENGTH = struct.Struct("<I")

Call = Callable[[bytes], Awaitable[object]]


def framed(requests: Iterable[bytes]) -> bytes:
    """Returns the concatenation of requests, each after its length."""
    return b"".join(_LENGTH.pack(len(request)) + request for request in requests)


def requests_from(content: bytes) -> list[bytes]:
    """Returns the requests that `framed` encoded."""
    requests = []
    position = 0
    while position < len(content):
        (size,) = _LENGTH.unpack_from(content, position)
        position += _LENGTH.size
        requests.append(content[position : position + size])
        position += size
    return requests


def percentile(ordered: list[float], share: float) -> float:
    """Returns the value that `share` of the sorted values do not exceed; 0.0 without values."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


class Tally:
    """Counters of one run."""

    def __init__(self, call: Call, counted_from: float) -> None:
        self._call = call
        self._counted_from = counted_from
        self.calls: list[tuple[float, float]] = []
        """Begin in s, and latency in ms, of each counted call."""
        self._total = 0
        self._failed = 0

    async def one(self, request: bytes) -> None:
        """Makes one call and counts it."""
        asked = perf_counter()
        try:
            await self._call(request)
            self._total += 1
        except grpc.aio.AioRpcError as error:
            if not self._failed:
                print(error, file=sys.stderr)
            self._failed += 1
        if asked >= self._counted_from:
            self.calls.append((asked, 1000 * (perf_counter() - asked)))

    def result(self) -> dict[str, float]:
        """Returns the results of the run."""
        seconds = perf_counter() - self._counted_from
        ordered = sorted(latency_ms for _, latency_ms in self.calls)
        return {
            "calls": len(ordered),
            "total": self._total,
            "failed": self._failed,
            "seconds": seconds,
            "p50_ms": percentile(ordered, 0.5),
            "p99_ms": percentile(ordered, 0.99),
            "max_ms": percentile(ordered, 1.0),
        }


async def by_callers(
    tally: Tally, requests: Iterator[bytes], in_flight: int, *, count: int, end: float
) -> None:
    """Keeps `in_flight` calls in flight until `count` were made, or until `end` if count is 0."""
    left = count

    async def caller() -> None:
        nonlocal left
        while left > 0 if count else perf_counter() < end:
            left -= 1
            await tally.one(next(requests))

    await asyncio.gather(*(caller() for _ in range(in_flight)))


async def by_rate(
    tally: Tally, requests: Iterator[bytes], rate: float, *, begun: float, end: float
) -> None:
    """Makes calls at a constant rate until `end`, without waiting for replies."""
    tasks: set[asyncio.Task[None]] = set()  # Ended ones would make garbage collections long.
    count = 0
    while (due := begun + count / rate) < end:
        await asyncio.sleep(max(due - perf_counter(), 0))
        task = asyncio.create_task(tally.one(next(requests)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        count += 1
    await asyncio.gather(*tasks)


async def drive(given: argparse.Namespace) -> dict[str, float]:
    """Returns the results of one run."""
    requests = cycle(requests_from(given.requests.read_bytes()))
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(given.target, options=options) as channel:
        method = channel.unary_unary(given.method)
        await asyncio.wait_for(channel.channel_ready(), CONNECT_SECONDS)
        begun = perf_counter()
        counted_from = begun + (0 if given.count else WARM_UP_SECONDS)
        tally = Tally(method, counted_from)
        advance = partial(print, "begun", flush=True)
        asyncio.get_running_loop().call_later(counted_from - begun, advance)
        end = counted_from + given.seconds
        async with asyncio.timeout(given.seconds + HANG_SECONDS):
            if given.rate:
                await by_rate(tally, requests, given.rate, begun=begun, end=end)
            else:
                await by_callers(tally, requests, given.in_flight, count=given.count, end=end)
        if given.each:
            print(json.dumps(tally.calls))
        return tally.result()


def main() -> None:
    """Drives the server of the arguments."""
    import uvloop

    parser = argparse.ArgumentParser(description="Drive a server.")
    parser.add_argument("target")
    parser.add_argument("method")
    parser.add_argument("requests", type=Path)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--each", action="store_true")
    print(json.dumps(uvloop.run(drive(parser.parse_args()))))


if __name__ == "__main__":
    main()
