"""Finds RocketMQ's programs in command lines written for containers of RocketMQ's image."""

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
"""Default command line of the image: only if it is unchanged, NODE_ROLE is evaluated."""
SHELLS: Final = frozenset({"sh", "bash"})
_MORE_THAN_WORDS: Final = re.compile(r"[;&|<>$`\n(]")
"""Characters that a shell interprets: a text with one of them is not parsed here."""


def program_line(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns a command line without the shell and the path before one of RocketMQ's programs.

    `sh mqbroker -c FILE`, `./mqbroker …`, and `sh -c "mqbroker …"` become `mqbroker …`. In the
    image, a role of RocketMQ's entry point is accepted in place of a program: as the first word, or
    in NODE_ROLE. For mqadmin, only the words after `mqadmin` are returned. Other command lines are
    unchanged.
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
        # For a command of mqadmin, the error text suggests PocketMQ's command.
        return words[1:] or ["--help"]
    return [name, *words[1:]] if name in PROGRAMS else [*arguments]


def _words_of(text: str) -> list[str]:
    if _MORE_THAN_WORDS.search(text):
        return []
    try:
        return shlex.split(text.removeprefix("exec "))
    except ValueError:
        return []
