"""Latency of sends while `archive ship` copies the store each second.

One process ships, and is stopped (SIGSTOP) in every other slice. After a change the slice waits, so
that the bytes that the process missed are not measured. A percentile is that of all slices: that of
one slice depends on a few sends.
"""

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Final

from bench.load import percentile
from bench.servers import ASYNC, BROKER, Server, broker_server, loading, send_request
from harness.figures import Extent, Figure, turns
from harness.process import Failed, cpu_seconds, environment, module, tell

RATE: Final = 500.0
SLICE_S: Final = 4.0
SLICES: Final = 4
"""Slices of each kind in a round."""
SETTLE_S: Final = 2.0
KINDS: Final = {"shipping": signal.SIGCONT, "stopped": signal.SIGSTOP}
SHARES: Final = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def shipping_figures(extent: Extent) -> list[Figure]:
    """Sends of 1 KiB at a constant rate, with and without shipping to a directory."""
    pools: dict[str, list[float]] = {name: [] for name in KINDS}
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as place:
        store, archive = Path(place) / "store", Path(place) / "archive"
        settings = (ASYNC, "broker.auto_create_topics=true")
        with broker_server(*settings, directory=store) as server, _shipping(store, archive) as ship:
            _slice(server, ship, signal.SIGCONT, extent)  # Both are warm then.
            begun = cpu_seconds(ship.pid)
            for number in range(extent.rounds * SLICES):
                for name in turns([*KINDS], number):
                    pools[name] += _slice(server, ship, KINDS[name], extent)
                tell({"slice": number, **{name: _p99(pool) for name, pool in pools.items()}})
            ship.send_signal(signal.SIGCONT)
            tell({"shipper_cpu_s": round(cpu_seconds(ship.pid) - begun, 1)})
            _check(server, archive)
    return [figure for name in SHARES for figure in _figures(name, pools)]


def _figures(name: str, pools: dict[str, list[float]]) -> list[Figure]:
    over, under = (percentile(sorted(pools[kind]), SHARES[name]) for kind in KINDS)
    what = f"{name} of sends at {RATE:.0f}/s, of all slices: shipping ÷ not"
    wanted = "≤ 1.1" if name == "p99" else ""
    return [
        Figure.of(f"shipping_{name}", what, [over / under], "ratio", wanted),
        Figure.of(f"not_shipping_{name}", f"{name} without shipping", [under], "ms"),
    ]


def _p99(pool: list[float]) -> float:
    return round(percentile(sorted(pool), SHARES["p99"]), 2)


def _slice(
    server: Server, ship: "subprocess.Popen[str]", kind: signal.Signals, extent: Extent
) -> list[float]:
    """Returns the latencies (ms) of the sends of a slice."""
    ship.send_signal(kind)
    sleep(SETTLE_S)
    method, seconds = BROKER + "SendMessage", extent.seconds(SLICE_S)
    with loading(
        server, method, [send_request(1)], rate=RATE, seconds=seconds, each=True
    ) as run:  # fmt: skip
        return run.latencies_ms()


def _check(server: Server, archive: Path) -> None:
    """Ends the measurement unless the archive gets all messages."""
    wanted = server.status().flushed_offset
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
