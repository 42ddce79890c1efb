"""The commit comes from the package's file, from git's files in a checkout, or is unknown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.native.commit import UNKNOWN, checked_out, commit, recorded

ROOT = Path(__file__).resolve().parents[2]
DIGITS = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


def written(root: Path, **files: str) -> Path:
    """Writes files below a root; __ in a name is a folder's end."""
    for name, text in files.items():
        path = root.joinpath(*name.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    "files",
    [
        {".git__HEAD": f"{DIGITS}\n"},
        {".git__HEAD": "ref: refs/heads/main\n", ".git__refs__heads__main": f"{DIGITS}\n"},
        {
            ".git__HEAD": "ref: refs/heads/a/b\n",
            ".git__packed-refs": f"# pack-refs\n{OTHER} refs/heads/a/b2\n{DIGITS} refs/heads/a/b\n",
        },
        {
            ".git": "gitdir: ../main/.git/worktrees/w\n",
            "..__main__.git__worktrees__w__HEAD": "ref: refs/heads/w\n",
            "..__main__.git__worktrees__w__commondir": "../..\n",
            "..__main__.git__refs__heads__w": f"{DIGITS}\n",
        },
    ],
    ids=["detached", "branch", "packed", "worktree"],
)
def test_a_checkout_tells_its_commit(tmp_path: Path, files: dict[str, str]) -> None:
    assert checked_out(written(tmp_path / "w", **files)) == DIGITS


@pytest.mark.parametrize(
    "files",
    [
        {},
        {".git__HEAD": "ref: refs/heads/main\n"},
        {".git__HEAD": "ref: refs/heads/main\n", ".git__refs__heads__main": "no commit\n"},
        {".git__HEAD": DIGITS[:-1]},
        {".git": "gitdir: ../gone\n"},
    ],
    ids=["no git", "no commit yet", "unreadable branch", "short", "gone"],
)
def test_elsewhere_there_is_none(tmp_path: Path, files: dict[str, str]) -> None:
    assert checked_out(written(tmp_path / "w", **files)) == ""


def test_the_file_of_a_package_holds_a_commit_or_none(tmp_path: Path) -> None:
    written(tmp_path, good=f"{DIGITS}\n", bad="$Format:%H$")
    found = [recorded(tmp_path / name) for name in ("good", "bad", "absent")]
    assert found == [DIGITS, "", ""]


def test_this_checkout_agrees_with_git() -> None:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert commit() == (done.stdout.strip() or UNKNOWN)


def test_a_packages_own_file_wins_over_git_and_no_process_is_started(tmp_path: Path) -> None:
    """As in a wheel that is unpacked inside some other project's checkout."""
    package = tmp_path / "broker" / "pocketmq"
    written(tmp_path, **{".git__HEAD": OTHER, "broker__pocketmq__native__COMMIT": DIGITS})
    for name in ("__init__.py", "commit.py"):
        source = ROOT / "broker" / "pocketmq" / "native" / name
        (package / "native" / name).write_text(source.read_text())
    (package / "__init__.py").write_text("")
    code = "import sys; from pocketmq.native.commit import commit; print(commit())\n"
    code += "assert 'subprocess' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(package.parent), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == DIGITS
