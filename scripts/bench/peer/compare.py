"""Compares PocketMQ with RocketMQ, in rows with goals; scripts/bench/run --peer rocketmq DIR.

`--peer nats DIR` instead reports the rates of a replicated stream of NATS (nats.py).

DIR holds RocketMQ's jars (proxy and namesrv with their dependencies). Both brokers run at the same
time. The same clients send the same messages to both, in alternating rounds, and both must have
stored all acknowledged messages. A row is the median of the ratios within each round. Processor
time is the user and system time of the server's process, dispatch included, without RocketMQ's
name server. Rows are printed to standard error as they are measured, the table at the end; all
rounds are written to a file.
"""

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from bench.peer import classic, costs, nats, official, pulls, replicas, sends
from bench.peer.clients import check_clients
from bench.peer.rocketmq import VERSION, checked_jars
from bench.peer.rows import HEAD, Row
from bench.peer.sides import Extent
from harness.arguments import Arguments, add_result, end_in_order
from harness.figures import table
from harness.process import CACHE, ROOT

QUICK: Final = Extent(rounds=1, seconds=0.7, jvm_calls=20_000)
CLASSIC, REPLICAS, NATS = "classic", "replicas", "nats"
MINUTES: Final = 20.0
SECONDS: Final = (0.7, 4.0)
"""The shortest and the longest run of a client."""
WHY_MAX: Final = 300
JSON_FILE: Final = CACHE / "bench" / "peer.jsonl"


class Section(NamedTuple):
    """Rows that are measured together, and their approximate duration.

    fixed_seconds   starting, warming and filling, on an idle machine
    runs            client runs of a round, in multiples of `Extent.seconds`
    """

    measure: Callable[[Path, Extent], Iterator[Row]]
    fixed_seconds: float
    runs: float

    def seconds(self, extent: Extent) -> float:
        """Returns the approximate duration."""
        return self.fixed_seconds + self.runs * (extent.rounds + 1) * extent.seconds


def _own(rows: Callable[[Extent], Iterator[Row]]) -> Callable[[Path, Extent], Iterator[Row]]:
    """Adapts a section that needs no RocketMQ to the signature of the others."""
    return lambda _, extent: rows(extent)


SECTIONS: Final = {
    "sends": Section(sends.async_rows, 60, 10.8),
    "sync": Section(sends.sync_rows, 50, 2),
    "official": Section(partial(sends.async_rows, face=sends.V2), 60, 9),
    "official_sync": Section(partial(sends.sync_rows, face=sends.V2), 50, 2),
    "consume": Section(official.consume_rows, 75, 5),
    CLASSIC: Section(classic.classic_rows, 60, 10),
    REPLICAS: Section(replicas.replica_rows, 70, 8),
    NATS: Section(nats.nats_rows, 60, 8),
    "pulls": Section(_own(pulls.pull_rows), 15, 4),
    "plain": Section(_own(pulls.plain_rows), 10, 2),
    "start": Section(costs.start_rows, 60, 0),
    "memory": Section(costs.memory_rows, 70, 0),
    "queues": Section(_own(costs.queue_rows), 90, 0),
    "connections": Section(_own(costs.connection_rows), 10, 4),
    "log": Section(_own(costs.log_rows), 120, 0),
}


def fitted(names: list[str], rounds: int, minutes: float) -> Extent:
    """Returns an extent with which these sections take about `minutes`."""
    sections = [SECTIONS[name] for name in names]
    fixed = sum(one.fixed_seconds for one in sections)
    runs = sum(one.runs for one in sections) * (rounds + 1)
    shortest, longest = SECONDS
    seconds = (60 * minutes - fixed) / runs if runs else longest
    return Extent(rounds, max(shortest, min(seconds, longest)))


def measured(name: str, jars: Path, extent: Extent, left_seconds: float) -> Iterator[Row]:
    """Yields a section's rows; a row without rounds states why it was not measured."""
    section = SECTIONS[name]
    try:
        if section.seconds(extent) / 2 > left_seconds:
            raise SystemExit(f"{left_seconds:.0f} s were left, and it takes more")
        yield from section.measure(jars, extent)
    except (Exception, SystemExit) as error:  # noqa: BLE001 – the other rows are measured still
        print(f"{name}: {error}", file=sys.stderr)
        why = " ".join(f"{type(error).__name__}: {error}".split())[:WHY_MAX]
        yield Row(name, f"what is left of {name}", None, [], why=why)


def machine() -> dict[str, object]:
    """Returns facts of the machine and the compared versions."""
    return {
        "cores": os.cpu_count(),
        "busy": os.getloadavg()[0],
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _said("git", "-C", str(ROOT), "log", "-1", "--format=%h"),
        "ours": _said(sys.executable, "-m", "pocketmq", "version"),
        "rocketmq": VERSION,
        "nats": nats.VERSION,
    }


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Measures the requested rows and prints the table."""
    given = _given()
    if given.names == [NATS]:
        jars = nats.checked_programs(given.peer[1])
    elif {*given.names} <= {CLASSIC, REPLICAS}:
        jars = checked_jars(given.peer[1], classic.JARS)
    else:
        jars = checked_jars(given.peer[1])
        check_clients()
    extent = QUICK if given.quick else fitted(given.names, given.rounds, given.minutes)
    extent = extent._replace(settings=tuple(given.set))
    head = machine() | {"extent": extent._asdict()}
    if '"compiled": []' in " ".join(str(head["ours"]).split()):
        print("ours runs uncompiled; scripts/compile makes it what is shipped", file=sys.stderr)
    begun, rows = monotonic(), []
    add_result(given.json, head)
    for name in given.names:
        since = monotonic()
        for row in measured(name, jars, extent, 60 * given.minutes - (since - begun)):
            add_result(given.json, row.document)
            rows.append(row.cells)
        print(f"{name}: {monotonic() - since:.0f} s", file=sys.stderr)
    warmed = f"RocketMQ {VERSION} warmed by {extent.jvm_calls:,} calls"
    peer = f"NATS {nats.VERSION}" if given.peer[0] == NATS else warmed
    print(
        f"\n{head['ours']}\n\n{os.cpu_count()} cores, {extent.rounds} rounds of "
        f"{extent.seconds:.1f} s, {peer}, {monotonic() - begun:.0f} s in all\n"
    )
    print(f"{table(HEAD, rows)}\n\nall rounds: {given.json}")


def _given() -> Namespace:
    parser = Arguments(
        "scripts/bench/run", "Ours beside a real RocketMQ, row by row with goals.", SECTIONS, "row"
    )
    parser.set_defaults(json=JSON_FILE)
    parser.add_argument("--peer", nargs=2, required=True, metavar=("rocketmq|nats", "DIR"))
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--rounds", type=int, default=Extent().rounds)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="about how long, in all")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours, KEY=VALUE")
    given = parser.given()
    if given.peer[0] not in ("rocketmq", NATS):
        parser.error(f"no peer {given.peer[0]}; there are rocketmq and {NATS}")
    rows = [NATS] if given.peer[0] == NATS else [name for name in SECTIONS if name != NATS]
    if given.names == [*SECTIONS]:
        given.names = rows
    elif other := set(given.names) - set(rows):
        parser.error(f"{', '.join(sorted(other))} is no row beside {given.peer[0]}")
    given.peer[1] = Path(given.peer[1])
    return given


if __name__ == "__main__":
    end_in_order()
    main()
