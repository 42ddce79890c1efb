"""Prints which tests did not run, and why, from pytest's JUnit report.

    python scripts/not_run.py REPORT

With CI=true the machine must have everything: a test that did not run is then a failure, unless
loop devices or Go are missing.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

MAY_BE_MISSING = re.compile(r"(loop devices?|go)\b", re.IGNORECASE)


def skips(report: str) -> Counter[str]:
    """Counts the skipped tests of a report by their reason, without the expected failures."""
    reasons: Counter[str] = Counter()
    for skipped in ElementTree.fromstring(report).iter("skipped"):
        if skipped.get("type") == "pytest.xfail":
            continue
        reason = skipped.get("message") or ""
        # If a module skips itself during collection, only the text contains the reason.
        whole = re.search(r"Skipped: (.*?)['\"]?\)?$", skipped.text or "", re.DOTALL)
        if reason == "collection skipped" and whole:
            reason = whole.group(1)
        reasons[reason] += 1
    return reasons


def table(reasons: Mapping[str, int]) -> str:
    """Returns the table of reasons, those of most tests first."""
    if not reasons:
        return "not run here: nothing, this machine has all the tests need"
    rows = sorted(reasons.items(), key=lambda row: (-row[1], row[0]))
    return "\n".join(["not run here:", *(f"{count:>5}  {reason}" for reason, count in rows)])


def is_failure(reasons: Mapping[str, int]) -> bool:
    """Returns whether a machine that should have everything lacks something."""
    return any(not MAY_BE_MISSING.match(reason) for reason in reasons)


def main() -> int:
    """Prints the table; returns 1 if a test that did not run is a failure."""
    reasons = skips(Path(sys.argv[1]).read_text("utf-8"))
    print(table(reasons))
    return int(os.environ.get("CI") == "true" and is_failure(reasons))


if __name__ == "__main__":
    sys.exit(main())
