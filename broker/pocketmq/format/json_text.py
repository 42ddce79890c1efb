"""Parses the JSON of a store's small files, whose content is not trusted.

`read_json` parses every file of the store, and raises ValueError for unusable content. Of
duplicate names the last one counts, as in fastjson. Rejected are:

    invalid UTF-8 · half of a surrogate pair   they could not be written back
    NaN, Infinity, 1e999                       they are not JSON
    an integer beyond 64 bits                  it fits no field of RocketMQ
    nesting beyond the interpreter's limit     tables have at most five levels
"""

import json
import re
from collections.abc import Callable, Iterable
from math import isfinite
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from pocketmq.model.errors import TableUnreadable

NUMBER_DIGITS_MAX: Final = 20
COUNT_MAX: Final = 1 << 62
"""Largest version read from a table, so that increments cannot overflow a Java long."""
_INTEGER_END: Final = 1 << 63
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
Pairs = Callable[[list[tuple[str, Any]]], Any]
Content = TypeVar("Content")


class NotJson(ValueError):
    """A text that is no JSON from a position on.

    position        number of the characters before the fault
    byte_position   number of the bytes before the fault
    """

    def __init__(self, text: str, position: int, form: str = "JSON") -> None:
        before = text[:position]
        line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
        self.position = position
        self.byte_position = len(before.encode("utf-8", "replace"))
        place = f"line {line}, column {column}, byte {self.byte_position}"
        if not text.strip("\0 \t\r\n"):
            why = "it contains only zeros" if "\0" in text else "it is empty"
        elif not text[position:].strip():
            why = f"it ends too early, at {place}"
        else:
            why = f"it is no valid {form} at {place}"
        super().__init__(why)


def text_of(content: bytes) -> str:
    """Returns the text of a file.

    Errors   NotJson: the content is not UTF-8
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        text = content.decode("utf-8", "replace")
        position = len(content[: error.start].decode("utf-8"))
        raise NotJson(text, position, "UTF-8") from error


def read_json(content: bytes | str, pairs: Pairs | None = None) -> Any:
    """Parses a text.

    pairs    makes an object's value from its (name, value) pairs
    Errors   ValueError: its text is for people; NotJson, if the text is no JSON
    """
    text = content if isinstance(content, str) else text_of(content)
    try:
        value = json.loads(
            text,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_refuse,
            object_pairs_hook=pairs,
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise NotJson(text, error.pos) from error
    except UnicodeEncodeError as error:
        raise ValueError("a text in it has half of a surrogate pair") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return value


def read_object(content: bytes | str) -> dict[str, Any]:
    """Parses a text that must be a JSON object.

    Errors   ValueError
    """
    found = read_json(content)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def first_sound(
    versions: Iterable[tuple[Path, bytes]], parse: Callable[[bytes], Content]
) -> tuple[Path, Content] | None:
    """Returns path and content of the first version of a file that can be parsed.

    Returns  None without versions
    Errors   TableUnreadable: `parse` raised ValueError for every version
    """
    failures: list[tuple[Path, ValueError]] = []
    for path, content in versions:
        try:
            return path, parse(content)
        except RecursionError:
            failures.append((path, ValueError("it is nested too deep")))
        except ValueError as error:
            failures.append((path, error))
    for path, failure in failures:
        raise TableUnreadable(path=str(path), why=str(failure)) from failure
    return None


def is_integer(value: Any, lower: int, upper: int) -> bool:
    """Returns whether a value is an integer, not a boolean, within [lower, upper]."""
    return isinstance(value, int) and not isinstance(value, bool) and lower <= value <= upper


def table_of(value: Any) -> dict[Any, Any]:
    """Returns the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def _integer(text: str) -> int:
    if len(text) > NUMBER_DIGITS_MAX or not -_INTEGER_END <= (number := int(text)) < _INTEGER_END:
        raise ValueError(f"the number {text[:NUMBER_DIGITS_MAX]}… has more than 64 bits")
    return number


def _real(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text[:NUMBER_DIGITS_MAX]} is too large")
    return number


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")
