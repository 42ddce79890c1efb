"""Delayed: when messages are due, and the recall of one."""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from pocketmq.console import plots, texts
from pocketmq.console.listing import cut, forget
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import DelayedMessage

WIDTH: Final = 720
HEIGHT: Final = 110
DUE: Final = (
    ("late", 0), ("10 s", 10_000), ("1 min", 60_000), ("10 min", 600_000), ("1 h", 3_600_000),
    ("6 h", 21_600_000), ("1 d", 86_400_000), ("7 d", 604_800_000), ("30 d", 2_592_000_000),
    ("later", 10**18),
)  # fmt: skip
"""Columns of the histogram, by the largest time until delivery in ms."""


async def delayed(page: Visit) -> Response:
    """Shows one page of the broker's delayed messages, as a histogram and as rows."""
    topic = page.text("topic").strip()
    found = await page.client.admin.list_delayed(topic, page_token=page.text("more"))
    rows = sorted(found.items, key=lambda one: (one.deliver_at_ms, one.message_id))
    bars = plots.histogram(due(rows, page.now_ms), WIDTH, HEIGHT, 6)
    words = ["delay", "ls", *(("--topic", topic) if topic else ())]
    return page.render(
        "delayed.html", shown=cut(rows, page), topic=topic, bars=bars, width=WIDTH, height=HEIGHT,
        more=found.next_page_token, at=page.text("more"), command=page.console.command(*words),
    )  # fmt: skip


def due(rows: Sequence[DelayedMessage], now_ms: int) -> list[tuple[str, float]]:
    """Returns the number of messages by the time until their delivery."""
    counts = [0] * len(DUE)
    for one in rows:
        left_ms = one.deliver_at_ms - now_ms
        counts[next(at for at, (_, limit) in enumerate(DUE) if left_ms <= limit)] += 1
    return [(name, float(count)) for (name, _), count in zip(DUE, counts, strict=True)]


async def recall(page: Visit) -> Response:
    """Recalls a message."""
    topic, handle = page.text("topic"), page.text("handle")
    message_id = await page.client.recall(topic, handle)
    forget(page)
    command = page.console.command("delay", "recall", handle)
    page.note(f"Message {texts.plain(message_id)} is recalled and will not be delivered.", command)
    return page.redirect("/delayed", topic=page.text("only"))


ROUTES: Final = [Route("/delayed", delayed), Route("/delayed/recall", recall, is_action=True)]
