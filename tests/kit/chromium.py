"""A headless Chromium that opens pages of the console, and reports what they do wrong.

async with chromium() as browser, watched(browser, "http://127.0.0.1:5557") as page:
    await page.goto("/topics")
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright
from starlette.types import ASGIApp

from pocketmq.console.server import _Server, address_of, listen, settings_of

CHROMIUM: Final = shutil.which("chromium")
REPORT: Final = (
    "addEventListener('securitypolicyviolation', event => "
    "console.error('CSP', event.violatedDirective, event.blockedURI))"
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Runs a Chromium until the block ends."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def watched(browser: Browser, address: str, **options: Any) -> AsyncIterator[Page]:
    """Opens a tab of a new visitor; asserts in the end that no page reported a fault.

    A fault is an error or a warning of the script, a dialog, or a violation of the policy.
    """
    faults: list[str] = []

    def tell(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    context = await browser.new_context(base_url=address, **options)
    page = await context.new_page()
    await page.add_init_script(REPORT)
    page.on("console", tell)
    page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
    page.on("pageerror", lambda error: faults.append(str(error)))
    try:
        yield page
    finally:
        await context.close()
    assert faults == []


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Serves an application in this process; yields its address."""
    listener, begun = listen("127.0.0.1", 0), asyncio.Event()
    server = _Server(settings_of(app), begun.set, ends_idle=False)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await begun.wait()
    try:
        yield f"http://{address_of(listener)}"
    finally:
        server.should_exit = True
        await serving
