"""The part of YAML that RocketMQ's files are written in, parsed without revealing their content.

Mappings and sequences in blocks, scalars on one line, plain or quoted, `[a, b]`, comments. Other
YAML (anchors, tags, text over several lines) is an error that names the line, never its
text: there are secrets in these files.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

DEPTH_MAX: Final = 16
_KEY: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s'"#\[\]{},&*!|>%@`-][^:#]*?)\s*:(?:\s+(.*)|$)""")
_FOREIGN: Final = re.compile(r"[&*!|>%@`{]")
_QUOTED: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?:#.*)?""")
_ESCAPED: Final = re.compile(r'\\(["\\/])')


class PlainYamlError(ValueError):
    """Text that is no YAML of this kind; the error names the line, but not its content."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_yaml(text: str) -> Any:
    """Returns dicts, lists and texts; an empty value is "", and so is an empty document.

    Errors   PlainYamlError
    """
    reader = _Reader([*_lines(text)])
    found = reader.block(0, 0) if reader.lines else ""
    if reader.lines:
        raise PlainYamlError(reader.lines[0].number, "it is indented otherwise than those above")
    return found


def _lines(text: str) -> list[_Line]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#") or (bare in {"---", "..."} and line[0] != " "):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if line[indent] == "\t":
            raise PlainYamlError(number, "a tab cannot indent")
        found.append(_Line(number, indent, bare))
    return found


class _Reader:
    """Takes lines off the front."""

    __slots__ = ("lines",)

    def __init__(self, lines: list[_Line]) -> None:
        self.lines = lines

    def block(self, indent: int, depth: int) -> Any:
        """Returns the value of the next lines that are indented so far or farther."""
        first = self.lines[0]
        if depth > DEPTH_MAX:
            raise PlainYamlError(first.number, "it is nested too deep")
        assert first.indent >= indent, "a block lies within its own"
        if _is_item(first.text):
            return self._sequence(first.indent, depth)
        if _KEY.fullmatch(first.text):
            return self._mapping(first.indent, depth)
        del self.lines[0]
        return _scalar(first.text, first.number)

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while self._goes_on(indent, _is_item):
            number, _, text = self.lines[0]
            rest = text[1:].lstrip()
            if rest and not rest.startswith("#"):
                self.lines[0] = _Line(number, indent + len(text) - len(rest), rest)
                found.append(self.block(indent + 1, depth + 1))
            else:
                del self.lines[0]
                found.append(self._below(indent + 1, depth))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._goes_on(indent, lambda text: not _is_item(text)):
            number, _, text = self.lines.pop(0)
            pair = _KEY.fullmatch(text)
            if pair is None:
                raise PlainYamlError(number, "it is no KEY: VALUE")
            key, rest = pair[1].strip("\"'"), (pair[2] or "").strip()
            if key in found:
                raise PlainYamlError(number, "a key is there twice")
            if rest and not rest.startswith("#"):
                found[key] = _scalar(rest, number)
            else:
                found[key] = self._value_below(indent, depth)
        return found

    def _value_below(self, indent: int, depth: int) -> Any:
        """Returns the value of a key whose line has none; a sequence may begin below the key."""
        if self._goes_on(indent, _is_item):
            return self._sequence(indent, depth + 1)
        return self._below(indent + 1, depth)

    def _below(self, indent: int, depth: int) -> Any:
        is_there = self.lines and self.lines[0].indent >= indent
        return self.block(indent, depth + 1) if is_there else ""

    def _goes_on(self, indent: int, is_one: Callable[[str], bool]) -> bool:
        return bool(self.lines) and self.lines[0].indent == indent and is_one(self.lines[0].text)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(text: str, number: int) -> Any:
    if text[0] in "\"'":
        quoted = _QUOTED.fullmatch(text)
        if quoted is None:
            raise PlainYamlError(number, "a quoted text does not end")
        return _unquoted(quoted[1])
    bare = text.partition(" #")[0].rstrip()
    if bare.startswith("[") and bare.endswith("]"):
        return [_scalar(part.strip(), number) for part in bare[1:-1].split(",") if part.strip()]
    if _FOREIGN.match(bare) or bare.startswith("["):
        raise PlainYamlError(number, "it is written in a way of YAML that is not read here")
    return "" if bare in {"~", "null"} else bare


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    return inner.replace("''", "'") if text[0] == "'" else _ESCAPED.sub(r"\1", inner)
