"""The figures of the README, each a function; run by scripts/bench/run.

Those with much of their own have a module each (queues.py and others); here are the others.

A figure prints one JSON line: name, value, unit, what was wanted, and the rounds it is the median
of. Absolute numbers mean little on a shared machine; ratios are taken within one round.
"""

import argparse
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from time import perf_counter, sleep

from bench.servers import (
    ASYNC,
    BROKER,
    TOPIC,
    Server,
    broker_server,
    load,
    noop_server,
    seconds_to_ready,
    send_request,
)
from bench.table import Extent, Figure, table
from pocketmq.rpc.pb import broker_pb2 as pb

QUEUE_COUNT = 8
SECONDS = 3.0


def _compare(
    broker: Server, noop: Server, method: str, noop_method: str, request: bytes, *, in_flight: int,
    extent: Extent, per_call: int = 0,
) -> list[float]:  # fmt: skip
    """Returns broker / noop calls per second, round by round, alternating who comes first."""
    ratios, seconds = [], extent.seconds(SECONDS)
    expected = broker.stored_count(TOPIC, QUEUE_COUNT) if per_call else 0
    for number in range(extent.rounds):
        runs: dict[str, dict[str, float]] = {}
        order = [("noop", noop, noop_method), ("broker", broker, method)]
        for name, server, path in order if number % 2 else reversed(order):
            runs[name] = load(server, path, request, in_flight=in_flight, seconds=seconds)
        rates = {name: run["calls"] / run["seconds"] for name, run in runs.items()}
        ratios.append(rates["broker"] / rates["noop"])
        print(json.dumps({"round": number, "per_second": rates}), file=sys.stderr)
        if per_call:
            expected += int(runs["broker"]["total"]) * per_call
            sleep(0.2)  # Dispatch is up to a few milliseconds behind.
            stored = broker.stored_count(TOPIC, QUEUE_COUNT)
            if stored != expected:
                raise SystemExit(f"acknowledged {expected} messages, stored {stored}")
    return ratios


def send_unary(extent: Extent) -> list[Figure]:
    """Unary sends of 1 KiB, async flush, 64 in flight."""
    what = "unary send 1 KiB async, 64 in flight ÷ grpc.aio no-op of the same types"
    ratios = _send_ratios(extent, ASYNC, noop_method=BROKER + "SendMessage")
    return [Figure.of("send_unary", what, ratios, "ratio", "≥ 0.8")]


def send_batch(extent: Extent) -> list[Figure]:
    """Batches of 100 × 1 KiB, async flush, 8 in flight."""
    what = "batch of 100 × 1 KiB async ÷ grpc.aio no-op on raw bytes"
    noop_method = "/noop.Raw/SendMessage"
    ratios = _send_ratios(extent, ASYNC, noop_method=noop_method, count=100, in_flight=8)
    return [Figure.of("send_batch", what, ratios, "ratio", "≥ 0.25, wanted 0.45")]


def send_unary_sync(extent: Extent) -> list[Figure]:
    """Unary sends of 1 KiB, sync flush, 64 in flight."""
    ratios = _send_ratios(extent, noop_method=BROKER + "SendMessage")
    what = "the same with sync flush (group commit)"
    return [Figure.of("send_unary_sync", what, ratios, "ratio", "")]


def _send_ratios(
    extent: Extent, *settings: str, noop_method: str, count: int = 1, in_flight: int = 64
) -> list[float]:
    with broker_server(*settings) as broker, noop_server() as noop:
        method, request = BROKER + "SendMessage", send_request(count)
        broker.call(method, request)
        return _compare(
            broker, noop, method, noop_method, request,
            in_flight=in_flight, extent=extent, per_call=count,
        )  # fmt: skip


def pull_records(extent: Extent) -> list[Figure]:
    """Pulls of 32 records as RECORDS, 64 in flight."""
    ratios = _pull_ratios(extent, pb.RECORDS)
    what = "pull of 32 as RECORDS ÷ grpc.aio no-op that answers the same bytes"
    return [Figure.of("pull_records", what, ratios, "ratio", "≥ 0.85")]


def pull_messages(extent: Extent) -> list[Figure]:
    """Pulls of 32 messages as MESSAGES, 64 in flight."""
    ratios = _pull_ratios(extent, pb.MESSAGES)
    what = "pull of 32 × 1 KiB as MESSAGES ÷ grpc.aio no-op that answers the same bytes"
    return [Figure.of("messages", what, ratios, "ratio", "≥ 0.5")]


def _pull_ratios(extent: Extent, shape: pb.PullShape) -> list[float]:
    with broker_server(ASYNC) as broker:
        _fill(broker, 3_200)
        request = pb.PullMessageRequest(
            topic=TOPIC, queue_id=0, offset=0, max_messages=32, shape=shape
        ).SerializeToString()
        method = BROKER + "PullMessage"
        answer = broker.call(method, request)
        found = pb.PullMessageResponse.FromString(answer)
        if found.next_begin_offset != 32:
            raise SystemExit(f"the pull found {found.next_begin_offset} messages, not 32")
        with noop_server(answer) as noop:
            return _compare(
                broker, noop, method, "/noop.Raw/PullMessage", request, in_flight=64, extent=extent
            )


def query_by_key(extent: Extent) -> list[Figure]:
    """P99 of a query by key with 1 M messages indexed against 10 k."""
    ratios = []
    with broker_server(ASYNC) as small, broker_server(ASYNC) as large:
        _fill(small, 10_000)
        _fill(large, 1_000_000)
        for number in range(extent.rounds):
            pair = [("small", small), ("large", large)]
            took = {
                name: _query_p99(server) for name, server in (pair if number % 2 else pair[::-1])
            }
            ratios.append(took["large"] / took["small"])
            print(json.dumps({"round": number, "p99_ms": took}), file=sys.stderr)
    what = "p99 of query by key at 1 M indexed messages ÷ at 10 k"
    return [Figure.of("query_by_key", what, ratios, "ratio", "≤ 1.5")]


def _query_p99(server: Server) -> float:
    request = pb.QueryByKeyRequest(topic=TOPIC, key="rare-77").SerializeToString()
    return load(server, BROKER + "QueryByKey", request, in_flight=1, seconds=SECONDS)["p99_ms"]


def _fill(server: Server, count: int) -> None:
    """Sends messages to queue 0, each with a key of its own, and waits for dispatch."""
    sent = 0
    body = random.Random(2).randbytes(1024)
    while sent < count:
        batch = [
            pb.Message(
                topic=TOPIC, queue_id=0, body=body, tag="TagA", keys=[f"rare-{sent + number}"]
            )
            for number in range(min(500, count - sent))
        ]
        server.call(
            BROKER + "SendMessage", pb.SendMessageRequest(messages=batch).SerializeToString()
        )
        sent += len(batch)
    while server.stored_count(TOPIC, 1) < count:
        sleep(0.05)


def start(extent: Extent) -> list[Figure]:
    """Time to ready and memory of an idle daemon."""
    times = [seconds_to_ready() for _ in range(extent.rounds)]
    idle = []
    for _ in range(extent.rounds):
        with broker_server() as broker:
            sleep(1.5)
            idle.append(broker.anonymous_mib())
    return [
        Figure.of("ready", "ready on an empty store", times, "s", "≤ 1"),
        Figure.of("idle_memory", "RssAnon idle", idle, "MiB", "≤ 70"),
    ]


def memory_growth(extent: Extent) -> list[Figure]:
    """Growth of RssAnon over a million messages."""
    with broker_server(ASYNC) as broker:
        request = send_request(100)
        method = BROKER + "SendMessage"
        load(broker, method, request, in_flight=8, seconds=3)
        sleep(1)
        before = broker.anonymous_mib()
        stored = broker.stored_count(TOPIC, QUEUE_COUNT)
        while broker.stored_count(TOPIC, QUEUE_COUNT) < stored + 1_000_000:
            load(broker, method, request, in_flight=8, seconds=SECONDS)
        sleep(1)
        growth = broker.anonymous_mib() - before
    what = "growth of RssAnon over 1 M messages"
    return [Figure.of("memory_growth", what, [growth], "MiB", "≤ 30")]


def reput_lag(extent: Extent) -> list[Figure]:
    """How far dispatch is behind what is visible, while batches arrive at full speed."""
    worst = [_lag_p99_ms() for _ in range(extent.rounds)]
    what = "reput lag at full speed, p99: from visible in the log to pullable"
    return [Figure.of("reput_lag", what, worst, "ms", "≤ 10")]


def _lag_p99_ms() -> float:
    """Runs the store at full speed in this process; returns the p99 age of undispatched records."""
    from bench.inside import lag_p99_ms

    return lag_p99_ms(SECONDS)


def hot_functions(extent: Extent) -> list[Figure]:
    """Microseconds of the functions that are tuned."""
    from bench import inside

    measures = {
        "encode_records": inside.encode_records_us,
        "index_entries": inside.index_entries_us,
        "java_hashes": inside.java_hashes_us,
        "walk_plain": inside.walk_plain_us,
        "encode_sent": inside.encode_sent_us,
        "stored_messages": inside.stored_messages_us,
        "pull_joined": inside.pull_joined_us,
        "hash_texts": inside.hash_texts_us,
        "link_entries": inside.link_entries_us,
    }
    figures = []
    for name, measure in measures.items():
        hot = [measure() for _ in range(extent.rounds)]
        figures.append(Figure.of(name, f"{name}, per record or key", hot, "µs"))
    return figures


def _in_file(module: str, name: str) -> Callable[[Extent], list[Figure]]:
    """Returns a figure of another module by the name of its function; imported when measured."""

    def measure(extent: Extent) -> list[Figure]:
        figures: list[Figure] = getattr(import_module(module), name)(extent)
        return figures

    return measure


FIGURES: dict[str, Callable[[Extent], list[Figure]]] = {
    "send_unary": send_unary,
    "send_unary_sync": send_unary_sync,
    "send_batch": send_batch,
    "pull_records": pull_records,
    "messages": pull_messages,
    "query_by_key": query_by_key,
    "start": start,
    "memory_growth": memory_growth,
    "reput_lag": reput_lag,
    "hot_functions": hot_functions,
    "sending": _in_file("bench.sending", "sending_figures"),
    "consuming": _in_file("bench.consuming", "consuming_figures"),
    "transactions": _in_file("bench.transactions", "transaction_figures"),
    "timers": _in_file("bench.timers", "timers_figures"),
    "queues": _in_file("bench.queues", "queue_figures"),
    "cold": _in_file("bench.cold", "cold_figures"),
    "retention": _in_file("bench.retention", "retention_figures"),
    "pool": _in_file("bench.pool", "pool_figures"),
    "scrape": _in_file("bench.scrape", "scrape_figures"),
    "help": _in_file("bench.help", "help_figures"),
    "recovery": _in_file("bench.recovery", "recovery_figures"),
    "rebuild": _in_file("bench.rebuild", "rebuild_figures"),
    "backfill": _in_file("bench.rebuild", "backfill_figures"),
    "reput": _in_file("bench.rebuild", "reput_figures"),
    "polls": _in_file("bench.polls", "poll_figures"),
    "leases": _in_file("bench.leases", "lease_figures"),
    "filters": _in_file("bench.polls", "filter_figures"),
    "wire": _in_file("bench.wire", "wire_figures"),
    "layers": _in_file("bench.layers", "layer_figures"),
}


def main() -> None:
    """Measures what was asked for and prints the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench/run", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--rounds", type=int, default=5, help="runs each figure is the median of")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="messages and seconds of a run, times this; where a figure scales",
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(FIGURES)
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    if arguments.rounds < 1 or arguments.scale <= 0:
        parser.error("--rounds is 1 at least, and --scale more than 0")
    rows = []
    for name in arguments.names or FIGURES:
        print(f"measuring {name} …", file=sys.stderr)
        for figure in FIGURES[name](Extent(arguments.rounds, arguments.scale)):
            print(figure.line(), flush=True)
            rows.append(figure)
    print(f"\n{os.cpu_count()} cores, {arguments.rounds} rounds, medians [lowest to highest]\n")
    print(table(rows))


if __name__ == "__main__":
    begun = perf_counter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Servers end with the measurement.
    main()
    print(f"\n{perf_counter() - begun:.0f} s", file=sys.stderr)
