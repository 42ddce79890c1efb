"""The figures of the README, each a function; run by scripts/bench.

A figure prints one JSON line: name, value, unit, what was wanted, and the rounds it is the median
of. Absolute numbers mean little on a shared machine; ratios are taken within one round.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_servers import BROKER, Server, broker_server, load, noop_server, seconds_to_ready
from broker.rpc.pb import broker_pb2 as pb

TOPIC = "bench"
QUEUE_COUNT = 8
SECONDS = 3.0
ASYNC = "store.flush=async"


class Figure(NamedTuple):
    """One measured number; `wanted` is text such as "≥ 0.8"."""

    name: str
    what: str
    value: float
    unit: str
    wanted: str
    rounds: list[float]


def messages(count: int) -> list[pb.Message]:
    """Return messages of 1 KiB with a tag and a key."""
    body = random.Random(1).randbytes(1024)
    return [
        pb.Message(topic=TOPIC, body=body, tag="TagA", keys=[f"key-{number}"])
        for number in range(count)
    ]


def send_request(count: int) -> bytes:
    """Return the bytes of a SendMessage request."""
    return pb.SendMessageRequest(messages=messages(count)).SerializeToString()


def _compare(
    broker: Server, noop: Server, method: str, noop_method: str, request: bytes, *, in_flight: int,
    rounds: int, per_call: int = 0,
) -> list[float]:  # fmt: skip
    """Return broker / noop calls per second, round by round, alternating who comes first."""
    ratios = []
    expected = broker.stored_count(TOPIC, QUEUE_COUNT) if per_call else 0
    for number in range(rounds):
        runs: dict[str, dict[str, float]] = {}
        order = [("noop", noop, noop_method), ("broker", broker, method)]
        for name, server, path in order if number % 2 else reversed(order):
            runs[name] = load(server, path, request, in_flight=in_flight, seconds=SECONDS)
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


def send_unary(rounds: int) -> list[Figure]:
    """Unary sends of 1 KiB, async flush, 64 in flight."""
    with broker_server(ASYNC) as broker, noop_server() as noop:
        method, request = BROKER + "SendMessage", send_request(1)
        broker.call(method, request)
        ratios = _compare(
            broker, noop, method, method, request, in_flight=64, rounds=rounds, per_call=1
        )
    what = "unary send 1 KiB async, 64 in flight ÷ grpc.aio no-op of the same types"
    return [Figure("send_unary", what, median(ratios), "ratio", "≥ 0.8", ratios)]


def send_batch(rounds: int) -> list[Figure]:
    """Batches of 100 × 1 KiB, async flush, 8 in flight."""
    with broker_server(ASYNC) as broker, noop_server() as noop:
        method, request = BROKER + "SendMessage", send_request(100)
        broker.call(method, request)
        ratios = _compare(
            broker, noop, method, "/noop.Raw/SendMessage", request, in_flight=8, rounds=rounds,
            per_call=100,
        )  # fmt: skip
    what = "batch of 100 × 1 KiB async ÷ grpc.aio no-op on raw bytes"
    return [Figure("send_batch", what, median(ratios), "ratio", "≥ 0.25, wanted 0.45", ratios)]


def send_unary_sync(rounds: int) -> list[Figure]:
    """Unary sends of 1 KiB, sync flush, 64 in flight."""
    with broker_server() as broker, noop_server() as noop:
        method, request = BROKER + "SendMessage", send_request(1)
        broker.call(method, request)
        ratios = _compare(
            broker, noop, method, method, request, in_flight=64, rounds=rounds, per_call=1
        )
    what = "the same with sync flush (group commit)"
    return [Figure("send_unary_sync", what, median(ratios), "ratio", "", ratios)]


def pull_records(rounds: int) -> list[Figure]:
    """Pulls of 32 records as RECORDS, 64 in flight."""
    with broker_server(ASYNC) as broker:
        _fill(broker, 3_200)
        request = pb.PullMessageRequest(
            topic=TOPIC, queue_id=0, offset=0, max_messages=32, shape=pb.RECORDS
        ).SerializeToString()
        method = BROKER + "PullMessage"
        answer = broker.call(method, request)
        found = pb.PullMessageResponse.FromString(answer)
        if found.next_begin_offset != 32:
            raise SystemExit(f"the pull found {found.next_begin_offset} messages, not 32")
        with noop_server(answer) as noop:
            ratios = _compare(
                broker, noop, method, "/noop.Raw/PullMessage", request, in_flight=64, rounds=rounds
            )
    what = "pull of 32 as RECORDS ÷ grpc.aio no-op that answers the same bytes"
    return [Figure("pull_records", what, median(ratios), "ratio", "≥ 0.85", ratios)]


def query_by_key(rounds: int) -> list[Figure]:
    """P99 of a query by key with 1 M messages indexed against 10 k."""
    ratios = []
    with broker_server(ASYNC) as small, broker_server(ASYNC) as large:
        _fill(small, 10_000)
        _fill(large, 1_000_000)
        for number in range(rounds):
            pair = [("small", small), ("large", large)]
            took = {
                name: _query_p99(server) for name, server in (pair if number % 2 else pair[::-1])
            }
            ratios.append(took["large"] / took["small"])
            print(json.dumps({"round": number, "p99_ms": took}), file=sys.stderr)
    what = "p99 of query by key at 1 M indexed messages ÷ at 10 k"
    return [Figure("query_by_key", what, median(ratios), "ratio", "≤ 1.5", ratios)]


def _query_p99(server: Server) -> float:
    request = pb.QueryByKeyRequest(topic=TOPIC, key="rare-77").SerializeToString()
    return load(server, BROKER + "QueryByKey", request, in_flight=1, seconds=SECONDS)["p99_ms"]


def _fill(server: Server, count: int) -> None:
    """Send messages to queue 0, each with a key of its own, and wait for dispatch."""
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


def start(rounds: int) -> list[Figure]:
    """Time to ready and memory of an idle daemon."""
    times = [seconds_to_ready() for _ in range(rounds)]
    idle = []
    for _ in range(rounds):
        with broker_server() as broker:
            sleep(1.5)
            idle.append(broker.anonymous_mib())
    return [
        Figure("ready", "ready on an empty store", median(times), "s", "≤ 1", times),
        Figure("idle_memory", "RssAnon idle", median(idle), "MiB", "≤ 70", idle),
    ]


def memory_growth(rounds: int) -> list[Figure]:
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
    return [Figure("memory_growth", what, growth, "MiB", "≤ 30", [growth])]


def reput_lag(rounds: int) -> list[Figure]:
    """How far dispatch is behind what is visible, while batches arrive at full speed."""
    worst = [_lag_p99_ms() for _ in range(rounds)]
    what = "reput lag at full speed, p99: from visible in the log to pullable"
    return [Figure("reput_lag", what, median(worst), "ms", "≤ 10", worst)]


def _lag_p99_ms() -> float:
    """Run the store in this process at full speed and sample the age of the oldest undispatched."""
    from bench_inside import lag_p99_ms

    return lag_p99_ms(SECONDS)


def hot_functions(rounds: int) -> list[Figure]:
    """Microseconds of the functions that are tuned."""
    import bench_inside as inside

    measures = {
        "encode_records": inside.encode_records_us,
        "java_hashes": inside.java_hashes_us,
        "draft_from_message": inside.draft_from_message_us,
        "encode_sent": inside.encode_sent_us,
        "pull_joined": inside.pull_joined_us,
        "hash_texts": inside.hash_texts_us,
        "link_entries": inside.link_entries_us,
    }
    figures = []
    for name, measure in measures.items():
        hot = [measure() for _ in range(rounds)]
        figures.append(Figure(name, f"{name}, per record or key", median(hot), "µs", "", hot))
    return figures


def _in_file(name: str) -> Callable[[int], list[Figure]]:
    """Return the figures of rebuilding by the name of their function."""

    def measure(rounds: int) -> list[Figure]:
        import bench_rebuild

        return [Figure(*row) for row in getattr(bench_rebuild, name)(rounds)]

    return measure


FIGURES: dict[str, Callable[[int], list[Figure]]] = {
    "send_unary": send_unary,
    "send_unary_sync": send_unary_sync,
    "send_batch": send_batch,
    "pull_records": pull_records,
    "query_by_key": query_by_key,
    "start": start,
    "memory_growth": memory_growth,
    "reput_lag": reput_lag,
    "hot_functions": hot_functions,
    "rebuild": _in_file("rebuild_figures"),
    "backfill": _in_file("backfill_figures"),
    "reput": _in_file("reput_figures"),
}


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(FIGURES)
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    rows = []
    for name in arguments.names or FIGURES:
        print(f"measuring {name} …", file=sys.stderr)
        for figure in FIGURES[name](arguments.rounds):
            print(json.dumps(figure._asdict(), ensure_ascii=False), flush=True)
            rows.append(figure)
    print(f"\n{os.cpu_count()} cores, {arguments.rounds} rounds, medians [lowest to highest]\n")
    print("| figure | wanted | measured |\n|---|---|---|")
    for row in rows:
        spread = f"[{min(row.rounds):.2f} to {max(row.rounds):.2f}]"
        print(f"| {row.what} | {row.wanted or '–'} | {row.value:.2f} {row.unit} {spread} |")


if __name__ == "__main__":
    begun = perf_counter()
    main()
    print(f"\n{perf_counter() - begun:.0f} s", file=sys.stderr)
