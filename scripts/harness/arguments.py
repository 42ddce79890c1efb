"""The command line that benches and batteries share: names of what runs, and typed options."""

import json
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any


class Arguments(ArgumentParser):
    """Parses names of what there is, all where none is given, and --json for the results."""

    def __init__(self, prog: str, what: str, known: Collection[str], kind: str) -> None:
        super().__init__(prog=prog, description=what)
        self._known, self._kind = known, kind
        self.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
        self.add_argument("--json", type=Path, help=f"a file that gets a JSON line per {kind}")

    def given(self) -> Namespace:
        """Returns the arguments of this process; an unknown name ends it with those there are."""
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
    """Returns the names of an option that takes several, as a,b,c."""
    return tuple(text.split(","))


def end_in_order() -> None:
    """Makes SIGTERM end this process as Ctrl-C does: with all that it started, whatever it runs."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
