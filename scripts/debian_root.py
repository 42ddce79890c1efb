"""Builds a minimal Debian of this machine's release, from its mirror; keeps a tar of it.

The addresses of the mirror and of the Python package index are those of this machine's apt and pip
settings; the repository contains none.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

ROOT: Final = Path(__file__).resolve().parents[1]
CACHE: Final = ROOT / ".cache"
KEPT: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pocketmq"
"""Folder of the tar, shared by all checkouts: making a new one takes minutes."""
KEPT_S: Final = 30 * 86_400
"""Age at which a tar is made again: its packages have had updates by then."""

GIVEN: Final = "/etc/pip.given"
"""Directory in a root for the files that pip's settings name, mostly certificates."""

ANSWER_S: Final = 10
"""Time limit for the mirror's answer."""

PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy")

UNDER_APT: Final = ("var/cache/apt/archives", "var/lib/apt/lists")
"""Directories that are emptied in the root: a new machine fetches their files."""


class Unavailable(Exception):
    """This machine lacks something to build a root; the text names it."""


class Release(NamedTuple):
    """A release of Debian or Ubuntu, and this machine's mirror of it."""

    suite: str
    mirror: str
    components: tuple[str, ...]


class PipSettings(NamedTuple):
    """A pip.conf with this machine's settings, and the files that it names, by path in the root."""

    text: str
    paths: Mapping[Path, str]


def own_release() -> Release:
    """Returns this machine's release.

    Errors   Unavailable: no apt, or no source for the release
    """
    if shutil.which("apt-get") is None:
        raise Unavailable("apt-get is missing: a root is made from Debian's packages")
    known = dict(re.findall(r"^(\w+)=\"?([^\"\n]*)", Path("/etc/os-release").read_text(), re.M))
    targets = _output(
        *("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI) $(COMPONENT)"),
        "Created-By: Packages",
    )
    return release_of(targets, known.get("VERSION_CODENAME", ""))


def release_of(targets: str, suite: str) -> Release:
    """Parses a release from apt's index targets: lines of suite, mirror and component."""
    rows = [line.split() for line in targets.splitlines() if line.count(" ") == 2]
    own = [(mirror, component) for name, mirror, component in rows if name == suite]
    if not own:
        raise Unavailable(f"apt has no source for {suite or 'the release of this machine'}")
    place = own[0][0]
    components = dict.fromkeys(component for other, component in own if other == place)
    return Release(suite, _address(place), tuple(components))


def _address(place: str) -> str:
    """Resolves apt's `mirror+file:`, a file with a mirror's address on each line."""
    if place.startswith("mirror+file:"):
        return Path(place.removeprefix("mirror+file:").rstrip("/")).read_text().split()[0]
    return place


def proxies() -> dict[str, str]:
    """Returns the proxy settings of the environment, else those of apt."""
    found = {name: os.environ[name] for name in PROXIES if name in os.environ}
    if "http_proxy" not in found and shutil.which("apt-config"):
        shell = _output("apt-config", "shell", "proxy", "Acquire::http::Proxy")
        if address := "".join(shlex.split(shell)).removeprefix("proxy="):
            found["http_proxy"] = address
    return found


def pip_settings() -> PipSettings:
    """Returns this machine's settings of pip, from its files and the environment."""
    listed = _output(sys.executable, "-m", "pip", "config", "list")
    return pip_settings_of(listed, os.environ)


def pip_settings_of(listed: str, environment: Mapping[str, str]) -> PipSettings:
    """Builds a pip.conf from `pip config list`; the environment may name certificates."""
    sections: dict[str, dict[str, str]] = {"global": {}}
    for section, name, value in re.findall(r"^([^.\n]+)\.([\w-]+)=(.*)$", listed, re.M):
        # Settings of the environment are first in the list and override those of files.
        place = sections.setdefault("global" if section == ":env:" else section, {})
        place.setdefault(name, str(ast.literal_eval(value)))
    told = sections["global"]
    for variable in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        if variable in environment:
            told.setdefault("cert", environment[variable])
    paths: dict[Path, str] = {}
    lines = []
    for section, settings in sections.items():
        lines.append(f"[{section}]")
        for name, value in settings.items():
            here = [Path(word) for word in value.split() if word.startswith("/")]
            paths |= {path: f"{GIVEN}{path}" for path in here if path.exists()}
            words = [paths.get(Path(word), word) for word in value.split()]
            lines.append(f"{name} = " + "\n  ".join(words))
    return PipSettings("\n".join(lines) + "\n", paths)


def can_fetch(project: str, place: Path) -> bool:
    """Returns whether pip can download a project's file; the file is left in `place`."""
    patience = ("--timeout", str(ANSWER_S), "--retries", "1")
    wanted = ("--quiet", "--no-deps", "--no-cache-dir", *patience, "--dest", str(place), project)
    pip = (sys.executable, "-m", "pip", "download")
    return subprocess.run([*pip, *wanted], capture_output=True, check=False).returncode == 0


def is_in_reach(release: Release) -> bool:
    """Returns whether the mirror answers."""
    listing = f"{release.mirror.rstrip('/')}/dists/{release.suite}/Release"
    try:
        urlopen(listing, timeout=ANSWER_S).close()
    except (OSError, ValueError):
        return False
    return True


def debian_root(packages: Iterable[str], further: Iterable[str] = ()) -> Path:
    """Returns a tar of a minimal Debian with these packages; builds it the first time.

    further  packages that are added to a tar of the others: quicker than a new tar
    Cost     a minute the first time; the tar has about 250 MB
    Errors   Unavailable: no source, or the mirror does not answer
    """
    release = own_release()
    made = KEPT / f"{'-'.join([release.suite, *packages, *further])}.tar"
    if made.exists() and time.time() - made.stat().st_mtime < KEPT_S:
        return made
    if not is_in_reach(release):
        raise Unavailable("the network is missing: the mirror of Debian's packages does not answer")
    KEPT.mkdir(parents=True, exist_ok=True)
    # Not in /tmp, which may forbid device files.
    with tempfile.TemporaryDirectory(prefix="root-", dir=KEPT) as scratch:
        root = Path(scratch) / "root"
        if further:
            unpack(debian_root(packages), root)
            _add(root, further)
        else:
            _fill(root, release, packages)
        for place in UNDER_APT:
            shutil.rmtree(root / place)
            (root / place / "partial").mkdir(parents=True)
        draft = Path(scratch) / made.name
        _run("tar", "-C", str(root), "--numeric-owner", "-cf", str(draft), ".")
        draft.rename(made)
    return made


def _fill(root: Path, release: Release, packages: Iterable[str]) -> None:
    wanted = [f"--include={','.join(packages)}", f"--components={','.join(release.components)}"]
    # In a mount namespace, so that no mount is left after an interruption.
    _run(
        *("unshare", "--mount", "debootstrap", "--variant=minbase", *wanted),
        *(release.suite, str(root), release.mirror),
    )


def _add(root: Path, packages: Iterable[str]) -> None:
    # The root is lost with the machine: dpkg need not wait for the disk.
    options = ("-qq", "--no-install-recommends", "-o", "Dpkg::Options::=--force-unsafe-io")
    apt = ("chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get")
    _run(*apt, "update", "-qq")
    _run(*apt, "install", "-y", *options, *packages)


def unpack(tar: Path, root: Path) -> None:
    """Extracts a tar to a new directory."""
    root.mkdir(parents=True)
    _run("tar", "-C", str(root), "--numeric-owner", "-xpf", str(tar))


def _run(*command: str) -> None:
    """Runs a command to its end; its output is shown only if it fails."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | proxies(),
    )
    if done.returncode != 0:
        said = "\n".join(done.stdout.splitlines()[-20:])
        raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}:\n{said}")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
