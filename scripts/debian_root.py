"""A bare Debian of this machine's own release, from its own mirror, kept as a tar under .cache/.

Where the mirror and the index of Python's packages are is this machine's to say: the settings of
apt and pip are read off it, and none is written down in this repository.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

ROOT: Final = Path(__file__).resolve().parents[1]
CACHE: Final = ROOT / ".cache"

GIVEN: Final = "/etc/pip.given"
"""Below this a root sees the files that the settings of pip name, certificates mostly."""

ANSWER_S: Final = 10
"""How long the mirror may take to answer before it counts as out of reach."""

PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy")

UNDER_APT: Final = ("var/cache/apt/archives", "var/lib/apt/lists")
"""What a new machine has to fetch anew."""


class Unavailable(Exception):
    """This machine has not got what a root is made of; the text says what."""


class Release(NamedTuple):
    """A release of Debian or Ubuntu, and where this machine gets it from."""

    suite: str
    mirror: str
    components: tuple[str, ...]


class PipSettings(NamedTuple):
    """A pip.conf that says what pip is told here, and where in there it wants what is here."""

    text: str
    paths: Mapping[Path, str]


def own_release() -> Release:
    """Returns the release that this machine runs.

    Errors   Unavailable – no apt, or no source for its own release
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
    """Reads a release off apt's index targets, lines of suite, mirror and component."""
    rows = [line.split() for line in targets.splitlines() if line.count(" ") == 2]
    own = [(mirror, component) for name, mirror, component in rows if name == suite]
    if not own:
        raise Unavailable(f"apt has no source for {suite or 'the release of this machine'}")
    place = own[0][0]
    components = dict.fromkeys(component for other, component in own if other == place)
    return Release(suite, _address(place), tuple(components))


def _address(place: str) -> str:
    """Follows apt's `mirror+file:`, a file with the address of a mirror on each line."""
    if place.startswith("mirror+file:"):
        return Path(place.removeprefix("mirror+file:").rstrip("/")).read_text().split()[0]
    return place


def proxies() -> dict[str, str]:
    """Returns the proxy settings of the environment, and apt's own where that has none."""
    found = {name: os.environ[name] for name in PROXIES if name in os.environ}
    if "http_proxy" not in found and shutil.which("apt-config"):
        shell = _output("apt-config", "shell", "proxy", "Acquire::http::Proxy")
        if address := "".join(shlex.split(shell)).removeprefix("proxy="):
            found["http_proxy"] = address
    return found


def pip_settings() -> PipSettings:
    """Returns what pip is told on this machine by its files and by the environment."""
    listed = _output(sys.executable, "-m", "pip", "config", "list")
    return pip_settings_of(listed, os.environ)


def pip_settings_of(listed: str, environment: Mapping[str, str]) -> PipSettings:
    """Makes a pip.conf of what `pip config list` printed; the environment may name certificates."""
    sections: dict[str, dict[str, str]] = {"global": {}}
    for section, name, value in re.findall(r"^([^.\n]+)\.([\w-]+)=(.*)$", listed, re.M):
        # What the environment says comes first in the list and wins over the files.
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
    """Tells whether pip gets a project's file here; it is left in the place."""
    patience = ("--timeout", str(ANSWER_S), "--retries", "1")
    wanted = ("--quiet", "--no-deps", "--no-cache-dir", *patience, "--dest", str(place), project)
    pip = (sys.executable, "-m", "pip", "download")
    return subprocess.run([*pip, *wanted], capture_output=True, check=False).returncode == 0


def is_in_reach(release: Release) -> bool:
    """Tells whether the mirror answers."""
    listing = f"{release.mirror.rstrip('/')}/dists/{release.suite}/Release"
    try:
        urlopen(listing, timeout=ANSWER_S).close()
    except (OSError, ValueError):
        return False
    return True


def debian_root(packages: Iterable[str]) -> Path:
    """Returns a tar of a bare Debian with these packages, making it the first time.

    Cost     a minute the first time; the tar has some 250 MB
    Errors   Unavailable – no source, or the mirror does not answer
    """
    release = own_release()
    made = CACHE / f"{'-'.join([release.suite, *packages])}.tar"
    if made.exists():
        return made
    if not is_in_reach(release):
        raise Unavailable("the network is missing: the mirror of Debian's packages does not answer")
    CACHE.mkdir(exist_ok=True)
    # Not in /tmp, which may not allow device files.
    with tempfile.TemporaryDirectory(prefix="root-", dir=CACHE) as scratch:
        root = Path(scratch) / "root"
        _fill(root, release, packages)
        draft = Path(scratch) / made.name
        _run("tar", "-C", str(root), "--numeric-owner", "-cf", str(draft), ".")
        draft.rename(made)
    return made


def _fill(root: Path, release: Release, packages: Iterable[str]) -> None:
    wanted = [f"--include={','.join(packages)}", f"--components={','.join(release.components)}"]
    # In mounts of its own, so that none is left behind when it is interrupted.
    _run(
        *("unshare", "--mount", "debootstrap", "--variant=minbase", *wanted),
        *(release.suite, str(root), release.mirror),
    )
    for place in UNDER_APT:
        shutil.rmtree(root / place)
        (root / place / "partial").mkdir(parents=True)


def unpack(tar: Path, root: Path) -> None:
    """Lays a tar's files out in a directory that is made for it."""
    root.mkdir(parents=True)
    _run("tar", "-C", str(root), "--numeric-owner", "-xpf", str(tar))


def _run(*command: str) -> None:
    """Runs a command to its end, quietly; what it said is shown only when it fails."""
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
