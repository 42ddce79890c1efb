"""RocketMQ's broker.conf as settings of ours.

The file is one of Java's properties: `name = value` a line, `#` and `!` begin a comment, a line
with a backslash at its end goes on in the next. Names and values mean what they mean to RocketMQ,
its defaults included: the result is over the preset `server`. What has no meaning here is left out
and told with the reason; a name RocketMQ does not know either is an error.
Source: MixAll.properties2Object, java.util.Properties.load.
"""

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

from broker.config import rocketmq
from broker.config.document import settings_text
from broker.config.load import Layers, checked
from broker.config.sections import PRESET, SERVER
from broker.model.errors import IllegalConfig

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A line of the file, the lines it goes on in included."""

    line: int
    name: str
    value: str


class Imported(NamedTuple):
    """What a broker.conf says in our terms.

    text       TOML, comments for what was left out
    left_out   names without a meaning here
    """

    text: str
    left_out: list[str]
    warnings: list[str]
    problems: list[IllegalConfig]


def import_file(path: Path) -> Imported:
    """Return a broker.conf in our terms; of no use when there are problems.

    Errors   IllegalConfig for a file that cannot be read
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise IllegalConfig(field=str(path), why=str(error.strerror)) from error
    except ValueError as error:
        raise IllegalConfig(field=str(path), why="it is not UTF-8") from error
    layers = Layers()
    layers.put(PRESET, SERVER, str(path))
    left_out: dict[str, Property] = {}
    said: dict[str, str] = {}
    for item in properties(text):
        if rocketmq.why_meaningless(item.name):
            left_out[item.name] = item
            continue
        layers.put_any(item.name, item.value, f"{path}:{item.line}")
        said |= {knob.key: f"{item.name} = {item.value}" for knob in rocketmq.knobs_of(item.name)}
    loaded = checked(layers)
    head = (
        f"# From {_on_one_line(str(path))} of RocketMQ, whose defaults are those of this preset.\n"
    )
    head += f"{PRESET} = {json.dumps(SERVER)}\n"
    values = {key: loaded.config.value(key) for key in layers.origins}
    remarks = {key: _on_one_line(remark) for key, remark in said.items()}
    parts = [head, settings_text(values, remarks), _left_out_text(left_out)]
    text = "\n".join(part for part in parts if part)
    return Imported(text, [*left_out], [*loaded.config.warnings], loaded.problems)


def properties(text: str) -> list[Property]:
    """Return what stands in a file of properties, in its order."""
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


def _left_out_text(left_out: dict[str, Property]) -> str:
    by_reason: dict[str, list[Property]] = {}
    for name, item in left_out.items():
        by_reason.setdefault(rocketmq.why_meaningless(name), []).append(item)
    lines = ["# Left out:\n"] if by_reason else []
    for why, items in by_reason.items():
        lines.append(f"#   {why}\n")
        lines += [f"#     {item.name} = {_on_one_line(item.value)}\n" for item in items]
    return "".join(lines)


def _on_one_line(text: str) -> str:
    """Return text that may stand in a comment of TOML, which allows no control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
