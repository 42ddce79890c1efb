"""Repair of a directory: its plan, and its run once the directory's name was typed."""

from functools import partial
from typing import Final

from starlette.responses import Response

from pocketmq.console.pages.store import (
    FINDINGS_MAX,
    begin,
    browser_of,
    directory_of,
    now_ms,
    store_command,
)
from pocketmq.console.web import Route, Visit
from pocketmq.tools.repair.actions import RepairPlan, summary
from pocketmq.tools.repair.planning import BLOCKED, blocked_step, plan_repair
from pocketmq.tools.repair.repair import repair_store
from pocketmq.tools.store_access import check_access
from pocketmq.tools.store_browser import StoreBrowser


async def repair(page: Visit) -> Response:
    """Shows the plan of a repair, and runs it once the directory's name was typed."""
    browser = browser_of(page)
    name, command = browser.directory.resolve().name, store_command(page, "repair", "--yes")
    is_sure = page.text("confirm") == name
    read = directory_of(page).read
    if not is_sure:
        plan = await read(partial(_planned, browser))
        lines, blocked = summary(plan.document)[:FINDINGS_MAX], ""
        if plan.blocked:
            command = store_command(page, "repair", "--accept-loss")
            blocked = f"{BLOCKED}. Next: {blocked_step(plan, browser.directory)}"
        return page.render(
            "plan.html", title=f"Repair {name}", lines=lines, confirm=name, blocked=blocked,
            target="/store/repair", fields={}, verb="Repair", command=command, back=page.url("/"),
        )  # fmt: skip
    done = await read(partial(_repaired, browser))
    browser.forget()
    page.visitor.memory.pop("check", None)
    page.note("\n".join(done[:FINDINGS_MAX]), command)
    return await begin(page)


def _planned(browser: StoreBrowser) -> RepairPlan:
    return plan_repair(browser.disk, browser.directory, browser.sizes, now_ms=now_ms())


def _repaired(browser: StoreBrowser) -> list[str]:
    """Repairs under the store's lock, as `pocketmq store repair --yes` does."""
    check_access(browser.disk, browser.directory, read_only=False)
    done = repair_store(browser.disk, browser.directory, browser.sizes, now_ms=now_ms())
    where = f"The damaged bytes are in {done['quarantine']}" if "quarantine" in done else ""
    return [str(done["state"]), *summary(done), where]


ROUTES: Final = [Route("/store/repair", repair, is_action=True)]
