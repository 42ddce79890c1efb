"""axe-core, which finds accessibility faults of a page; npm fetches it once, into .cache."""

import asyncio
import shutil
import tarfile
from pathlib import Path
from subprocess import DEVNULL, CalledProcessError, TimeoutExpired, run
from typing import Any, Final

from playwright.async_api import Page

CACHE: Final = Path(__file__).parents[2] / ".cache" / "axe"
PACKAGE: Final = "axe-core@4.14.1"
MEMBER: Final = "package/axe.min.js"
FETCH_S: Final = 120
GRAVE: Final = ("serious", "critical")


def axe_missing() -> str:
    """Returns why axe-core cannot run, "" if it can; fetches it if necessary."""
    if axe_file().exists():
        return ""
    if shutil.which("npm") is None:
        return "npm is missing"
    CACHE.mkdir(parents=True, exist_ok=True)
    command = ["npm", "pack", PACKAGE, "--pack-destination", str(CACHE), "--silent"]
    try:
        made = run(
            command, check=True, capture_output=True, stdin=DEVNULL, text=True, timeout=FETCH_S
        )
    except (CalledProcessError, TimeoutExpired):
        return "npm cannot fetch axe-core"
    with tarfile.open(CACHE / made.stdout.strip().splitlines()[-1]) as archive:
        found = archive.extractfile(MEMBER)
        assert found is not None, "the package has no script"
        scratch = axe_file().with_suffix(".part")
        scratch.write_bytes(found.read())
    scratch.rename(axe_file())
    return ""


def axe_file() -> Path:
    """Returns the path of the script."""
    return CACHE / f"{PACKAGE}.js"


async def grave_faults(page: Page, *rules: str) -> list[str]:
    """Returns the serious and critical faults of a page: rule, and the elements at fault.

    rules   rules to check; without any, all are checked
    """
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(await asyncio.to_thread(axe_file().read_text, "utf-8"))
    chosen = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    given = {"resultTypes": ["violations"], **chosen}
    result: dict[str, Any] = await page.evaluate("given => axe.run(given)", given)
    return [
        f"{rule['id']}: {node['html'][:160]}"
        for rule in result["violations"]
        for node in rule["nodes"]
        if rule["impact"] in GRAVE
    ]
