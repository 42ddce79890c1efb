"""Prints the part of requirements.lock that serving requires: core and transitive dependencies.

    python scripts/core_lock.py [NAME...] > core.lock

A clone that only serves should not install Spark and the linters, but must have the versions and
hashes that were tested. Under each pin the lock lists the packages that require it (`# via`). This
script follows these lists from pyproject.toml's dependencies and from the given names.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal_name(requirement: str) -> str:
    """Returns the normalized name of a requirement."""
    found = _NAME.match(requirement)
    assert found is not None, f"no name in {requirement!r}"
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def pins(lock: str) -> list[str]:
    """Splits a lock into its pins, each with its hashes and notes."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    return [block for block in blocks if _NAME.match(block)]


def askers(pin: str) -> set[str]:
    """Returns the packages that require a pin, from its `# via` notes."""
    notes = re.findall(r"^ +# (?:via)? *([A-Za-z0-9][A-Za-z0-9._-]*)", pin, flags=re.MULTILINE)
    return {normal_name(note) for note in notes}


def core_of(lock: str, roots: Iterable[str]) -> str:
    """Returns the pins that the roots depend on, in the order of the lock."""
    every = pins(lock)
    wanted = {normal_name(root) for root in roots}
    known = 0
    while known != len(wanted):
        known = len(wanted)
        wanted |= {normal_name(pin) for pin in every if askers(pin) & wanted}
    return "".join(pin for pin in every if normal_name(pin) in wanted)


def core_names() -> list[str]:
    """Returns the dependencies that pyproject.toml names for serving."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"]]


def main() -> None:
    """Prints the core of this clone's lock."""
    lock = (ROOT / "requirements.lock").read_text()
    sys.stdout.write(core_of(lock, [*core_names(), *sys.argv[1:]]))


if __name__ == "__main__":
    main()
