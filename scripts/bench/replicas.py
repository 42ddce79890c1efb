"""Two brokers that acknowledge what both have on disk, beside one broker alone; loopback, one disk.

In a round each broker sends the same requests, and the order alternates. Both brokers of the pair
and the generator share the processors, so on two cores the pair has half of what it would have on
machines of its own.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Final

from bench.servers import BROKER, TOPIC, Server, broker_server, load, send_request
from harness.figures import Extent, Figure, alternated, ratios
from pocketmq.rpc.pb import replication_pb2 as pb

STATUS: Final = "/pocketmq.v1.Replication/ReplicationStatus"
IN_SYNC: Final = "replication.in_sync_replicas=2"
QUEUE_COUNT: Final = 8
SECONDS: Final = 3.0
CATCH_UP_S: Final = 60.0
SETTLE_S: Final = 0.2
SHAPES: Final = {"unary": (1, 64), "batch": (100, 8), "alone": (1, 1)}
"""Messages of a request, and requests in flight."""


def status(server: Server) -> pb.ReplicationStatusResponse:
    """Returns a broker's role and its followers."""
    return pb.ReplicationStatusResponse.FromString(server.call(STATUS, b""))


def wait_for_follower(leader: Server, acknowledged: int = 0) -> None:
    """Waits until a follower has reported that much of the log and is up to date.

    Errors   SystemExit: it took CATCH_UP_S
    """
    end = monotonic() + CATCH_UP_S
    while not any(
        one.connected and one.acknowledged_offset >= acknowledged for one in status(leader).replicas
    ):
        if monotonic() > end:
            raise SystemExit("no follower is up to date")
        sleep(0.005)


@contextmanager
def synced_pair(*settings: str) -> Iterator[tuple[Server, Server]]:
    """Runs a leader that waits for its follower, and the follower."""
    with (
        broker_server(IN_SYNC, *settings) as leader,
        broker_server(f"replication.leader={leader.target}", *settings) as follower,
    ):
        wait_for_follower(leader)
        yield leader, follower


def replica_figures(extent: Extent) -> list[Figure]:
    """Sends to two brokers in sync, the return of a follower, and the leader's memory."""
    with ExitStack() as stack:
        single = stack.enter_context(broker_server())
        listening = stack.enter_context(broker_server("replication.listen=127.0.0.1:0"))
        leader, follower = stack.enter_context(synced_pair())
        servers = {"single": single, "listening": listening, "pair": leader}
        for server in servers.values():
            server.create_topics({TOPIC: QUEUE_COUNT})
        sent = dict.fromkeys(servers, 0)
        runs = {name: _rounds(servers, follower, name, extent, sent) for name in SHAPES}
        for name, server in servers.items():
            server.check_stored({TOPIC: sent[name]})
        memory = leader.anonymous_mib() - single.anonymous_mib()
        if follower.status().appended_offset != leader.status().appended_offset:
            raise SystemExit("the follower has another log than its leader")
    figures = [*_sends(runs)]
    figures.append(
        Figure.of(
            "replica_memory", "RssAnon of the leader − of a single one", [memory], "MiB", "≤ 64"
        )
    )
    what = "a killed follower: from its ready line to its report of the whole log"
    back = [_return_seconds() for _ in range(extent.rounds)]
    return [*figures, Figure.of("replica_return", what, back, "s", "≤ 1")]


Runs = dict[str, list[dict[str, float]]]


def _rounds(
    servers: dict[str, Server], follower: Server, shape: str, extent: Extent, sent: dict[str, int]
) -> Runs:
    count, in_flight = SHAPES[shape]
    request, seconds = send_request(count), extent.seconds(SECONDS)

    def run(name: str) -> dict[str, float]:
        path, server = BROKER + "SendMessage", servers[name]
        before = server.cpu_seconds, follower.cpu_seconds
        done = load(server, path, request, in_flight=in_flight, seconds=seconds)
        messages = int(done["total"]) * count
        sent[name] += messages
        sleep(SETTLE_S)
        return {
            "rate": done["calls"] * count / done["seconds"], "p50_ms": done["p50_ms"],
            "us": 1e6 * (server.cpu_seconds - before[0]) / messages,
            "follower_us": 1e6 * (follower.cpu_seconds - before[1]) / messages,
        }  # fmt: skip

    return alternated(extent.rounds, {name: partial(run, name) for name in servers}, shape=shape)


def _sends(runs: dict[str, Runs]) -> Iterator[Figure]:
    def rates(shape: str, name: str) -> list[float]:
        return [one["rate"] for one in runs[shape][name]]

    words = {"unary": "unary send 1 KiB, 64 in flight", "batch": "batch of 100 × 1 KiB"}
    for shape, wanted in (("unary", "≥ 0.6"), ("batch", "≥ 0.7")):
        what = f"{words[shape]}: two brokers in sync, both on disk ÷ one with sync flush"
        found = ratios(rates(shape, "pair"), rates(shape, "single"))
        yield Figure.of(f"replica_{shape}", what, found, "ratio", wanted)
        yield from _costs(words[shape], f"replica_{shape}", runs[shape])
    alone = runs["alone"]
    added = [
        pair["p50_ms"] - one["p50_ms"]
        for pair, one in zip(alone["pair"], alone["single"], strict=True)
    ]
    what = "p50 of a send, one at a time: two brokers in sync − one"
    yield Figure.of("replica_p50", what, added, "ms", "≤ 0.4")
    plain = [one["p50_ms"] for one in alone["single"]]
    yield Figure.of("replica_p50_one", "of these, one broker", plain, "ms")


def _costs(word: str, name: str, runs: Runs) -> Iterator[Figure]:
    """Yields processor times, which other load on the machine changes less than rates."""
    one, pair, none = ([run["us"] for run in runs[n]] for n in ("single", "pair", "listening"))
    yield Figure.of(
        f"{name}_cpu",
        f"{word}: processor time of the leader ÷ one broker's",
        ratios(pair, one),
        "ratio",
    )
    copied = [run["follower_us"] for run in runs["pair"]]
    yield Figure.of(
        f"{name}_copy", f"{word}: of the follower ÷ one's", ratios(copied, one), "ratio"
    )
    what = f"{word}: where slaves can connect, and none does ÷ one's"
    yield Figure.of(f"{name}_none", what, ratios(none, one), "ratio", "1")


def _return_seconds() -> float:
    with TemporaryDirectory(prefix="pocketmq-bench-") as temporary, broker_server() as leader:
        store, follows = Path(temporary) / "store", f"replication.leader={leader.target}"
        leader.create_topics({TOPIC: QUEUE_COUNT})
        with broker_server(follows, directory=store) as follower:
            load(leader, BROKER + "SendMessage", send_request(100), in_flight=8, count=100)
            wait_for_follower(leader, leader.status().appended_offset)
            follower.process.kill()
            follower.process.wait()
        load(leader, BROKER + "SendMessage", send_request(100), in_flight=8, count=10)
        end = leader.status().appended_offset
        with broker_server(follows, directory=store):
            begun = perf_counter()
            wait_for_follower(leader, end)
            return perf_counter() - begun
