"""The common command line of benches and batteries: names of figures or batteries, and options."""

import json
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any


class Arguments(ArgumentParser):
    """Parses known names (default: all), and --json for the results."""

    def __init__(self, prog: str, what: str, known: Collection[str], kind: str) -> None:
        super().__init__(prog=prog, description=what)
        self._known, self._kind = known, kind
        self.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
        self.add_argument("--json", type=Path, help=f"a file that gets a JSON line per {kind}")

    def given(self) -> Namespace:
        """Parses this process's arguments; an unknown name is an error."""
        found = self.parse_args()
        unknown = sorted(set(found.names) - set(self._known))
        if unknown:
            self.error(f"no {self._kind} {', '.join(unknown)}; there are {', '.join(self._known)}")
        found.names = found.names or [*self._known]
        return found


def add_result(file: Path | None, document: Any) -> None:
    """Adds a JSON line to the file of --json, if there is one."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            print(json.dumps(document, ensure_ascii=False), file=out)


def names(text: str) -> tuple[str, ...]:
    """Parses names separated by commas."""
    return tuple(text.split(","))


def end_in_order() -> None:
    """Makes SIGTERM act like Ctrl-C, which also ends the processes that this process started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
