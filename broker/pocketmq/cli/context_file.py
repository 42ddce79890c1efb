"""Contexts: named connections, in a file that only its user can read.

$XDG_CONFIG_HOME/pocketmq/contexts.json, by default below ~/.config:

    {"current": "prod", "contexts": {"prod": {"endpoint": "tls://mq:8081", "access_key": "ops",
    "secret_key": "…"}}}
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.cli.output import Exit, Failure
from pocketmq.cli.text_file import replace_text

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
OTHERS: Final = 0o077
"""Permissions of the group and of others."""


class Context(NamedTuple):
    """A connection; "": not set."""

    endpoint: str = ""
    access_key: str = ""
    secret_key: str = ""


class Contexts(NamedTuple):
    """All contexts by name; `current` is the name of the one in use, "" for none."""

    current: str
    by_name: dict[str, Context]

    def named(self, name: str) -> Context:
        """Returns a context.

        Errors   Failure: unknown name
        """
        found = self.by_name.get(name)
        if found is None:
            from pocketmq.model.nearness import NEAR, nearest

            step = f"pocketmq context add {name} --endpoint HOST:PORT; or see: pocketmq context ls"
            near = nearest(name, self.by_name, NEAR)
            step = f"did you mean {near}? If not: {step}" if near else step
            raise Failure(f"there is no context {name!r}", Exit.NOT_FOUND, step)
        return found


def contexts_path(environment: Mapping[str, str]) -> Path:
    """Returns the path of the user's contexts."""
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")) / ".config"
    return Path(base) / "pocketmq" / "contexts.json"


def read_contexts(environment: Mapping[str, str] = os.environ) -> Contexts:
    """Returns the user's contexts; none if the file does not exist.

    Errors   Failure: the file is unreadable or invalid, or other users can read it
    """
    path = contexts_path(environment)
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            document = json.load(file)
        contexts = {name: Context(**given) for name, given in document["contexts"].items()}
        current = str(document["current"])
    except FileNotFoundError:
        return Contexts("", {})
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        text = f"{path} cannot be read: {error}"
        raise Failure(text, Exit.FAILED, f"repair it, or remove it: rm {path}") from error
    if mode & OTHERS:
        text = f"{path} holds secrets, and other users may read or change it"
        raise Failure(text, Exit.REFUSED, f"chmod 600 {path}")
    return Contexts(current if current in contexts else "", contexts)


def write_contexts(contexts: Contexts, environment: Mapping[str, str] = os.environ) -> Path:
    """Replaces the user's contexts in one step; returns the path.

    Errors   Failure: the file cannot be written
    """
    path = contexts_path(environment)
    kept = {name: context._asdict() for name, context in sorted(contexts.by_name.items())}
    text = json.dumps({"current": contexts.current, "contexts": kept}, indent=2) + "\n"
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}", Exit.FAILED) from error
    replace_text(path, text, FILE_MODE)
    return path
