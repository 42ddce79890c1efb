"""Documents as YAML, a subset of it that every version reads alike.

    name: orders
    queues:
    - queue_id: 0
      hosts: []

Texts are in double quotes unless they are plain words that no reader takes for anything else.
Source: YAML 1.2, chapter 7.3.1, whose escapes hold those of JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pocketmq.cli.safe_text import escaped

_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_OTHERWISE: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 or 1.2 takes for something else than a text."""


def yaml_document(document: Any) -> str:
    """Returns a document, its last line ended."""
    return "".join(f"{line}\n" for line in _lines(document))


def yaml_item(document: Any) -> str:
    """Returns a document as one item of a list: such texts joined are a list of them."""
    return yaml_document([document])


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _member(f"{_scalar(str(name))}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *others = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _scalar(value)


def _member(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping | list | tuple) or not value:
        yield f"{name} {_scalar(value)}"
        return
    yield name
    indent = "  " if isinstance(value, Mapping) else ""
    yield from (f"{indent}{line}" for line in _lines(value))


def _scalar(value: Any) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    if is_plain and value.lower() not in _OTHERWISE:
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return escaped(text)
