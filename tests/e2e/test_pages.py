"""Shell blocks of README and docs run as they are shown, or state why not."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.page_sessions import (
    PAGES,
    ROOT,
    Command,
    PageSession,
    blocks_of,
    has_unnamed_blocks,
    is_as_shown,
    session_of,
)
from tests.golden_stores import GoldenStores

NOT_RUN = 33
"""Blocks that state why they are not run: fewer is better, more needs a reason here."""
RUN_MIN = 10
REFUSED = "Error:"
SESSIONS = [page for page in PAGES if session_of(page.read_text("utf-8"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def session(
    request: pytest.FixtureRequest, tmp_path: Path, golden: GoldenStores
) -> Iterator[PageSession]:
    kind = session_of(request.getfixturevalue("page").read_text("utf-8"))
    with ExitStack() as stack:
        endpoint = "127.0.0.1:1"
        if kind == "broker":
            endpoint = stack.enter_context(Daemon(tmp_path / "store")).endpoint
        else:
            golden.copy("propcrc", tmp_path / "copy")
        yield PageSession(tmp_path, endpoint)


@pytest.mark.parametrize("page", SESSIONS, ids=name_of)
def test_the_blocks_of_a_page_print_what_it_shows(page: Path, session: PageSession) -> None:
    for block in blocks_of(page.read_text("utf-8")):
        for command in block.commands if not block.why_not else ():
            code, printed = session.run(command)
            where = f"{name_of(page)}:{block.line}: {command.text}\n{printed}"
            shows_error = any(line.startswith(REFUSED) for line in command.output or ())
            assert (code != 0) == shows_error, where
            assert command.output is None or is_as_shown(command.output, printed), where


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_is_run_or_states_why_not(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not has_unnamed_blocks(text)
    if not session_of(text):
        assert [block.line for block in blocks_of(text) if not block.why_not] == []


def test_few_blocks_are_not_run() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page.read_text("utf-8"))]
    assert sum(bool(block.why_not) for block in blocks) == NOT_RUN
    assert sum(not block.why_not for block in blocks) >= RUN_MIN


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        (["records  5"], "records  17\n", True),
        (["id 7F000001BF91BEDE"], "id 00AA11BB22CC33DD44\n", True),
        (["a", "…", "d"], "a\nb\nc\nd\n", True),
        (["a", "…"], "a\n", True),
        (["records  5"], "record  5\n", False),
        (["a"], "a\nb\n", False),
        ([], "a\n", False),
    ],
)
def test_outputs_are_compared_but_for_numbers(
    shown: list[str], printed: str, is_same: bool
) -> None:
    assert is_as_shown(shown, printed) is is_same


def test_an_id_of_the_page_becomes_the_printed_one(tmp_path: Path) -> None:
    session = PageSession(tmp_path, "127.0.0.1:1")
    on_page, here = "A" * 32, "B" * 32
    session.run(Command(f"echo {here}", [on_page]))
    assert session.run(Command(f"echo {on_page}", None)) == (0, f"{here}\n")


def test_a_marked_block_states_its_reason() -> None:
    page = "<!-- not run: no network -->\n```sh\nfetch\n```\n\n```console\n$ a\nb\n$ c\n```\n"
    first, second = blocks_of(page)
    assert (first.why_not, second.why_not) == ("no network", "")
    assert second.commands == [Command("a", ["b"]), Command("c", [])]
