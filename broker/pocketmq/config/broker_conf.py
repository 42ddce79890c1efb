"""Imports RocketMQ's broker.conf as settings of ours.

The file is a Java properties file: `name = value` a line, `#` and `!` begin a comment, and a
backslash at the end continues a line. Names, values and defaults keep RocketMQ's meaning: the
result is based on the preset `server`. Settings without a meaning here are left out and reported
with the reason. So is an unknown name, unless the import is strict: then it is an error. A value
that cannot be parsed is always an error. A proxy's rmq-proxy.json is imported the same way. Secrets
that are left out are not shown.
Source: MixAll.properties2Object, java.util.Properties.load.
"""

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.config import rocketmq
from pocketmq.config.document import settings_text
from pocketmq.config.ignored_settings import why_left_out
from pocketmq.config.load import Layers, checked, nearest
from pocketmq.config.proxy_conf import TAKEN, is_proxy_conf, proxy_pairs, why_proxy_leaves_out
from pocketmq.config.sections import KNOBS, PRESET, SERVER
from pocketmq.model.errors import IllegalConfig

HIDDEN: Final = "(not shown)"
_SECRET: Final = re.compile(
    r"secret|password|passwd|credential|token|private|authenticationUser", re.IGNORECASE
)
"""Matches ignored names and values that may be secrets."""
UNKNOWN: Final = "nothing is known of this name, here or in RocketMQ's common settings"

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A line of the file, the lines it goes on in included."""

    line: int
    name: str
    value: str


class LeftOut(NamedTuple):
    """A property that is not taken over, and why; the hint names a likely spelling."""

    property: Property
    why: str
    hint: str


class Imported(NamedTuple):
    """A broker.conf as settings of ours.

    text       TOML, with comments for ignored settings
    left_out   names without a meaning here
    unknown    those of them that RocketMQ does not know either, with the nearest known name
    """

    text: str
    left_out: list[str]
    unknown: list[str]
    warnings: list[str]
    problems: list[IllegalConfig]


def import_file(path: Path, *, strict: bool = False) -> Imported:
    """Returns a broker.conf as settings of ours; valid only without problems.

    strict   an unknown name is a problem
    Errors   IllegalConfig: the file cannot be read
    """
    text = text_of(path)
    layers = Layers()
    layers.put(PRESET, SERVER, str(path))
    left_out: dict[str, LeftOut] = {}
    said: dict[str, str] = {}
    take = _take_proxy if is_proxy_conf(path) else _take_broker
    take(path, text, layers, said, left_out, strict)
    loaded = checked(layers)
    head = (
        f"# From {_on_one_line(str(path))} of RocketMQ, whose defaults are those of this preset.\n"
    )
    head += f"{PRESET} = {json.dumps(SERVER)}\n"
    values = {key: loaded.config.value(key) for key in layers.origins}
    remarks = {key: _on_one_line(remark) for key, remark in said.items()}
    parts = [head, settings_text(values, remarks), _left_out_text(left_out)]
    text = "\n".join(part for part in parts if part)
    unknown = [f"{name}{item.hint}" for name, item in left_out.items() if item.why == UNKNOWN]
    return Imported(text, [*left_out], unknown, [*loaded.config.warnings], loaded.problems)


def text_of(path: Path) -> str:
    """Returns the text of a file.

    Errors   IllegalConfig: it cannot be read
    """
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise IllegalConfig(field=str(path), why=str(error.strerror)) from error
    except ValueError:
        raise IllegalConfig(field=str(path), why="it is not UTF-8") from None


def _take_broker(
    path: Path, text: str, layers: Layers, said: dict[str, str], left_out: dict[str, LeftOut],
    strict: bool,
) -> None:  # fmt: skip
    """Takes the entries of broker.conf."""
    for item in properties(text):
        why, hint = _why_left_out(item.name)
        if why and not (strict and why == UNKNOWN):
            left_out[item.name] = LeftOut(item, why, hint)
            continue
        layers.put_any(item.name, item.value, f"{path}:{item.line}")
        said |= {knob.key: f"{item.name} = {item.value}" for knob in rocketmq.knobs_of(item.name)}


def _take_proxy(
    path: Path, text: str, layers: Layers, said: dict[str, str], left_out: dict[str, LeftOut],
    strict: bool,
) -> None:  # fmt: skip
    """Takes the entries of rmq-proxy.json."""
    for name, value in proxy_pairs(path, text):
        key = TAKEN.get(name)
        if key is None:
            left_out[name] = LeftOut(Property(0, name, value), why_proxy_leaves_out(name), "")
        elif value:
            layers.put(key, value, f"{path}: {name}")
            said[key] = f"{name} = {value}"


def _why_left_out(name: str) -> tuple[str, str]:
    """Returns why a name is left out, "" for one that means something, and a hint."""
    if name in KNOBS or name == PRESET or rocketmq.knobs_of(name):
        return "", ""
    why = rocketmq.why_meaningless(name) or why_left_out(name)
    if why:
        return why, ""
    near = nearest(name, rocketmq.names())
    return UNKNOWN, f" (did you mean {near}?)" if near else ""


def properties(text: str) -> list[Property]:
    """Returns the entries of a file of properties, in its order."""
    found: list[Property] = []
    whole, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        piece = line.lstrip()
        if not whole and (not piece or piece[0] in "#!"):
            continue
        begun = begun if whole else number
        whole += piece
        backslash_count = len(whole) - len(whole.rstrip("\\"))
        if backslash_count % 2:
            whole = whole[:-1]
            continue
        found += _property(begun, whole)
        whole = ""
    return found + _property(begun, whole)


def _property(line: int, whole: str) -> list[Property]:
    pair = _PAIR.fullmatch(whole)
    if not whole or pair is None:
        return []
    return [Property(line, _unescaped(pair[1]), _unescaped(pair[2]).strip())]


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        word = match[1]
        return chr(int(word[1:], 16)) if len(word) > 1 else _CONTROLS.get(word, word)

    return _ESCAPE.sub(character, text)


def _left_out_text(left_out: dict[str, LeftOut]) -> str:
    by_reason: dict[str, list[LeftOut]] = {}
    for item in left_out.values():
        by_reason.setdefault(item.why, []).append(item)
    lines = ["# Left out:\n"] if by_reason else []
    for why, items in by_reason.items():
        lines.append(f"#   {why}\n")
        for (_, name, value), _, hint in items:
            shown = HIDDEN if _SECRET.search(name) or _SECRET.search(value) else value
            lines.append(f"#     {_on_one_line(f'{name} = {shown}{hint}')}\n")
    return "".join(lines)


def _on_one_line(text: str) -> str:
    """Returns text that a comment of TOML may contain, which allows no control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
