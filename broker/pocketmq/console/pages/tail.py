"""Live tail: messages of a topic as they are stored, by server-sent events."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from pocketmq.client import ClientError, StoredMessage, TailQuery
from pocketmq.console import texts
from pocketmq.console.listing import topic_names
from pocketmq.console.web import Route, Visit

LAST: Final = 20
"""Stored messages that a tail begins with."""
EVENT_MAX: Final = 100
"""Upper limit of messages of one event; if more arrive together, only the last are shown."""


async def tail(page: Visit) -> Response:
    """Shows the form, and the table that the script fills."""
    topic, expression = page.text("topic"), page.text("filter").strip()
    is_sql = page.text("by") == "sql"
    option = "--filter" if is_sql else "--tag"
    words = ["tail", topic or "TOPIC", *((option, expression) if expression else ())]
    names = await topic_names(page)
    events = page.url("/tail/events", topic=topic, filter=expression, by="sql" if is_sql else "tag")
    return page.render(
        "tail.html", topic=topic, filter=expression, is_sql=is_sql, names=names,
        events=events if topic else "", command=page.console.command(*words),
    )  # fmt: skip


async def events(page: Visit) -> Response:
    """Streams messages as events until the browser leaves."""
    query = TailQuery(
        page.text("topic"), last_count=LAST, expression=page.text("filter").strip() or "*",
        sql=page.text("by") == "sql", is_lasting=False,
    )  # fmt: skip
    return StreamingResponse(_events(page, query), media_type="text/event-stream")


async def _events(page: Visit, query: TailQuery) -> AsyncIterator[str]:
    yield "retry: 3000\n\n"
    try:
        # This shows stored messages first, so that a quiet topic is not an empty page.
        stored = page.client.tail_pages(query)
        async with aclosing(stored) as pages:
            async for messages in pages:
                yield _event("messages", _rows(page, messages))
    except ClientError as error:
        yield _event("failed", texts.plain(f"{error.message}; {error.next_step}".strip("; ")))


def _event(name: str, content: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


def _rows(page: Visit, messages: list[StoredMessage]) -> dict[str, Any]:
    """Returns rows of plain text, which the script does not parse as HTML."""
    shown = messages[-EVENT_MAX:]
    rows = [
        {
            "url": page.url("/message", topic=one.topic, queue=one.queue_id, at=one.queue_offset),
            "cells": [
                texts.moment(one.store_timestamp_ms), str(one.queue_id), str(one.queue_offset),
                texts.plain(" ".join(one.keys))[:80], texts.plain(one.tag or "")[:60],
                texts.preview_text(one.body),
            ],
        }
        for one in shown
    ]  # fmt: skip
    return {"rows": rows, "skipped": len(messages) - len(shown)}


ROUTES: Final = [Route("/tail", tail), Route("/tail/events", events)]
