"""Answers that pages of the console share, and lists of a broker that is slow to count."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.client import Message
from pocketmq.console import listing
from pocketmq.console.listing import ROWS, KeptAnswer, kept, soon
from tests.kit.browser import console_of
from tests.running_broker import broker_with


def page_of(patience_s: float) -> Any:
    """Returns what of a page these functions use."""
    console = SimpleNamespace(patience_s=patience_s)
    visitor = SimpleNamespace(memory={})
    return SimpleNamespace(visitor=visitor, console=console, is_live=False)


async def test_pages_that_ask_at_once_share_one_question() -> None:
    page, asked = page_of(60), 0
    may_answer = asyncio.Event()

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await may_answer.wait()
        return asked

    waiting = [asyncio.create_task(kept(page, "n", ask)) for _ in range(3)]
    await asyncio.sleep(0)
    may_answer.set()
    assert [await one for one in waiting] == [1, 1, 1]
    assert await kept(page, "n", ask) == 1


async def test_a_late_answer_is_of_the_next_page_and_an_old_one_serves_meanwhile() -> None:
    page, asked = page_of(0), 0
    may_answer = asyncio.Event()

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await may_answer.wait()
        return asked

    assert await soon(page, "n", ask) is None
    may_answer.set()
    answer: KeptAnswer = page.visitor.memory["answers"]["n"]
    assert answer.asking is not None
    await answer.asking
    assert await soon(page, "n", ask) == 1
    answer.keep_s = 0
    may_answer.clear()
    assert await soon(page, "n", ask) == 1
    await asyncio.sleep(0)
    assert asked == 2
    may_answer.set()
    await answer.asking


async def test_a_failed_question_is_asked_again() -> None:
    page = page_of(60)

    async def fail() -> int:
        raise ValueError("no answer")

    async def answer() -> int:
        return 7

    for ask in (soon, kept):
        with pytest.raises(ValueError, match="no answer"):
            await ask(page, "n", fail)
    assert await soon(page, "n", answer) == 7


async def answered(took_s: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> KeptAnswer:
    """Returns an answer whose questions took these times; the clock stands at the last one."""
    now, times = 100.0, iter(took_s)
    answer = KeptAnswer()

    async def ask() -> int:
        nonlocal now
        now += next(times)
        return 1

    monkeypatch.setattr(listing, "time", SimpleNamespace(monotonic=lambda: now))
    for _ in took_s:
        await answer.ask(ask, 1.5)
    return answer


def is_fresh_after(
    passed_s: float, answer: KeptAnswer, monkeypatch: pytest.MonkeyPatch, *, is_live: bool = True
) -> bool:
    """Returns whether an answer needs no new question after a time."""
    now = answer.answered_s + passed_s
    monkeypatch.setattr(listing, "time", SimpleNamespace(monotonic=lambda: now))
    return answer.is_fresh(is_live=is_live)


async def test_an_answer_that_takes_long_is_kept_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = await answered([1.0, 1.0], monkeypatch)
    assert is_fresh_after(listing.PAUSE - 1, answer, monkeypatch, is_live=False)
    assert not is_fresh_after(listing.PAUSE + 1, answer, monkeypatch, is_live=False)
    assert is_fresh_after(listing.PAUSE + 1, answer, monkeypatch)
    assert not is_fresh_after(listing.LIVE_MAX_S + 1, answer, monkeypatch)


@pytest.mark.parametrize("took_s", [[9.0], [9.0, 0.005], [0.005, 9.0], [9.0, 0.005, 9.0]])
async def test_one_slow_question_does_not_hide_what_comes_next(
    took_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await answered(took_s, monkeypatch)
    assert is_fresh_after(1.4, answer, monkeypatch)
    assert not is_fresh_after(1.6, answer, monkeypatch)


async def test_a_list_whose_question_is_slow_is_the_last_one() -> None:
    page, may_answer = page_of(0), asyncio.Event()
    may_answer.set()
    answers = iter((1, 2))

    async def ask() -> int:
        await may_answer.wait()
        return next(answers)

    assert await kept(page, "n", ask, 0) == 1
    answer: KeptAnswer = page.visitor.memory["answers"]["n"]
    may_answer.clear()
    assert await kept(page, "n", ask, 0) == 1
    may_answer.set()
    assert answer.asking is not None
    await answer.asking
    assert answer.answer == 2


async def test_many_topics_have_sizes_but_no_order_by_them_and_are_counted_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("broker.auto_create_topics=true", "rpc.tls=false")
    async with broker_with(tmp_path / "store", *settings) as broker:
        for topic in ("ants", "bees", "cows"):
            await broker.client.send_many([Message(topic, b"x")] * len(topic))
        await broker.dispatched()
        await broker.client.admin.create_group("billing")
        async with console_of(broker.addresses["grpc"]) as visitor:
            assert "/topics?sort=size" in (await visitor.get("/topics")).html
            monkeypatch.setattr("pocketmq.console.pages.topics.MEASURED_MAX", 2)
            page = await visitor.get("/topics?sort=messages")
            assert re.search(r"ants normal 8 4 \d+ B", page.text)
            assert "/topics?sort=size" not in page.html
            assert "/topics?sort=last" not in page.html
            assert "Messages" in (await visitor.get("/")).text
        async with console_of(broker.addresses["grpc"], patience_s=0) as visitor:
            for path in ("/topics", "/groups"):
                late = await visitor.get(path)
                assert "counting" in late.text
                assert f'hx-get="{path}?sort=name&amp;from=0" hx-trigger="load' in late.html
            page = await visitor.get("/")
            assert "Send a first message" not in page.text


async def test_the_broker_orders_and_cuts_the_lists_of_pages(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store", "rpc.tls=false") as broker:
        for number in range(ROWS + 1):
            await broker.client.admin.create_topic(f"t{number:02}", queue_count=1)
        async with console_of(broker.addresses["grpc"]) as visitor:
            first = await visitor.get("/topics")
            assert "1–50 of 51" in first.text
            assert "t49" in first.text
            assert "t50" not in first.text
            for begin in (50, 10**9):
                last = await visitor.get(f"/topics?from={begin}")
                assert "51–51 of 51" in last.text
                assert "t50" in last.text
            found = await visitor.get("/topics?q=T5&sort=messages")
            assert "t50" in found.text
            assert "t49" not in found.text
            offered = (await visitor.get("/messages")).html
            assert len(re.findall(r'<option value="t\d\d"', offered)) == ROWS + 1


async def test_answers_that_no_page_needs_are_dropped() -> None:
    page = page_of(60)

    async def ask() -> int:
        return 1

    for number in range(listing.ANSWERS_MAX + 5):
        await kept(page, f"n{number}", ask)
    assert len(page.visitor.memory["answers"]) == listing.ANSWERS_MAX


async def test_a_search_typed_letter_by_letter_leaves_few_rows_in_memory() -> None:
    page = page_of(60)

    async def ask() -> list[int]:
        return [0] * ROWS

    for number in range(100):
        await kept(page, f"topics with {number}", ask)
    assert sum(len(one.answer) for one in page.visitor.memory["answers"].values()) <= 1_000
