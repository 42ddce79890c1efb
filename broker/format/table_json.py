"""The JSON dialect of RocketMQ's small tables: tabs, and integer keys without quotes.

    {
        "offsetTable":{
                "T@G":{
                        0:250,
                        1:7
                }
        }
    }

Strict parsers refuse such keys; here they are `int` in the table and names are `str`.
Source: fastjson, pretty format with WriteNonStringKeyAsString off.
"""

import json
import re
from typing import Any, Final

INTEGER_MARK: Final = "\ue000"
"""Stands before a key that is an integer while the table is text; no name holds it."""
_MARKED_KEY = re.compile(f'"{INTEGER_MARK}(-?[0-9]+)":')
_STRING_OR_KEY = re.compile(r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?[0-9]+)(\s*:)')


def encode_table(table: dict[str, Any]) -> bytes:
    """Return the text a real broker would have written: keys that are `int` go without quotes."""
    marked = _mark_keys(table)
    text = json.dumps(marked, indent="\t", separators=(",", ":"), ensure_ascii=False)
    return _MARKED_KEY.sub(r"\1:", text).encode()


def decode_table(content: bytes) -> dict[str, Any]:
    """Return the table of a text; keys without quotes come as `int`, all others as `str`.

    Errors   ValueError when the text is no JSON object
    """
    text = _STRING_OR_KEY.sub(_mark_key, content.decode("utf-8"))
    try:
        table = json.loads(text, object_pairs_hook=_unmark_keys)
    except RecursionError as error:
        raise ValueError("the table is nested too deep") from error
    if not isinstance(table, dict):
        raise ValueError("the table is not a JSON object")
    return table


def _mark_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_mark_keys(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        f"{INTEGER_MARK}{key}" if isinstance(key, int) else key: _mark_keys(element)
        for key, element in value.items()
    }


def _mark_key(match: re.Match[str]) -> str:
    if match[1] is not None:
        return match[1]
    return f'{match[2]}"{INTEGER_MARK}{match[3]}"{match[4]}'


def _unmark_keys(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    mark = INTEGER_MARK
    return {int(key[1:]) if key.startswith(mark) else key: value for key, value in pairs}
