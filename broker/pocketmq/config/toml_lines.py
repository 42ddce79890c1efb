"""Lines of a TOML text, for messages about its keys."""

import re
from collections.abc import Iterator

_TABLE = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")
_BARE = re.compile(r"\s*([\w.-]+)\s*=\s*([^\s\"'#\[{][^\s\"'#]{0,80})\s*(?:#.*)?")
"""A key with one word as its value, without quotes."""
_ERROR_LINE = re.compile(r"\(at line (\d+),")


def lines_of_keys(text: str) -> dict[str, int]:
    """Returns the line of each key of a TOML text, from 1.

    Lines of a multi-line string may count as keys, as the result is only used in messages.
    """
    return {key: number for number, key in _keys(text)}


def told_twice(text: str) -> str:
    """Returns which key or section a TOML text has twice, with both lines; "" for none."""
    sections: dict[str, int] = {}
    keys: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        head = _TABLE.match(line)
        if head and (first := sections.setdefault(head[1], number)) < number:
            return f"[{head[1]}] is in lines {first} and {number}; write its settings below one"
    for number, key in _keys(text):
        if (first := keys.setdefault(key, number)) < number:
            return f"{key} is set in lines {first} and {number}; remove one of them"
    for section, number in sections.items():
        first = next((keys[key] for key in keys if key.startswith(f"{section}.")), number)
        if first < number:
            return f"{section} is in lines {first} and {number}; write all below [{section}]"
    return ""


def with_quotes(text: str, trouble: str) -> str:
    """Returns ": write KEY = VALUE" if the line that a TOML error names lacks quotes; else ""."""
    named = _ERROR_LINE.search(trouble)
    lines = text.splitlines()
    number = int(named[1]) if named else 0
    if not 1 <= number <= len(lines) or not (bare := _BARE.fullmatch(lines[number - 1])):
        return ""
    lower = bare[2].lower()
    value = lower if lower in ("true", "false") else f'"{bare[2]}"'
    return f": write {bare[1]} = {value}"


def _keys(text: str) -> Iterator[tuple[int, str]]:
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _TABLE.match(line):
            table = f"{head[1]}."
        elif key := _KEY.match(line):
            yield number, f"{table}{key[1]}"
