"""Formats numbers, times, commands and unknown text for pages."""

import re
import shlex
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from markupsafe import Markup, escape

UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff]"
)
"""Characters without a visible form, or that change the direction of the text after them."""
BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
YEAR_MS: Final = 365 * DAY_MS
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last time with a year of four digits."""
NONE: Final = "–"
PREVIEW_MAX: Final = 120
"""Characters of a body in a table."""


def shown(text: object, limit: int = 0) -> Markup:
    """Returns unknown text for a page: unsafe characters by their numbers, direction isolated.

    limit   characters after which the text is cut; 0: none
    """
    given = "" if text is None else str(text)
    cut = limit > 0 and len(given) > limit
    parts, at = [], 0
    given = given[:limit] if cut else given
    for found in UNSAFE.finditer(given):
        number = Markup('<i class="ctl">{}</i>').format(f"U+{ord(found[0]):04X}")
        parts += [escape(given[at : found.start()]), number]
        at = found.end()
    parts.append(escape(given[at:]))
    if cut:
        parts.append(Markup("…"))
    return Markup("<bdi>") + Markup("").join(parts) + Markup("</bdi>")


def breakable(text: str) -> Markup:
    """Returns an unknown name that may be broken after each dot and underscore."""
    return Markup(re.sub("([._])", r"\1<wbr>", str(shown(text))))


def preview(content: bytes) -> Markup:
    """Returns the begin of a body in one line: its text, or hexadecimal."""
    return shown(_begin(content), PREVIEW_MAX)


def preview_text(content: bytes) -> str:
    """Returns the begin of a body in one line as plain text."""
    return plain(_begin(content)[:PREVIEW_MAX])


def _begin(content: bytes) -> str:
    begin = content[: 4 * PREVIEW_MAX]
    try:
        text = begin.decode()
    except UnicodeDecodeError as error:
        if error.start < len(begin) - 4 or len(content) == len(begin):
            return begin[: PREVIEW_MAX // 3].hex(" ")
        text = begin[: error.start].decode()
    return " ".join(text.split())


def plain(text: object) -> str:
    """Returns unknown text for a title or an option, which cannot contain elements."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", str(text))


def count(number: float | None) -> str:
    """Returns a number with separators between thousands."""
    if number is None:
        return NONE
    if number < 100 and number != int(number):
        return f"{number:,.1f}"
    return f"{round(number):,}"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless the number is 1."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def rate(number: float) -> str:
    """Returns a rate per second."""
    return f"{count(round(number, 1))}/s"


def size(number: float | None) -> str:
    """Returns bytes in a decimal unit, as the command line prints them."""
    if number is None:
        return NONE
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return (
        f"{value:.0f} {BYTE_UNITS[unit]}"
        if value >= 99.5 or not unit
        else (f"{value:.1f} {BYTE_UNITS[unit]}")
    )


def duration(milliseconds: float | None) -> str:
    """Returns a duration in its largest two units."""
    if milliseconds is None:
        return NONE
    left = max(int(milliseconds), 0)
    if left < SECOND_MS:
        return f"{left} ms"
    if left >= YEAR_MS:
        return f"{left // YEAR_MS} years"
    units = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
    for at, (length, name) in enumerate(units):
        if left >= length:
            whole, rest = divmod(left, length)
            text = f"{whole} {name}"
            if at + 1 < len(units) and whole < 10 and (more := rest // units[at + 1][0]):
                text += f" {more} {units[at + 1][1]}"
            return text
    raise AssertionError("a duration below a second has no unit")


def moment(time_ms: int | None) -> str:
    """Returns a time as UTC with seconds; 0 and None: a dash."""
    if not time_ms or not 0 < time_ms <= TIME_MS_MAX:
        return NONE
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def exact(time_ms: int | None) -> str:
    """Returns a time as RFC 3339 with milliseconds."""
    if not time_ms or not 0 < time_ms <= TIME_MS_MAX:
        return ""
    whole = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def ago(time_ms: int | None, now_ms: int) -> str:
    """Returns the age of a time, or the time until it."""
    if not time_ms:
        return NONE
    if time_ms > now_ms + SECOND_MS:
        return f"in {duration(time_ms - now_ms)}"
    age_ms = now_ms - time_ms
    return "now" if age_ms < SECOND_MS else f"{duration(age_ms)} ago"


def address(peer: str) -> str:
    """Returns the address in a peer's text as gRPC writes it, such as ipv4:10.0.0.7:4711."""
    return unquote(peer.removeprefix("ipv4:").removeprefix("ipv6:"))


def command(*words: object) -> str:
    """Returns a command line that a shell parses to these words; empty words are left out."""
    return " ".join(_quoted(str(word)) for word in words if word not in ("", None))


def _quoted(word: str) -> str:
    if UNSAFE.search(word) or "\n" in word or "\t" in word:
        body = "".join(
            f"\\x{byte:02x}" if byte < 32 or byte > 126 or byte in b"'\\" else chr(byte)
            for byte in word.encode("utf-8", "surrogatepass")
        )
        return f"$'{body}'"
    return shlex.quote(word)
