"""Text of others as a terminal may have it: it is shown, and never obeyed.

Texts of clients, records and files may hold escape sequences (ESC, OSC, C1), and marks that turn
the order of letters around. All output of commands goes through this module.
"""

import re
from typing import Final

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff]"
)
"""Control characters but line feeds and tabs, marks of direction, unassigned code points."""
STANDS_IN: Final = "\N{REPLACEMENT CHARACTER}"


def safe(text: str) -> str:
    """Returns a text in which nothing but letters, line feeds and tabs is left.

    Cost     0.1 µs for 100 characters
    """
    return _UNSAFE.sub(STANDS_IN, text)


def escaped(text: str) -> str:
    r"""Returns a JSON or YAML text with such characters written as \u009b, as a string may have."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
