"""A load generator in a process of its own: so many calls of one method in flight for a time.

Arguments: target, method, file with the request's bytes, calls in flight, seconds.
Prints one JSON object: calls answered, calls failed, seconds, and latencies in ms (p50, p99).
The same generator, sending the same bytes, drives every server that is compared.
"""

import asyncio
import json
import sys
from pathlib import Path
from time import perf_counter

import grpc

WARM_UP_SECONDS = 0.5


async def drive(target: str, method: str, request: bytes, in_flight: int, seconds: float) -> str:
    """Return the JSON of one run."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        call = channel.unary_unary(method)
        latencies: list[float] = []
        failed = total = 0
        begun = perf_counter()
        counted_from, end = begun + WARM_UP_SECONDS, begun + WARM_UP_SECONDS + seconds

        async def one() -> None:
            nonlocal failed, total
            while (asked := perf_counter()) < end:
                try:
                    await call(request)
                    total += 1
                except grpc.aio.AioRpcError:
                    failed += 1
                answered = perf_counter()
                if asked >= counted_from:
                    latencies.append(answered - asked)

        await asyncio.gather(*(one() for _ in range(in_flight)))
        elapsed = perf_counter() - counted_from
    latencies.sort()
    return json.dumps(
        {
            "calls": len(latencies),
            "total": total,
            "failed": failed,
            "seconds": elapsed,
            "p50_ms": 1000 * latencies[len(latencies) // 2],
            "p99_ms": 1000 * latencies[len(latencies) * 99 // 100],
        }
    )


if __name__ == "__main__":
    import uvloop

    target, method, request_file, in_flight, seconds = sys.argv[1:]
    request = Path(request_file).read_bytes()
    print(uvloop.run(drive(target, method, request, int(in_flight), float(seconds))))
