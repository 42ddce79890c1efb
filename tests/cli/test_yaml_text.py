"""YAML that every reader takes alike: structure by indents, texts that are nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.cli.output import yaml_document, yaml_item

DOCUMENT = {
    "name": "orders",
    "queues": [{"id": 0, "hosts": [], "map": {"a": 1}}, {"id": 1, "spans": [[1, 2], []]}],
    "none": {},
}
TEXT = """\
name: orders
queues:
- id: 0
  hosts: []
  map:
    a: 1
- id: 1
  spans:
  - - 1
    - 2
  - []
none: {}
"""


def test_structure_is_told_by_indents() -> None:
    assert yaml_document(DOCUMENT) == TEXT


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("%RETRY%g", '"%RETRY%g"'),
        ("2026-01-01", '"2026-01-01"'),
        ("No", '"No"'),
        ("a: b", '"a: b"'),
        ("", '""'),
        ("a\u2028b\x85", '"a\\u2028b\\u0085"'),
        ("\U0001f600", '"\U0001f600"'),
        ("/var/lib", "/var/lib"),
        (None, "null"),
        (True, "true"),
        (1 << 62, str(1 << 62)),
    ],
)
def test_a_text_is_never_taken_for_anything_else(value: Any, text: str) -> None:
    assert yaml_document(value) == f"{text}\n"


@given(some.lists(some.dictionaries(some.text(), some.integers() | some.text()), max_size=4))
def test_items_joined_are_a_list_of_them(rows: list[dict[str, Any]]) -> None:
    text = "".join(map(yaml_item, rows))
    assert text == (yaml_document(rows) if rows else "")
    members = [line[2:] for line in text.splitlines() if line != "- {}"]
    assert len(members) == sum(map(len, rows))
    for line, (name, value) in zip(members, [p for r in rows for p in r.items()], strict=True):
        if line.startswith('"'):
            _, end = json.JSONDecoder().raw_decode(line)
            found, rest = json.loads(line[:end]), line[end:]
        else:
            found, colon, rest = line.partition(":")
            rest = colon + rest
        value_text = rest.removeprefix(": ")
        plain = value_text if isinstance(value, str) and value_text[:1] != '"' else None
        assert (found, plain or json.loads(value_text)) == (name, value)
