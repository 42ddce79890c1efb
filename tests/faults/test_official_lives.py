"""Violations that the battery which kills brokers under official clients must report."""

from collections import Counter
from typing import Any

import pytest

from torture.official import IN_FLIGHT_MS, WRONG, judged

KILL_MS = 10_000


def came(body: str, at_ms: int) -> dict[str, Any]:
    """Returns what a consumer tells of a message."""
    return {"body": body, "message_id": f"id-{body}", "at_ms": at_ms, "attempt": 1}


def figures_of(
    sent: list[dict[str, Any]], pushed: list[dict[str, Any]], **stored: int
) -> tuple[Counter[str], list[str]]:
    ids = Counter({f"id-{body[1:]}": count for body, count in stored.items()})
    return judged(sent, {"readers": pushed}, ids, [KILL_MS])


def test_everything_once_is_right() -> None:
    sent: list[dict[str, Any]] = [{"sent": 1}, {"failed": 2, "why": "gone"}]
    figures, wrong = figures_of(sent, [{"started": True}, came("1", 0), came("2", 5)], _1=1, _2=1)
    assert (figures["acknowledged"], figures["sends without an answer"]) == (1, 1)
    assert (figures["consumed"], figures["stored twice"], wrong) == (2, 0, [])


def test_what_was_sent_again_may_come_twice() -> None:
    figures, wrong = figures_of([{"sent": 1}], [came("1", 0), came("1", 1)], _1=2)
    assert (figures["stored twice"], figures["came again, ack in flight"], wrong) == (1, 0, [])


@pytest.mark.parametrize(
    ("first_ms", "kind"),
    [
        (KILL_MS - IN_FLIGHT_MS - 1, "came again otherwise"),
        (KILL_MS - IN_FLIGHT_MS, "came again, ack in flight"),
        (KILL_MS, "came again, ack in flight"),
        (KILL_MS + 1, "came again otherwise"),
    ],
)
def test_what_comes_again_needs_a_kill_behind_it(first_ms: int, kind: str) -> None:
    figures, wrong = figures_of([{"sent": 1}], [came("1", first_ms), came("1", 90_000)], _1=1)
    assert figures[kind] == 1
    assert bool(wrong) is (kind in WRONG)


@pytest.mark.parametrize(
    ("sent", "body", "kind"), [([{"sent": 1}, {"sent": 2}], "1", "lost"), ([], "1", "never sent")]
)
def test_what_is_lost_or_was_never_sent_is_wrong(
    sent: list[dict[str, Any]], body: str, kind: str
) -> None:
    figures, wrong = figures_of(sent, [came(body, 0)], _1=1)
    assert (figures[kind], len(wrong)) == (1, 1)
