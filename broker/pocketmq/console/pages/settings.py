"""Settings of the broker, each with the origin of its value."""

from typing import Final

from starlette.responses import Response

from pocketmq.console.web import Route, Visit

DEFAULT: Final = "default"


async def settings(page: Visit) -> Response:
    """Lists settings, filtered by a part of the key or value, or to those that were set."""
    rows = await page.client.admin.effective_config()
    wanted, is_set = page.text("q").strip().lower(), page.text("only") == "set"
    found = [
        one
        for one in rows
        if wanted in f"{one.key} {one.value}".lower()
        and not (is_set and one.origin.startswith(DEFAULT))
    ]
    template = "settings_rows.html" if "hx-request" in page.request.headers else "settings.html"
    return page.render(
        template, rows=found, total=len(rows), q=page.text("q"), is_set=is_set, default=DEFAULT
    )


ROUTES: Final = [Route("/settings", settings)]
