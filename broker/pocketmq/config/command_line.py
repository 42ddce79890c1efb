"""Finds RocketMQ's programs in command lines, as containers of its image have them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PROGRAMS: Final = frozenset({"mqbroker", "mqnamesrv", "mqproxy"})
ADMIN: Final = "mqadmin"
ROLES: Final[Mapping[str, str]] = {"broker": "mqbroker", "nameserver": "mqnamesrv"}
"""Programs by the roles that RocketMQ's entry point knows."""
IMAGE_DEFAULT: Final = ["serve"]
"""Command line of the image if a container names none, so that NODE_ROLE counts."""
SHELLS: Final = frozenset({"sh", "bash"})
_MORE_THAN_WORDS: Final = re.compile(r"[;&|<>$`\n(]")
"""Characters by which a shell's text is more than one command."""


def program_line(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns a command line without the shell and the path before one of RocketMQ's programs.

    `sh mqbroker -c FILE`, `./mqbroker …`, and `sh -c "mqbroker …"` become `mqbroker …`. In the
    image the roles of RocketMQ's entry point count, as a word or as NODE_ROLE. Commands of mqadmin
    remain alone. Other command lines are unchanged.
    """
    words = [*arguments]
    if environment.get("POCKETMQ_IMAGE"):
        role = environment.get("NODE_ROLE", "") if words == IMAGE_DEFAULT else "".join(words[:1])
        if role in ROLES:
            return [ROLES[role], *words[1:]] if words != IMAGE_DEFAULT else [ROLES[role]]
    if len(words) > 1 and Path(words[0]).name in SHELLS:
        is_text = words[1] == "-c" and len(words) > 2
        words = _words_of(words[2]) if is_text else words[1:]
    name = Path(words[0]).name if words else ""
    if name == ADMIN:
        return words[1:] or ["--help"]  # an unknown command's error names the one of PocketMQ
    return [name, *words[1:]] if name in PROGRAMS else [*arguments]


def _words_of(text: str) -> list[str]:
    if _MORE_THAN_WORDS.search(text):
        return []
    try:
        return shlex.split(text.removeprefix("exec "))
    except ValueError:
        return []
