"""Store: a summary of a directory, a map of its log, and its verification."""

import asyncio
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from pocketmq.console import texts
from pocketmq.console.directory import DirectoryClient
from pocketmq.console.listing import cut
from pocketmq.console.log_squares import (
    CELL,
    NONE,
    OTHER,
    ROW,
    LegendRow,
    Square,
    colours_of,
    legend_of,
    square_at,
)
from pocketmq.console.web import Route, Visit
from pocketmq.model.errors import BrokerError
from pocketmq.tools.inspect import describe
from pocketmq.tools.listing import FileRow, list_files
from pocketmq.tools.log_map import LogMap, log_map
from pocketmq.tools.store_browser import StoreBrowser
from pocketmq.tools.verify.verdict import is_without_log, next_step, verdict
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify

CELLS: Final = 480
FINDINGS_MAX: Final = 200
LOG: Final = "commitlog"


@dataclass
class StoreCheck:
    """A verification, running or ended.

    read, total   bytes of the log that were read, and all of them
    """

    total: int
    begun_s: float
    read: int = 0
    log_map: LogMap | None = None
    found: Verification | None = None
    failure: str = ""
    waiting: Any = field(default=None, repr=False)

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return bool(self.failure) or self.found is not None

    @property
    def percent(self) -> int:
        """The progress; each byte is read twice."""
        assert self.read >= 0, "less than nothing was read"
        return min(int(50 * self.read / max(self.total, 1)), 99)


def directory_of(page: Visit) -> DirectoryClient:
    """Returns the client that reads the directory."""
    client: Any = page.client
    assert isinstance(client, DirectoryClient), "the console shows a broker"
    return client


def browser_of(page: Visit) -> StoreBrowser:
    """Returns the reader of the directory."""
    return directory_of(page).browser


async def store(page: Visit) -> Response:
    """Shows a summary of the directory, its files, and the last verification."""
    browser = browser_of(page)
    read = directory_of(page).read
    about = await read(partial(describe, browser.disk, browser.directory, browser.sizes))
    files = await read(partial(_log_files, browser))
    return page.render(
        "store.html", about=about, files=cut(files, page), size=sum(one.size for one in files),
        allocated=sum(one.allocated for one in files), **_check_values(page),
    )  # fmt: skip


def _log_files(browser: StoreBrowser) -> list[FileRow]:
    return list(list_files(browser.disk, browser.directory, browser.sizes, LOG))


async def progress(page: Visit) -> Response:
    """Shows the part with the verification."""
    return page.render("store_check.html", **_check_values(page))


def now_ms() -> int:
    """Returns the wall time."""
    return time.time_ns() // 1_000_000


def store_command(page: Visit, *words: str) -> str:
    """Returns the command line of `pocketmq store` for the directory."""
    return texts.command("pocketmq", "store", words[0], page.console.directory, *words[1:])


def _check_values(page: Visit) -> dict[str, Any]:
    running: StoreCheck | None = page.visitor.memory.get("check")
    check = (
        replace(running) if running else None
    )  # The verification continues while the page is rendered.
    squares: list[Square] = []
    keys: list[LegendRow] = []
    if check is not None and check.log_map is not None and check.is_done:
        squares, keys = squares_of(check.log_map)
    found = check.found if check else None
    is_unsound = found is not None and not found.is_sound
    return {
        "check": check, "squares": squares, "keys": keys, "cell": CELL, "row": ROW,
        "found": found, "findings": found.findings[:FINDINGS_MAX] if found else [],
        "sentence": (tone_of(found), f"{verdict(found)}.") if found else ("", ""),
        "step": next_step(found, browser_of(page).directory) if found and is_unsound else "",
        "command": store_command(page, "verify"), "repair": store_command(page, "repair"),
    }  # fmt: skip


async def begin(page: Visit) -> Response:
    """Begins a verification, unless one is running."""
    check: StoreCheck | None = page.visitor.memory.get("check")
    if check is None or check.is_done:
        browser = browser_of(page)
        total = sum(one.size for one in await asyncio.to_thread(browser.files))
        check = StoreCheck(total, time.monotonic())
        page.visitor.memory["check"] = check
        loop = asyncio.get_running_loop()
        check.waiting = loop.run_in_executor(None, _run, browser, check)
    return page.redirect("/")


def _run(browser: StoreBrowser, check: StoreCheck) -> None:
    def advance(count: int) -> None:
        check.read += count

    options = VerifyOptions(now_ms=now_ms())
    try:
        size = browser.sizes.commit_log_file_size_bytes
        check.log_map = log_map(browser.directory, size, CELLS, advance)
        check.found = verify(browser.disk, browser.directory, browser.sizes, options, advance)
    except (BrokerError, OSError, ValueError) as error:
        check.failure = str(error)


def squares_of(log: LogMap) -> tuple[list[Square], list[LegendRow]]:
    """Returns the squares of a map, and its legend."""
    colours = colours_of(log.topics)
    squares = []
    for number, cell in enumerate(log.cells):
        hurt = [one for one in log.holes if one.begin < cell.end and cell.begin < one.end]
        colour = colours.get(cell.topic, OTHER if cell.topic else NONE)
        text = f"byte {cell.begin:,}: {cell.records:,} records, {texts.plain(cell.topic)}"
        if cell.first_ms:
            text += f", from {texts.moment(cell.first_ms)}"
        if hurt:
            colour, text = "t-bad", f"{text}; {hurt[0].reason}"
        squares.append(square_at(number, colour, text))
    return squares, legend_of(log.topics)


def tone_of(found: Verification) -> str:
    """Returns the tone of a result."""
    if found.is_sound:
        return "good"
    return "bad" if found.lost_count or found.holes or is_without_log(found) else "warn"


ROUTES: Final = [
    Route("/", store),
    Route("/store/progress", progress),
    Route("/store/verify", begin, is_action=True),
]
