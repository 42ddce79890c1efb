"""Three NATS servers with a JetStream stream of three replicas, beside two brokers in sync.

DIR of --peer nats holds `nats-server` and its client `nats`; `go install` makes both.
PocketMQ acknowledges what both brokers have on disk. A JetStream server syncs its files every two
minutes, so by default it acknowledges what a majority has in memory; with `sync_interval: always`
it syncs first. Each side has its own client, because no client speaks both protocols.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final, NamedTuple

from bench.peer.rows import Row, sides
from bench.peer.sends import told
from bench.peer.sides import Extent
from bench.replicas import QUEUE_COUNT, synced_pair
from bench.servers import BROKER, TOPIC, Server, load, send_request
from harness.figures import alternated, ratios
from harness.process import SAID_MAX, Failed
from torture.real_broker import free_ports

VERSION: Final = "2.12.3"
CLI_VERSION: Final = "0.4.0"
PROGRAMS: Final = {
    "nats-server": f"github.com/nats-io/nats-server/v2@v{VERSION}",
    "nats": f"github.com/nats-io/natscli/nats@v{CLI_VERSION}",
}
SERVERS: Final = 3
START_S: Final = 60.0
CLIENT_S: Final = 120.0
RATE: Final = re.compile(r"stats: ([\d,]+) msgs/sec")
STREAM_BYTES: Final = "8GB"
CALIBRATE: Final = 2_000
SYNCS: Final = {"2m": "in memory", "always": "on disk"}
"""sync_interval -> where the majority of its servers has an acknowledged message."""


class Shape(NamedTuple):
    """Publishing by one client: messages in flight, and the words of `nats bench js pub`."""

    name: str
    what: str
    in_flight: int
    words: tuple[str, ...]


SHAPES: Final = (
    Shape("unary", "send of 1 KiB, 64 in flight", 64, ("async", "--batch=64")),
    Shape("alone", "send of 1 KiB, one at a time", 1, ("sync",)),
)


def checked_programs(directory: Path) -> Path:
    """Checks that a directory holds NATS, and returns it.

    Errors   SystemExit: a program is missing; the text states how to get it
    """
    missing = [name for name in PROGRAMS if not (directory / name).exists()]
    if missing:
        how = " && ".join(
            f"GOBIN={directory.resolve()} go install {PROGRAMS[name]}" for name in missing
        )
        raise SystemExit(f"{directory} lacks {' and '.join(missing)}: {how}")
    return directory.resolve()


def nats_rows(programs: Path, extent: Extent) -> Iterator[Row]:
    """Rates of sends to two brokers in sync, to those of a JetStream stream with three replicas."""
    with synced_pair(*extent.settings) as (leader, _):
        leader.create_topics({TOPIC: QUEUE_COUNT})
        for interval, where in SYNCS.items():
            with _cluster(programs, interval) as target:
                for shape in SHAPES:
                    yield _row(programs, target, leader, shape, where, extent)


def _row(
    programs: Path, target: str, leader: Server, shape: Shape, where: str, extent: Extent
) -> Row:
    rate = _published(programs, target, shape, CALIBRATE)
    count = max(CALIBRATE, int(rate * extent.seconds))
    both = {
        "PocketMQ": partial(_sent, leader, shape, extent.seconds),
        "NATS": partial(_published, programs, target, shape, count),
    }
    found = alternated(extent.rounds, both, shape=shape.name, nats=where)
    ours, theirs = found["PocketMQ"], found["NATS"]
    what = f"{shape.what}: two brokers, on both disks ÷ JetStream R3, {where}"
    name = f"nats_{shape.name}_{where.rpartition(' ')[2]}"
    return told(Row(name, what, None, ratios(ours, theirs), sides(ours, theirs, "/s")))


def _sent(leader: Server, shape: Shape, seconds: float) -> float:
    """Returns the sends that PocketMQ acknowledges each second."""
    path = BROKER + "SendMessage"
    done = load(leader, path, send_request(1), in_flight=shape.in_flight, seconds=seconds)
    return done["calls"] / done["seconds"]


def _published(programs: Path, target: str, shape: Shape, count: int) -> float:
    """Returns the messages that JetStream acknowledges each second."""
    command = [
        str(programs / "nats"), "--no-context", "--server", target, "bench", "js", "pub",
        *shape.words, "bench.send", "--create", f"--replicas={SERVERS}", "--storage=file",
        f"--maxbytes={STREAM_BYTES}", "--size=1024", f"--msgs={count}", "--no-progress",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CLIENT_S, check=False
    )  # fmt: skip
    found = RATE.search(done.stdout + done.stderr)
    if done.returncode or found is None:
        raise Failed(f"nats bench: {(done.stdout + done.stderr)[-SAID_MAX:]}")
    return float(found[1].replace(",", ""))


@contextmanager
def _cluster(programs: Path, interval: str) -> Iterator[str]:
    """Runs the servers; yields the address of the first, once a stream can be made."""
    with TemporaryDirectory(prefix="nats-bench-") as temporary, ExitStack() as stack:
        place = Path(temporary)
        first = free_ports()[0]
        ports = range(first, first + SERVERS)
        routes = ", ".join(f'"nats-route://127.0.0.1:{port + SERVERS}"' for port in ports)
        for port in ports:
            text = (
                f"server_name: s{port}\nlisten: 127.0.0.1:{port}\n"
                f'jetstream {{ store_dir: "{place}/{port}", sync_interval: {interval} }}\n'
                "cluster { name: bench\n"
                f"  listen: 127.0.0.1:{port + SERVERS}\n  routes: [{routes}]\n}}\n"
            )
            settings = place / f"{port}.conf"
            settings.write_text(text, "utf-8")
            stack.enter_context(_running(programs / "nats-server", settings))
        target = f"nats://127.0.0.1:{first}"
        _wait_until_ready(programs, target)
        yield target


@contextmanager
def _running(program: Path, settings: Path) -> Iterator[None]:
    with settings.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "-c", str(settings)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(programs: Path, target: str) -> None:
    end = monotonic() + START_S
    while True:
        try:
            _published(programs, target, SHAPES[0], SHAPES[0].in_flight)
        except Failed as why:
            if monotonic() > end:
                raise SystemExit(f"NATS takes no messages: {why}") from why
            sleep(0.2)
        else:
            return
