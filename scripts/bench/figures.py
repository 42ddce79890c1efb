"""The figures of the README, each a function; run by scripts/bench/run.

Larger figures have modules (queues.py and others); the others are here. A figure prints one JSON
line: name, value (the median), unit, goal and the values of all rounds. On a shared machine
absolute numbers mean little, so ratios compare values of one round.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter, sleep

from bench.servers import (
    ASYNC,
    BROKER,
    TOPIC,
    Server,
    broker_server,
    load,
    noop_server,
    send_request,
)
from harness.arguments import Arguments, add_result, end_in_order
from harness.figures import Extent, Figure, alternated, ratios, table
from harness.process import ROOT
from pocketmq.rpc.pb import broker_pb2 as pb

QUEUE_COUNT = 8
SECONDS = 3.0


def _compare(
    broker: Server, noop: Server, method: str, noop_method: str, request: bytes, *, in_flight: int,
    extent: Extent, per_call: int = 0,
) -> list[float]:  # fmt: skip
    """Returns the ratio of broker to noop calls per second by round; the order alternates."""
    seconds = extent.seconds(SECONDS)
    expected = broker.stored_count(TOPIC, QUEUE_COUNT) if per_call else 0

    def rate(server: Server, path: str) -> float:
        nonlocal expected
        run = load(server, path, request, in_flight=in_flight, seconds=seconds)
        if per_call and server is broker:
            expected += int(run["total"]) * per_call
            sleep(0.2)  # Dispatch follows an append by up to a few milliseconds.
            stored = broker.stored_count(TOPIC, QUEUE_COUNT)
            if stored != expected:
                raise SystemExit(f"acknowledged {expected} messages, stored {stored}")
        return run["calls"] / run["seconds"]

    subjects = {"broker": partial(rate, broker, method), "noop": partial(rate, noop, noop_method)}
    found = alternated(extent.rounds, subjects, unit="calls a second")
    return ratios(found["broker"], found["noop"])


def send_unary(extent: Extent) -> list[Figure]:
    """Unary sends of 1 KiB, async flush, 64 in flight."""
    what = "unary send 1 KiB async, 64 in flight ÷ grpc.aio no-op of the same types"
    found = _send_ratios(extent, ASYNC, noop_method=BROKER + "SendMessage")
    return [Figure.of("send_unary", what, found, "ratio", "≥ 0.8")]


def send_batch(extent: Extent) -> list[Figure]:
    """Batches of 100 × 1 KiB, async flush, 8 in flight."""
    what = "batch of 100 × 1 KiB async ÷ grpc.aio no-op on raw bytes"
    noop_method = "/noop.Raw/SendMessage"
    found = _send_ratios(extent, ASYNC, noop_method=noop_method, count=100, in_flight=8)
    return [Figure.of("send_batch", what, found, "ratio", "≥ 0.25, wanted 0.45")]


def send_unary_sync(extent: Extent) -> list[Figure]:
    """Unary sends of 1 KiB, sync flush, 64 in flight."""
    found = _send_ratios(extent, noop_method=BROKER + "SendMessage")
    what = "the same with sync flush (group commit)"
    return [Figure.of("send_unary_sync", what, found, "ratio")]


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
    found = _pull_ratios(extent, pb.RECORDS)
    what = "pull of 32 as RECORDS ÷ grpc.aio no-op that answers the same bytes"
    return [Figure.of("pull_records", what, found, "ratio", "≥ 0.85")]


def pull_messages(extent: Extent) -> list[Figure]:
    """Pulls of 32 messages as MESSAGES, 64 in flight."""
    found = _pull_ratios(extent, pb.MESSAGES)
    what = "pull of 32 × 1 KiB as MESSAGES ÷ grpc.aio no-op that answers the same bytes"
    return [Figure.of("messages", what, found, "ratio", "≥ 0.5")]


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
    with broker_server(ASYNC) as small, broker_server(ASYNC) as large:
        _fill(small, 10_000)
        _fill(large, 1_000_000)
        subjects = {"large": partial(_query_p99, large), "small": partial(_query_p99, small)}
        found = alternated(extent.rounds, subjects, unit="p99, ms")
    what = "p99 of query by key at 1 M indexed messages ÷ at 10 k"
    rounds = ratios(found["large"], found["small"])
    return [Figure.of("query_by_key", what, rounds, "ratio", "≤ 1.5")]


def _query_p99(server: Server) -> float:
    request = pb.QueryByKeyRequest(topic=TOPIC, key="rare-77").SerializeToString()
    return load(server, BROKER + "QueryByKey", request, in_flight=1, seconds=SECONDS)["p99_ms"]


def _fill(server: Server, count: int) -> None:
    """Sends messages with unique keys to queue 0, and waits for dispatch."""
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
    times, idle = [], []
    for _ in range(extent.rounds):
        begun = perf_counter()
        with broker_server() as broker:
            times.append(perf_counter() - begun)
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
    """Dispatch lag while batches arrive at full speed."""
    from bench.inside import lag_p99_ms

    worst = [lag_p99_ms(SECONDS) for _ in range(extent.rounds)]
    what = "reput lag at full speed, p99: from visible in the log to pullable"
    return [Figure.of("reput_lag", what, worst, "ms", "≤ 10")]


def hot_functions(extent: Extent) -> list[Figure]:
    """Microseconds of the tuned functions."""
    from bench.inside import MEASURES

    return [
        Figure.of(name, f"{name}, per record or key", (one() for _ in range(extent.rounds)), "µs")
        for name, one in MEASURES.items()
    ]


def help_command(extent: Extent) -> list[Figure]:
    """Processor time of `pocketmq --help`, of one call of a broker, and of an idle interpreter."""
    program = str(Path(sys.executable).with_name("pocketmq"))

    def cpu_ms(command: list[str]) -> float:
        times = []
        for _ in range(5):
            before = getrusage(RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
            after = getrusage(RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            times.append(1000 * spent)
        return median(times)

    with broker_server(ASYNC) as server:
        server.create_topics({TOPIC: 1})
        commands = {
            "help": [program, "--help"],
            "call": [program, "topic", "ls", "--endpoint", server.target],
            "python": [sys.executable, "-c", "pass"],
        }
        for command in commands.values():
            cpu_ms(command)  # The first run compiles what changed.
        subjects = {name: partial(cpu_ms, command) for name, command in commands.items()}
        found = alternated(extent.rounds, subjects, unit="ms")
    return [
        Figure.of("help", "`pocketmq --help`, processor time", found["help"], "ms", "≤ 100"),
        Figure.of("call", "`pocketmq topic ls`, processor time", found["call"], "ms", "≤ 200"),
        Figure.of("help_python", "of these, `python -c pass`", found["python"], "ms"),
    ]


def scrape(extent: Extent) -> list[Figure]:
    """Time and size of a page of /metrics; each topic has a message, so all its series exist."""
    topics = [f"bench-{number:04d}" for number in range(extent.count(1_000))]
    with broker_server(ASYNC) as server:
        server.create_topics(dict.fromkeys(topics, 1))
        requests = [
            pb.SendMessageRequest(messages=[pb.Message(topic=topic, body=b"x")]) for topic in topics
        ]
        sends = [request.SerializeToString() for request in requests]
        load(server, BROKER + "SendMessage", *sends, in_flight=8, count=len(topics))
        server.check_stored(dict.fromkeys((topics[0], topics[-1]), 1))
        times, sizes = [], []
        for _ in range(extent.rounds):
            run = []
            for _ in range(20):
                begun = perf_counter()
                sizes.append(len(server.page("/metrics")))
                run.append(1000 * (perf_counter() - begun))
            times.append(median(run))
    many = f"{len(topics):,} topics"
    return [
        Figure.of("scrape", f"a scrape of /metrics with {many}", times, "ms", "≤ 20"),
        Figure.of("scrape_size", f"the page with {many}", [max(sizes) / 1024], "KiB"),
    ]


POOL_SETTINGS = {
    "neither": (ASYNC,),
    "transient_pool": (ASYNC, "store.transient_pool=true"),
    "warm_files": (ASYNC, "store.warm_files=true"),
}


def pool(extent: Extent) -> list[Figure]:
    """Ratios of rates and p99 with one of two settings to those with neither; and the latter."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(broker_server(*settings))
            for name, settings in POOL_SETTINGS.items()
        }
        for server in servers.values():
            server.create_topics({TOPIC: QUEUE_COUNT})
        sent = dict.fromkeys(servers, 0)
        figures = [f for size in (1, 100) for f in _pool_rounds(servers, extent, size, sent)]
        for name, server in servers.items():
            server.check_stored({TOPIC: sent[name]})
    return figures


def _pool_rounds(
    servers: dict[str, Server], extent: Extent, size: int, sent: dict[str, int]
) -> Iterator[Figure]:
    request, in_flight = send_request(size), 64 if size == 1 else 8

    def run(name: str) -> tuple[float, float]:
        done = load(
            servers[name], BROKER + "SendMessage", request, in_flight=in_flight,
            seconds=extent.seconds(1.0),
        )  # fmt: skip
        sent[name] += int(done["total"]) * size
        return done["calls"] * size / done["seconds"], done["p99_ms"]

    runs = alternated(extent.rounds, {name: partial(run, name) for name in servers}, messages=size)
    shape, word = ("unary", "unary") if size == 1 else (f"batches of {size}", "batch")
    plain = runs.pop("neither")
    for place, kind, what, unit in (
        (0, "", "messages a second", "/s"), (1, "_p99", "p99 of a send", "ms")
    ):  # fmt: skip
        without = [one[place] for one in plain]
        yield Figure.of(f"pool_neither_{word}{kind}", f"{what}, {shape}", without, unit)
        for name, found in runs.items():
            shown = f"{what}, {shape}: store.{name} ÷ neither"
            rounds = ratios((one[place] for one in found), without)
            yield Figure.of(f"{name}_{word}{kind}", shown, rounds, "ratio")


IN_MODULES = {
    "sending": "bench.sending:sending_figures",
    "consuming": "bench.consuming:consuming_figures",
    "transactions": "bench.transactions:transaction_figures",
    "timers": "bench.timers:timers_figures",
    "queues": "bench.queues:queue_figures",
    "cold": "bench.cold:cold_figures",
    "retention": "bench.retention:retention_figures",
    "recovery": "bench.recovery:recovery_figures",
    "catchup": "bench.catchup:catch_up_figures",
    "rebuild": "bench.rebuild:rebuild_figures",
    "backfill": "bench.rebuild:backfill_figures",
    "reput": "bench.rebuild:reput_figures",
    "polls": "bench.polls:poll_figures",
    "leases": "bench.leases:lease_figures",
    "replicas": "bench.replicas:replica_figures",
    "filters": "bench.polls:filter_figures",
    "wire": "bench.wire:wire_figures",
    "console": "bench.console:console_figures",
    "shipping": "bench.shipping:shipping_figures",
    "lakes": "bench.lakes:lake_figures",
    "streams": "bench.streams:stream_figures",
    "layers": "bench.layers:layer_figures",
}
"""Figures of other modules; a module is imported when its figure is measured."""


def _in_module(place: str, extent: Extent) -> list[Figure]:
    module, _, name = place.partition(":")
    figures: list[Figure] = getattr(import_module(module), name)(extent)
    return figures


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
    "pool": pool,
    "scrape": scrape,
    "help": help_command,
    **{name: partial(_in_module, place) for name, place in IN_MODULES.items()},
}


def main() -> None:
    """Measures the requested figures and prints the table."""
    parser = Arguments("scripts/bench/run", "Figures of the README.", FIGURES, "figure")
    parser.add_argument("--rounds", type=int, default=5, help="runs each figure is the median of")
    parser.add_argument(
        "--scale", type=float, default=1.0,
        help="messages and seconds of a run, times this; where a figure scales",
    )  # fmt: skip
    given = parser.given()
    if given.rounds < 1 or given.scale <= 0:
        parser.error("--rounds is 1 at least, and --scale more than 0")
    begun, rows = perf_counter(), []
    for name in given.names:
        print(f"measuring {name} …", file=sys.stderr)
        for figure in FIGURES[name](Extent(given.rounds, given.scale)):
            print(figure.line(), flush=True)
            add_result(given.json, figure._asdict())
            rows.append(figure.cells)
    print(f"\n{os.cpu_count()} cores, {given.rounds} rounds, medians [lowest to highest]\n")
    print(table(("figure", "wanted", "measured"), rows))
    print(f"\n{perf_counter() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    end_in_order()
    main()
