"""Gain of store.transient_pool and store.warm_files for sends with async flush.

Three brokers, with neither, the one and the other, take turns in every round.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack

from bench.servers import ASYNC, BROKER, TOPIC, Server, broker_server, load, send_request
from bench.table import Extent, Figure, turns

QUEUE_COUNT = 8
SETTINGS = {
    "neither": (ASYNC,),
    "transient_pool": (ASYNC, "store.transient_pool=true"),
    "warm_files": (ASYNC, "store.warm_files=true"),
}
IN_FLIGHT = {1: 64, 100: 8}
SECONDS = 1.0


def pool_figures(extent: Extent) -> list[Figure]:
    """Rates and p99 with either setting ÷ with neither, and what they are with neither."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(broker_server(*settings))
            for name, settings in SETTINGS.items()
        }
        for server in servers.values():
            server.create_topics({TOPIC: QUEUE_COUNT})
        sent = dict.fromkeys(servers, 0)
        figures = [
            figure for size in IN_FLIGHT for figure in _compared(servers, extent, size, sent)
        ]
        for name, server in servers.items():
            server.check_stored({TOPIC: sent[name]})
    return figures


def _compared(
    servers: dict[str, Server], extent: Extent, size: int, sent: dict[str, int]
) -> Iterator[Figure]:
    request = send_request(size)
    rates: dict[str, list[float]] = {name: [] for name in servers}
    waits: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(extent.rounds):
        for name in turns([*servers], number):
            run = load(
                servers[name], BROKER + "SendMessage", request,
                in_flight=IN_FLIGHT[size], seconds=extent.seconds(SECONDS),
            )  # fmt: skip
            sent[name] += int(run["total"]) * size
            rates[name].append(run["calls"] * size / run["seconds"])
            waits[name].append(run["p99_ms"])
        last = {name: (rates[name][-1], waits[name][-1]) for name in servers}
        print(json.dumps({"round": number, "messages": size, "runs": last}), file=sys.stderr)
    shape, word = ("unary", "unary") if size == 1 else (f"batches of {size}", "batch")
    plain_rates, plain_waits = rates.pop("neither"), waits.pop("neither")
    yield Figure.of(f"pool_neither_{word}", f"messages a second, {shape}", plain_rates, "/s")
    yield Figure.of(f"pool_neither_{word}_p99", f"p99 of a send, {shape}", plain_waits, "ms")
    for name in rates:
        pairs = zip(rates[name], plain_rates, strict=True)
        what = f"messages a second, {shape}: store.{name} ÷ neither"
        yield Figure.of(f"{name}_{word}", what, [a / b for a, b in pairs], "ratio")
        pairs = zip(waits[name], plain_waits, strict=True)
        what = f"p99 of a send, {shape}: store.{name} ÷ neither"
        yield Figure.of(f"{name}_{word}_p99", what, [a / b for a, b in pairs], "ratio")
