"""Runs batteries by name; see scripts/torture/run."""

import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from harness.arguments import Arguments, add_result, end_in_order, names
from harness.budget import TARGETS, WORKLOADS, Budget, NotHere
from harness.figures import table

OK, FAILED, NOT_RUN = "ok", "FAILED", "NOT RUN HERE"
BATTERIES: Final = {
    "archive_lake": "lakes:lake",
    "archive_raw": "archives:raw",
    "archive_table": "lakes:table",
    "classic_frames": "classic_frames:torture",
    "clocks": "clocks:torture",
    "crash": "simulated:crash",
    "cuts": "damage:cuts",
    "damage": "damage:fields",
    "delays": "delays:torture",
    "deliveries": "simulated:deliveries",
    "directories": "simulated:directories",
    "failing": "failing:torture",
    "flips": "damage:flips",
    "forms": "forms:torture",
    "full": "file_systems:full",
    "greedy": "greedy:torture",
    "h2spec": "http2:h2spec",
    "handover": "handover:torture",
    "hostile": "http2:hostile",
    "interop": "interop:torture",
    "kill": "kill:torture",
    "moving_in": "moving_in:torture",
    "moving_out": "moving_out:torture",
    "official_rust": "official:rust",
    "page_in": "file_systems:page_in",
    "pending": "pending:torture",
    "power": "power:torture",
    "proxied": "proxied:torture",
    "rebuild": "rebuild:torture",
    "replica_walks": "replicas:walks",
    "replicas": "replicas:torture",
    "restarts": "official:restarts",
    "schedules": "simulated:schedules",
    "semantics": "simulated:semantics",
    "sends": "forms:sends",
    "slaves": "slaves:torture",
    "spark_cluster": "spark:cluster",
    "spark_hosts": "spark:hosts",
    "spark_streams": "streams:streams",
    "versions": "versions:torture",
    "way_in": "way_in:torture",
    "wire": "http2:wire",
}
"""(Module of this package, function) by battery name."""

Torture = Callable[[Path, Budget], dict[str, Any]]


def battery(name: str) -> Torture:
    """Imports a battery's module, and returns the battery."""
    module, _, function = BATTERIES[name].partition(":")
    found: Torture = getattr(import_module(f"torture.{module}"), function)
    return found


def ran(
    name: str, place: Path | None, budget: Budget, run: Torture | None = None
) -> dict[str, Any]:
    """Runs a battery and returns its row: the outcome, and the figures or the error."""
    repro = f"scripts/torture/run {name} --seed {budget.seed} --seconds {budget.seconds:g}"
    repro += f" --workers {budget.workers} --messages {budget.messages}"
    for option, chosen in (("versions", budget.versions), ("shapes", budget.shapes)):
        repro += f" --{option} {','.join(chosen)}" if chosen else ""
    repro += f" --workload {budget.workload}" if name == "kill" else ""
    repro += f" --target {budget.target}" if name.startswith("archive") else ""
    print(f"repro: {repro}", flush=True)
    row: dict[str, Any] = {"battery": name, "verdict": OK, "seed": budget.seed}
    try:
        with tempfile.TemporaryDirectory(prefix=f"pocketmq-{name}-", dir=place) as own:
            row["figures"] = (run or battery(name))(Path(own), budget)
    except NotHere as why:
        row |= {"verdict": NOT_RUN, "why": str(why)}
        print(f"{NOT_RUN}: {name}: {why}", flush=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 – the other batteries still run
        traceback.print_exc()
        row |= {"verdict": FAILED, "why": f"{type(error).__name__}: {error}", "repro": repro}
    row["seconds"] = round(budget.spent, 1)
    return row


def cells(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yields a table row for each figure of each battery."""
    for row in rows:
        name = row["battery"]
        yield f"**{name}**", "verdict", f"**{row['verdict']}**, {row['seconds']} s"
        yield from ((name, key, str(row[key])) for key in ("seed", "why", "repro") if key in row)
        for figure, value in row.get("figures", {}).items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield name, figure, shown


def main() -> int:
    """Runs the requested batteries and prints the table; returns 1 if a battery failed."""
    parser = Arguments("scripts/torture/run", "Long batteries.", BATTERIES, "battery")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each battery")
    parser.add_argument("--workers", type=int, default=1, help="how much goes on at once")
    parser.add_argument("--messages", type=int, default=2_100_000, help="for rebuild")
    parser.add_argument(
        "--cases", type=int, default=2_000_000, help="for wire, sends, classic_frames"
    )
    parser.add_argument("--workload", choices=WORKLOADS, default=WORKLOADS[0], help="for kill")
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0], help="for archive_…")
    parser.add_argument("--place", type=Path, help="where to work; a temporary directory")
    parser.add_argument("--versions", type=names, default=(), help="for versions, as 5.0.0,5.5.0")
    parser.add_argument("--shapes", type=names, default=(), help="for versions, as plain,crc+ipv6")
    parser.add_argument("--keep", type=Path, help="for versions: where stores stay that differ")
    given = parser.given()
    rows = []
    for name in given.names:
        budget = Budget(
            given.seed, given.seconds, given.workers, given.messages, given.cases, given.workload,
            given.versions, given.shapes, given.keep, given.target,
        )  # fmt: skip
        rows.append(ran(name, given.place, budget))
        add_result(given.json, rows[-1])
    print(f"\n{table(('battery', 'figure', 'value'), cells(rows))}", flush=True)
    return int(any(row["verdict"] == FAILED for row in rows))


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
