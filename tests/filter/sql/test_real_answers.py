"""Answers of RocketMQ 5.5.0's own SqlFilter: expressions times sets of properties."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pocketmq.filter.sql.grammar import tree_of
from pocketmq.filter.sql.java_values import Incomparable
from pocketmq.format.properties import encode_properties, led_by_separator
from pocketmq.model.errors import IllegalFilter
from tests.golden_stores import ARCHIVES

ANSWERS: dict[bool | None, str] = {True: "T", False: "F", None: "N"}
REFUSED = "E"
FAILED = "X"


BOOLEAN_FIRST = re.compile(r"(?i)(\btrue|\bfalse|\)|\bnot\s.*)\s*(=|<>)")
"""A boolean before the text of a property: RocketMQ fails to read that, here it counts."""


def is_mended(wanted: str, found: str) -> bool:
    """Returns whether answers differ only where RocketMQ failed."""
    pairs = zip(wanted, found, strict=True)
    return all(real in (FAILED, ours) for real, ours in pairs)


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        gzip.decompress(Path(ARCHIVES, "sql92.json.gz").read_bytes())
    )
    return found


def answer(expression: str, blocks: list[bytes]) -> str:
    try:
        evaluate = tree_of(expression).evaluate
    except IllegalFilter:
        return REFUSED
    letters = ""
    for block in blocks:
        try:
            letters += ANSWERS[evaluate(block)]  # type: ignore[index]
        except Incomparable:
            letters += FAILED
    return letters


def test_every_expression_is_answered_as_rocketmq_answers_it(real: dict[str, Any]) -> None:
    assert real["rocketmq"] == "5.5.0"
    blocks = [led_by_separator(encode_properties(pairs)) for pairs in real["properties"]]
    expressions = real["expressions"]
    wrong = [
        (expression, wanted, found)
        for expression, wanted in expressions
        if (found := answer(expression, blocks)) != wanted
    ]
    mended = [row for row in wrong if BOOLEAN_FIRST.search(row[0]) and is_mended(*row[1:])]
    assert not [row for row in wrong if row not in mended][:5]
    assert 0 < len(mended) < 100
    assert len(expressions) > 4000
    assert sum(wanted == REFUSED for _, wanted in expressions) == 400
