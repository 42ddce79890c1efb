"""Runs batteries by name; see scripts/torture."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torture_damage
import torture_rebuild

BATTERIES: dict[str, Callable[[Path, int, int], dict[str, Any]]] = {
    "rebuild": torture_rebuild.torture,
    "damage": torture_damage.torture,
}


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="scripts/torture", description="Long batteries.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BATTERIES))
    parser.add_argument("--messages", type=int, default=2_100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", type=Path)
    given = parser.parse_args()
    unknown = set(given.names) - set(BATTERIES)
    if unknown:
        parser.error(f"no battery {', '.join(sorted(unknown))}; there are {', '.join(BATTERIES)}")
    rows = []
    for name in given.names or BATTERIES:
        print(f"repro: scripts/torture {name} --messages {given.messages} --seed {given.seed}")
        with tempfile.TemporaryDirectory(prefix="pocketmq-torture-", dir=given.place) as place:
            figures = BATTERIES[name](Path(place), given.messages, given.seed)
        rows.append((name, figures))
    print("\n| battery | figures |\n|---|---|")
    for name, figures in rows:
        print(f"| {name} | {json.dumps(figures)} |")


if __name__ == "__main__":
    main()
