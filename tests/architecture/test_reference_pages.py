"""The reference pages are what the code says, and every log event has a text."""

import pytest

from reference_pages import (
    EXITS,
    PAGES,
    PAGES_FOLDER,
    differing,
    event_texts,
    help_texts,
    log_events_page,
)
from tests.metrics import contract

EVENTS = (PAGES_FOLDER / "log-events.md").read_text("utf-8")


def test_the_pages_are_the_code() -> None:
    assert list(differing()) == [], "python scripts/reference_pages.py --write"


def test_every_event_has_a_text() -> None:
    texts = event_texts(EVENTS)
    assert len(texts) > 60
    assert [name for name, text in texts.items() if not text] == []


def test_a_new_event_gets_a_place_and_no_text() -> None:
    name = "access.changed"
    without = EVENTS.replace(f"### {name}\n", "### access.unknown\n")
    assert event_texts(log_events_page(without))[name] == ""
    assert "access.unknown" not in log_events_page(without)


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_page_is_found(page: str) -> None:
    text = (PAGES_FOLDER / f"{page}.md").read_text("utf-8")
    title, _, rest = text.partition("\n")
    assert PAGES[page](f"{title}s\n{rest}") == text


def test_every_metric_of_the_contract_has_a_help_text() -> None:
    rows = (
        *contract.NATIVE, *contract.TIMER, *contract.SESSIONS, *contract.OWN, *contract.ACCESS,
        *contract.SETTINGS, *contract.FULL,
    )  # fmt: skip
    assert {row.name for row in rows} <= help_texts().keys()


def test_every_exit_code_is_explained() -> None:
    from pocketmq.cli.output import Exit

    assert {code.name for code in Exit} == EXITS.keys()
