"""Settings of the broker, each with the origin of its value."""

from typing import Final

from starlette.responses import Response

from pocketmq.console.listing import list_page
from pocketmq.console.web import Route, Visit

DEFAULT: Final = "default"
SORTS: Final = {"key": lambda one: one.key, "origin": lambda one: (one.origin, one.key)}
ROWS_MAX: Final = 1_000
"""Rows of a page, which contains all settings."""


async def settings(page: Visit) -> Response:
    """Lists settings, filtered by a part of the key or value, or to those that were set."""
    rows = await page.client.admin.effective_config()
    is_set = page.text("only") == "set"
    return await list_page(
        page, "settings", [one for one in rows if not (is_set and one.origin.startswith(DEFAULT))],
        lambda one: f"{one.key} {one.value}", SORTS, count=ROWS_MAX, is_set=is_set, default=DEFAULT,
    )  # fmt: skip


ROUTES: Final = [Route("/settings", settings)]
