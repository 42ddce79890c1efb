"""A headless Chromium that opens pages of the console, and reports what they do wrong.

async with chromium() as browser, watched(browser, "http://127.0.0.1:5557") as page:
    await page.goto("/topics")
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from pocketmq.console.asgi import Application
from pocketmq.console.http_server import HttpServer
from pocketmq.console.server import STOP_S, address_of, listen

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
async def listening(app: Application) -> AsyncIterator[str]:
    """Serves an application in this process; yields its address."""
    listener, server = listen("127.0.0.1", 0), HttpServer(app)
    await server.start(listener)
    try:
        yield f"http://{address_of(listener)}"
    finally:
        await server.stop(STOP_S)
