"""Runs batteries by name; see scripts/torture/run."""

import argparse
import importlib
import json
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from torture.budget import WORKLOADS, Budget, NotHere

SCRIPTS: Final = Path(__file__).parent
OK, FAILED, NOT_RUN = "ok", "FAILED", "NOT RUN HERE"

Torture = Callable[[Path, Budget], dict[str, Any]]


def batteries() -> list[str]:
    """Returns the names of the batteries there are."""
    modules = sorted(SCRIPTS.glob("*.py"))
    return [path.stem for path in modules if "\ndef torture(" in path.read_text("utf-8")]


def ran(name: str, place: Path | None, budget: Budget) -> dict[str, Any]:
    """Runs a battery and returns its row: how it ended, and its figures or what was wrong."""
    repro = f"scripts/torture/run {name} --seed {budget.seed} --seconds {budget.seconds:g}"
    repro += f" --workers {budget.workers} --messages {budget.messages}"
    for option, chosen in (("versions", budget.versions), ("shapes", budget.shapes)):
        repro += f" --{option} {','.join(chosen)}" if chosen else ""
    repro += f" --workload {budget.workload}" if name == "kill" else ""
    print(f"repro: {repro}", flush=True)
    row: dict[str, Any] = {"battery": name, "verdict": OK, "seed": budget.seed}
    try:
        torture: Torture = importlib.import_module(f"torture.{name}").torture
        with tempfile.TemporaryDirectory(prefix=f"pocketmq-{name}-", dir=place) as own:
            row["figures"] = torture(Path(own), budget)
    except NotHere as why:
        row |= {"verdict": NOT_RUN, "why": str(why)}
        print(f"{NOT_RUN}: {name}: {why}", flush=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 – the other batteries still run
        traceback.print_exc()
        row |= {"verdict": FAILED, "why": f"{type(error).__name__}: {error}", "repro": repro}
    row["seconds"] = round(budget.spent, 1)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Lays out all figures of all batteries, a line each."""
    lines = ["| battery | figure | value |", "|---|---|---|"]
    for row in rows:
        name = row["battery"]
        lines.append(f"| **{name}** | verdict | **{row['verdict']}**, {row['seconds']} s |")
        lines += [
            f"| {name} | {key} | {row[key]} |" for key in ("seed", "why", "repro") if key in row
        ]
        for figure, value in row.get("figures", {}).items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"| {name} | {figure} | {shown} |")
    return "\n".join(line.replace("\n", " ") for line in lines)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def main() -> int:
    """Runs the batteries asked for, prints the table; returns 1 where something was wrong."""
    known = batteries()
    parser = argparse.ArgumentParser(prog="scripts/torture/run", description="Long batteries.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each battery")
    parser.add_argument("--workers", type=int, default=1, help="how much goes on at once")
    parser.add_argument("--messages", type=int, default=2_100_000, help="for rebuild")
    parser.add_argument("--cases", type=int, default=2_000_000, help="for wire and sends")
    parser.add_argument("--workload", choices=WORKLOADS, default=WORKLOADS[0], help="for kill")
    parser.add_argument("--place", type=Path, help="where to work; a temporary directory")
    parser.add_argument("--json", type=Path, help="a file that gets a JSON line per battery")
    parser.add_argument("--versions", type=_names, default=(), help="for versions, as 5.0.0,5.5.0")
    parser.add_argument("--shapes", type=_names, default=(), help="for versions, as plain,crc+ipv6")
    parser.add_argument("--keep", type=Path, help="for versions: where stores stay that differ")
    given = parser.parse_args()
    unknown = set(given.names) - set(known)
    if unknown:
        parser.error(f"no battery {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    rows = []
    for name in given.names or known:
        budget = Budget(
            given.seed, given.seconds, given.workers, given.messages, given.versions, given.shapes,
            given.keep, given.cases, given.workload,
        )  # fmt: skip
        rows.append(ran(name, given.place, budget))
        if given.json is not None:
            with given.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")
    print(f"\n{table(rows)}", flush=True)
    return int(any(row["verdict"] == FAILED for row in rows))


if __name__ == "__main__":
    sys.exit(main())
