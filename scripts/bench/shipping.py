"""Latency of sends while `archive ship` copies the store each second.

One process ships, and is stopped (SIGSTOP) in every other slice of a single run of sends, so that
both kinds meet the same neighbours on the machine. A slice lasts some rounds of the shipper. A
percentile is that of all slices of a kind: that of one slice depends on a few sends. Where bursts
of other work are longer than a slice, the median of the ratios of neighbouring slices is steadier.
"""

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, NamedTuple

from bench.load import percentile
from bench.servers import ASYNC, BROKER, Server, broker_server, load, loading, send_request
from harness.figures import Extent, Figure, ratios
from harness.process import Failed, cpu_seconds, environment, module, tell

RATE: Final = 500.0
SLICE_S: Final = 2.5
PAIRS: Final = 8
"""Slices of each kind in a round."""
SETTLE_S: Final = 0.5
"""The begin of a slice that is not counted: the shipper copies what it missed while it stood."""
SHARES: Final = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


class Slice(NamedTuple):
    """A time of the run, [begin, end) of perf_counter, and the latencies (ms) of its sends."""

    is_shipping: bool
    begin: float
    end: float
    latencies: list[float]


def shipping_figures(extent: Extent) -> list[Figure]:
    """Sends of 1 KiB at a constant rate, with and without shipping to a directory."""
    count, seconds = 2 * PAIRS * extent.rounds, extent.seconds(SLICE_S) + SETTLE_S
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as place:
        store, archive = Path(place) / "store", Path(place) / "archive"
        settings, method = (ASYNC, "broker.auto_create_topics=true"), BROKER + "SendMessage"
        with broker_server(*settings, directory=store) as server, _shipping(store, archive) as ship:
            load(server, method, send_request(1), rate=RATE, seconds=SLICE_S)  # Both are warm then.
            begun = cpu_seconds(ship.pid)
            with loading(
                server, method, [send_request(1)],
                rate=RATE, seconds=(count + 1) * seconds, each=True,
            ) as run:  # fmt: skip
                run.wait_until_begun()
                slices = [_slice(ship, number, seconds) for number in range(count)]
                calls = run.calls()
            tell({"shipper_cpu_s": round(cpu_seconds(ship.pid) - begun, 1)})
            ship.send_signal(signal.SIGCONT)
            _check(server, archive)
    for one in slices:
        one.latencies.extend(sorted(ms for asked, ms in calls if one.begin <= asked < one.end))
    return [figure for name in SHARES for figure in _figures(name, slices)]


def _slice(ship: "subprocess.Popen[str]", number: int, seconds: float) -> Slice:
    """Continues or stops the shipper for some seconds; of two pairs the second is reversed."""
    is_shipping = number % 4 in (0, 3)
    ship.send_signal(signal.SIGCONT if is_shipping else signal.SIGSTOP)
    begin = perf_counter()
    sleep(seconds)
    return Slice(is_shipping, begin + SETTLE_S, begin + seconds, [])


def _figures(name: str, slices: Sequence[Slice]) -> Iterator[Figure]:
    kinds = [[one.latencies for one in slices if one.is_shipping is kind] for kind in (True, False)]
    pooled = [percentile(sorted(chain.from_iterable(kind)), SHARES[name]) for kind in kinds]
    over, under = ([percentile(one, SHARES[name]) for one in kind] for kind in kinds)
    wanted = "≤ 1.1" if name == "p99" else ""
    what = f"{name} of sends at {RATE:.0f}/s: shipping ÷ not"
    yield Figure.of(f"shipping_{name}", f"{what}, all", [pooled[0] / pooled[1]], "ratio", wanted)
    yield Figure.of(
        f"shipping_{name}_pairs", f"{what}, slice by slice", ratios(over, under), "ratio", wanted
    )
    yield Figure.of(f"not_shipping_{name}", f"{name} without shipping", [pooled[1]], "ms")


def _check(server: Server, archive: Path) -> None:
    """Ends the measurement unless the archive gets all messages."""
    wanted = server.status().flushed_offset
    sizes: list[int] = []
    for _ in range(100):
        sizes = [path.stat().st_size for path in (archive / "log").iterdir()]
        if sum(sizes) >= wanted:
            return
        sleep(0.1)
    raise SystemExit(f"the archive has {sum(sizes)} bytes of the log, flushed are {wanted}")


@contextmanager
def _shipping(store: Path, archive: Path) -> Iterator["subprocess.Popen[str]"]:
    command = module("pocketmq", "archive", "ship", store, archive)
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env=environment()
    ) as process:
        try:
            yield process
            if process.poll() is not None:
                raise Failed(f"archive ship ended: {process.returncode}")
        finally:
            process.kill()
