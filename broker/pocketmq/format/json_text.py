"""Reads the JSON of a store's small files, which anything may have written to.

Every file of the store is read by `read_json`, so that unusable content is a ValueError before
anything relies on it. Of a name that is there twice the last one counts, as in fastjson.

    no UTF-8 · half of a surrogate pair       could not be written back
    NaN, Infinity, 1e999                      are no JSON
    an integer beyond 64 bits                 no field of RocketMQ holds it
    nested deeper than the interpreter reads  a table has five levels at most
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
"""A version of a table counts on from here without leaving a Java long."""
_INTEGER_END: Final = 1 << 63
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
Pairs = Callable[[list[tuple[str, Any]]], Any]
Content = TypeVar("Content")


def read_json(content: bytes | str, pairs: Pairs | None = None) -> Any:
    """Returns the value of a text.

    pairs    makes the value of an object of its (name, value) pairs
    Errors   ValueError
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
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
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return value


def read_object(content: bytes | str) -> dict[str, Any]:
    """Returns the members of a text that is a JSON object.

    Errors   ValueError
    """
    found = read_json(content)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


def first_sound(
    versions: Iterable[tuple[Path, bytes]], parse: Callable[[bytes], Content]
) -> tuple[Path, Content] | None:
    """Returns path and content of the first version of a file that can be parsed.

    Returns  None without any version
    Errors   TableUnreadable: there are versions, and `parse` raises ValueError for all of them
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
    """Returns whether a value is an integer, no boolean, within [lower, upper]."""
    return isinstance(value, int) and not isinstance(value, bool) and lower <= value <= upper


def table_of(value: Any) -> dict[Any, Any]:
    """Returns a value that is an object, and an empty one for any other."""
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
    raise ValueError(f"{text} is no number")
