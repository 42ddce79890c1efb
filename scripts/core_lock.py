"""Print the part of requirements.lock that serving needs: core dependencies and what they need.

    python scripts/core_lock.py [NAME...] > core.lock

A clone that only serves should not wait for Spark and the linters, yet must get the very versions
and hashes the tests ran with. The lock notes under each pin who asked for it (`# via`); this walks
those notes from pyproject.toml's dependencies and from the names given.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal_name(requirement: str) -> str:
    """Returns the name at the head of a requirement, spelled the one way names are compared."""
    found = _NAME.match(requirement)
    assert found is not None, f"no name in {requirement!r}"
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def pins(lock: str) -> list[str]:
    """Split a lock into its pins, each with the hashes and notes that follow it."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    return [block for block in blocks if _NAME.match(block)]


def askers(pin: str) -> set[str]:
    """Returns the names of those who asked for a pin, read from its `# via` notes."""
    notes = re.findall(r"^ +# (?:via)? *([A-Za-z0-9][A-Za-z0-9._-]*)", pin, flags=re.MULTILINE)
    return {normal_name(note) for note in notes}


def core_of(lock: str, roots: Iterable[str]) -> str:
    """Returns the pins that the roots lead to, in the order of the lock."""
    every = pins(lock)
    wanted = {normal_name(root) for root in roots}
    known = 0
    while known != len(wanted):
        known = len(wanted)
        wanted |= {normal_name(pin) for pin in every if askers(pin) & wanted}
    return "".join(pin for pin in every if normal_name(pin) in wanted)


def main() -> None:
    """Prints the core of this clone's lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    sys.stdout.write(core_of(lock, [*project["dependencies"], *sys.argv[1:]]))


if __name__ == "__main__":
    main()
