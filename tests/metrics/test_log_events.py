"""Every log call of the broker names an event: a noun and a verb, without what messages contain.

tests/architecture/test_reference_pages.py compares them with docs/reference/log-events.md.
"""

import ast
import re

import pytest

from reference_pages import constants, log_calls

EVENT = re.compile(r"[a-z_]+\.[a-z_]+")
BODIES = {"body", "bodies", "message", "content", "properties", "record", "records", "raw"}


def test_every_event_is_a_noun_and_a_verb() -> None:
    for where, event in log_calls():
        assert EVENT.fullmatch(event.name), where


def test_no_body_is_ever_told() -> None:
    for where, event in log_calls():
        assert not BODIES.intersection(event.fields), where


def test_an_event_has_one_level_and_one_set_of_fields() -> None:
    found = {(event.name, event.level, frozenset(event.fields)) for _, event in log_calls()}
    assert len(found) == len({name for name, _, _ in found})


@pytest.mark.parametrize(
    ("code", "texts"),
    [('"a.b"', ["a.b"]), ('"a.b" if x else "a.c"', ["a.b", "a.c"]), ("name", []), ("f'a.{x}'", [])],
)
def test_what_an_event_can_be_is_read_from_the_code(code: str, texts: list[str]) -> None:
    assert constants(ast.parse(code, mode="eval").body, {}) == texts
