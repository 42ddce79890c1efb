"""The commit that this package was made from.

A wheel or sdist contains it in the file COMMIT, which the build hook writes. In a checkout it is
read from `.git` without a git process.
"""

from functools import cache
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
PACKAGE: Final = Path(__file__).parents[1]
FILE: Final = Path("native", "COMMIT")
HEAD_OF_BRANCH: Final = "ref:"
LENGTHS: Final = (40, 64)
"""Hexadecimal digits of a SHA-1 or a SHA-256."""
SHORT: Final = 12


@cache
def commit() -> str:
    """Returns the commit of the running package in hexadecimal, `unknown` if it is not recorded."""
    return recorded(PACKAGE / FILE) or checked_out(PACKAGE.parents[1]) or UNKNOWN


def short_commit() -> str:
    """Returns the first digits of the commit, or `unknown`."""
    return commit()[:SHORT]


def recorded(path: Path) -> str:
    """Returns the commit in a file, "" if the file does not exist or contains no commit."""
    return _valid(_text(path))


def checked_out(root: Path) -> str:
    """Returns the commit that the git checkout at `root` is at, "" if `root` is no checkout."""
    git = root / ".git"
    if git.is_file():  # of a worktree or a submodule
        git = root / _text(git).removeprefix("gitdir:").strip()
    head = _text(git / "HEAD")
    if not head.startswith(HEAD_OF_BRANCH):
        return _valid(head)
    branch = head.removeprefix(HEAD_OF_BRANCH).strip()
    common = git / (_text(git / "commondir") or ".")  # where a worktree's branches are
    return _valid(_text(common / branch)) or _packed(_text(common / "packed-refs"), branch)


def _packed(references: str, branch: str) -> str:
    for line in references.splitlines():
        digits, _, name = line.partition(" ")
        if name == branch:
            return _valid(digits)
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


def _valid(text: str) -> str:
    is_commit = len(text) in LENGTHS and not text.strip("0123456789abcdef")
    return text if is_commit else ""
