"""Violations that the battery which kills brokers under classic clients must report."""

from typing import Any

import pytest

from torture.classic import MISPLACED, UNORDERED, WRONG, judged

STORED = {(0, 0): "1", (0, 1): "2", (1, 0): "3"}


def sent(body: str, queue: int, offset: int) -> dict[str, Any]:
    return {"sent": body, "why": "SEND_OK", "queue": queue, "offset": offset}


def came(body: str, queue: int, offset: int) -> dict[str, Any]:
    return {"body": body, "message_id": f"id-{body}", "queue": queue, "offset": offset}


SENT = [sent("1", 0, 0), sent("2", 0, 1), {"failed": "3", "why": "gone"}]
CAME = [came("1", 0, 0), came("3", 1, 0), came("2", 0, 1)]


def wrong_of(
    group: str = "readers", *, told: list[dict[str, Any]] = SENT,
    pushed: list[dict[str, Any]] = CAME, stored: dict[tuple[int, int], str] = STORED,
) -> list[str]:  # fmt: skip
    """Returns the kinds of the violations, which the figures count as well."""
    figures, wrong = judged(told, {group: pushed}, stored)
    kinds = [text.rsplit(": ", 1)[1] for text in wrong]
    assert {kind: kinds.count(kind) for kind in WRONG} == {kind: figures[kind] for kind in WRONG}
    return kinds


@pytest.mark.parametrize("group", ["readers", "orderly"])
def test_what_came_again_after_a_kill_is_right(group: str) -> None:
    figures, wrong = judged(SENT, {group: [*CAME, *CAME]}, STORED)
    assert wrong == []
    assert (figures["acknowledged"], figures["stored"]) == (2, 3)
    assert (figures["consumed"], figures["came again"]) == (6, 3)


def test_an_acknowledged_message_that_never_came_is_lost() -> None:
    assert wrong_of(pushed=CAME[:2]) == ["lost"]


def test_a_message_that_no_producer_tried_to_send_is_reported() -> None:
    assert wrong_of(told=SENT[:2]) == ["never sent"]


def test_an_acknowledged_message_is_stored_where_its_producer_was_told() -> None:
    assert wrong_of(told=[sent("1", 1, 0), *SENT[1:]]) == [MISPLACED]


def test_a_queue_has_the_order_of_its_producer() -> None:
    swapped = {(0, 0): "2", (0, 1): "1", (1, 0): "3"}
    told = [sent("1", 0, 1), sent("2", 0, 0), SENT[2]]
    assert wrong_of(told=told, stored=swapped) == [UNORDERED]


def test_an_orderly_group_gets_a_queue_without_gaps() -> None:
    late = [CAME[2], CAME[0], CAME[1]]
    assert wrong_of("orderly", pushed=late) == [UNORDERED]
    assert wrong_of("readers", pushed=late) == []
