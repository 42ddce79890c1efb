"""Pages are made off the event loop."""

import threading
from typing import Any

from pocketmq.console.web import _RenderedPage


async def test_a_page_is_rendered_in_the_thread_of_pages() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a page reads nothing")

    page = _RenderedPage(lambda: f"<p>{threading.current_thread().name} ä", 404)
    page.set_cookie("a", "b")
    await page({"type": "http"}, receive, send)
    fields = dict(sent[0]["headers"])
    assert sent[0]["status"] == 404
    assert sent[1]["body"].decode() == "<p>page_0 ä"
    assert fields[b"content-length"] == b"12"
    assert fields[b"content-type"] == b"text/html; charset=utf-8"
    assert fields[b"set-cookie"].startswith(b"a=b")
