"""Parses times that visitors type: -15m, now, 2026-11-21T02:30:00Z, ms since 1970."""

import re
from datetime import UTC, datetime
from typing import Final

UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"([-+]?)(\d{1,10})(ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d{9,16}", re.ASCII)


def span_from_text(text: str) -> int:
    """Parses a duration such as 30s to milliseconds.

    Errors   ValueError
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None or found[1]:
        raise ValueError(f"{text!r} is no duration: write 500ms, 30s, 5m, 2h or 1d")
    return int(found[2]) * UNITS[found[3]]


def moment_from_text(text: str, now_ms: int) -> int:
    """Parses a time to milliseconds since 1970; a time without a zone is UTC.

    Errors   ValueError
    """
    given = text.strip()
    if given == "now":
        return now_ms
    found = _SPAN.fullmatch(given)
    if found:
        length = int(found[2]) * UNITS[found[3]]
        return now_ms + length if found[1] == "+" else max(now_ms - length, 0)
    if _NUMBER.fullmatch(given):
        return int(given)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        forms = "now, -15m, 2026-11-21T02:30:00Z, 1795228200000"
        raise ValueError(f"{text!r} is no time: write one of {forms}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def delivery_from_text(text: str, now_ms: int) -> dict[str, int]:
    """Parses a delay such as 30s, or a time to come, to the field of a message.

    Errors   ValueError
    """
    try:
        return {"delay_ms": span_from_text(text)}
    except ValueError:
        pass
    try:
        deliver_at_ms = moment_from_text(text, now_ms)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a delay nor a time: write 30s, 5m, 2h or 2026-11-21T02:30:00Z"
        ) from None
    if deliver_at_ms <= now_ms:
        raise ValueError(f"{text!r} is in the past: write a delay such as 30s, or a later time")
    return {"deliver_at_ms": deliver_at_ms}
