"""The image of the Dockerfile, built by buildah on a bare Debian, and containers that run it.

buildah builds with the isolation that needs least, chroot; its own `run` has no read-only root and
no network of its own, so containers are enclosures that follow the image's settings.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any, Final, Self

from debian_root import (
    KEPT,
    ROOT,
    PipSettings,
    Unavailable,
    can_fetch,
    debian_root,
    pip_settings,
)
from enclosure import Enclosure, first_process
from tests.e2e.daemon import Done, Served, ended

BASE: Final = "localhost/debian"
BUILDER: Final = "localhost/debian-with-a-compiler"
IMAGE: Final = "localhost/pocketmq"
PACKAGES: Final = ("python3", "python3-venv")
"""What the Dockerfile asks of the image it makes its own of."""
COMPILER: Final = ("gcc", "libc6-dev", "python3-dev")
"""What it asks besides of the image it builds on."""
BASES: Final = {BASE: (), BUILDER: COMPILER}
VOLUME: Final = "/var/lib/pocketmq"
BUILD_S: Final = 1_500


class Image:
    """An image that was built, its files mounted at `root`."""

    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self.root = root
        self.settings = settings

    @property
    def command(self) -> list[str]:
        """Entry point and default arguments: what a container runs if it is given no words."""
        return [*self.settings["Entrypoint"], *self.settings["Cmd"]]

    def enclosure(self, volumes: Mapping[Path, str], **environment: str) -> Enclosure:
        """Returns where a container runs: as the image says, its root read-only, no way out."""
        variables = dict(word.split("=", 1) for word in self.settings["Env"])
        return Enclosure(
            self.root,
            environment={**variables, "HOME": "/home/rocketmq", **environment},
            shared=volumes,
            user=self.settings["User"],
            directory=self.settings["WorkingDir"],
            read_only=True,
            own_network=True,
        )

    def run(self, volume: Path, *words: str, **environment: str) -> Done:
        """Runs a program to its end in a container of its own."""
        return ended(self.enclosure({volume: VOLUME}, **environment).command(*words))

    def docker_run(self, volume: Path, *words: str, **environment: str) -> Done:
        """Runs `docker run IMAGE words` to its end: the entry point, and words instead of CMD."""
        given = words or tuple(self.settings["Cmd"])
        return self.run(volume, *self.settings["Entrypoint"], *given, **environment)


@contextmanager
def built_image(place: Path) -> Iterator[Image]:
    """Builds the image.

    Bases, layers and compiled objects are kept for the next run, of any checkout: as docker does,
    it builds from the first step on whose input has changed. One run has them at a time.
    Errors   Unavailable – nothing to build on, or no way to Python's packages
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "images.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        buildah = _Buildah(place, KEPT / "images")
        buildah("rm", "--all")
        for name, further in BASES.items():
            buildah.make_base(name, debian_root(PACKAGES, further))
        try:
            _build(buildah, place)
            settings = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
            container = buildah("from", "--pull-never", IMAGE)
            yield Image(Path(buildah("mount", container)), settings)
        finally:
            buildah("rm", "--all")


def _build(buildah: "_Buildah", place: Path) -> None:
    try:
        buildah.build(pip_settings())
    except AssertionError:
        if not can_fetch("hatchling", place):
            raise Unavailable(
                "the network is missing: pip cannot fetch what the image is made of"
            ) from None
        raise


class Container(Served):
    """The image's entry point, serving inside a `with` on ports that no one else sees.

    words    instead of the image's default arguments
    secret   of the user admin, who asks; "": the caller has no name
    at       where the volume is in there
    """

    def __init__(
        self,
        image: Image,
        volume: Path,
        *words: str,
        secret: str = "",
        at: str = VOLUME,
        shared: Mapping[Path, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(volume.with_name(f"{volume.name}.log"))
        self._secret = secret
        self._image = image
        self._command = [*image.settings["Entrypoint"], *(words or image.settings["Cmd"])]
        self._enclosure = image.enclosure({volume: at, **(shared or {})}, **(environment or {}))

    def __enter__(self) -> Self:
        self.start(self._enclosure.command(*self._command))
        self.serve()
        return self

    @property
    def pid(self) -> int:
        """The broker's process, as it is seen out here; 1 is what the broker sees."""
        return first_process(self._process.pid)

    def __exit__(self, *_: object) -> None:
        self.end()  # which kills all that runs inside

    def stop(self) -> int:
        """Stops it as `docker stop` does, and returns the exit code."""
        os.kill(self.pid, signal.Signals[self._image.settings["StopSignal"]])
        return self.wait()

    def health(self) -> int:
        """Returns the exit code of the image's own health command."""
        return self.run(*health_command(self._image)).code

    def run(self, *words: str) -> Done:
        """Runs a program inside, as `docker exec` does."""
        return ended(self._enclosure.beside(self.pid, *words))

    def status_of(self, path: str) -> int:
        """Returns the HTTP status of a page of the container's port of pages."""
        network = ["nsenter", f"--net=/proc/{self.pid}/ns/net"]
        code = (
            "import sys, urllib.request as r; "
            "opener = r.build_opener(r.ProxyHandler({})); "
            "print(opener.open(f'http://127.0.0.1:5557{sys.argv[1]}').status)"
        )
        return int(ended([*network, sys.executable, "-c", code, path]).out)

    def ask(self, *arguments: str) -> Done:
        """Runs a command of this checkout against the broker, from outside over the network."""
        network = ["nsenter", f"--net=/proc/{self.pid}/ns/net"]
        keys = ["POCKETMQ_ACCESS_KEY=admin", f"POCKETMQ_SECRET_KEY={self._secret}"]
        signed = keys if self._secret else []
        endpoint = ["env", "POCKETMQ_ENDPOINT=127.0.0.1:8081", *signed]
        command = [sys.executable, "-m", "pocketmq", *arguments]
        return ended([*network, *endpoint, *command], cwd=ROOT)


def health_command(image: Image) -> Sequence[str]:
    """Returns the words of the image's health command."""
    words: list[str] = image.settings["Healthcheck"]["Test"]
    assert words[0] == "CMD"
    return words[1:]


class _Buildah:
    """buildah, with a scratch directory and a storage that later runs have again."""

    def __init__(self, place: Path, kept: Path) -> None:
        self._place = place
        self._kept = kept
        self._options = self._with_driver("overlay")
        # A root that is an overlay itself takes no other on top.
        if subprocess.run([*self._options, "info"], capture_output=True, check=False).returncode:
            self._options = self._with_driver("vfs")

    def _with_driver(self, driver: str) -> list[str]:
        storage, run = self._kept / f"{driver}-storage", self._place / f"{driver}-run"
        places = [f"--root={storage}", f"--runroot={run}"]
        return ["buildah", *places, f"--storage-driver={driver}"]

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self._options, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_S,
        )
        assert done.returncode == 0, f"buildah {words[0]}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def has(self, name: str) -> bool:
        """Returns whether there is an image of a name."""
        inspect = [*self._options, "inspect", "--type", "image", name]
        return subprocess.run(inspect, capture_output=True, check=False).returncode == 0

    def make_base(self, name: str, files: Path) -> None:
        """Makes an image of a tar unless it exists; its tag is the age of the tar."""
        tagged = f"{name}:{int(files.stat().st_mtime)}"
        if not self.has(tagged):
            empty = self("from", "scratch")
            self("add", "--quiet", empty, str(files), "/")
            self("commit", "--quiet", "--rm", empty, tagged)
        self("tag", tagged, name)

    def build(self, pip: PipSettings) -> None:
        """Builds the Dockerfile on the base; how to reach the package index goes in by mounts.

        Images that it has neither made nor used, which are those of other sources, are removed.
        """
        conf = self._place / "pip.conf"
        conf.write_text(pip.text)
        mounts = [f"--volume={here}:{there}:ro" for here, there in pip.paths.items()]
        objects = KEPT / "objects"
        objects.mkdir(exist_ok=True)
        mounts.append(f"--volume={objects}:/src/.cache/objects")
        printed = self(
            *("bud", "--layers", "--isolation=chroot", "--format=docker", "--pull-never"),
            *(
                f"--build-arg={word}"
                for word in (f"BASE={BASE}", f"BUILDER={BUILDER}", "OPTIMIZE=0")
            ),
            *(f"--volume={conf}:/etc/pip.conf:ro", *mounts),
            *(f"--tag={IMAGE}", str(ROOT)),
        )
        self._forget_unused(re.findall(r"^--> ([0-9a-f]{8,})", printed, re.M))

    def _forget_unused(self, used: Sequence[str]) -> None:
        """Removes the layers of earlier builds; `used` has the first digits of those to keep."""
        assert used, "a build prints the layers that it makes or uses"
        listed = self("images", "--all", "--no-trunc", "--noheading", "--format={{.ID}} {{.Name}}")
        for image, name in map(str.split, listed.splitlines()):
            if name == "<none>" and not image.removeprefix("sha256:").startswith(tuple(used)):
                words = [*self._options, "rmi", "--force", image]
                # A layer is removed with the last one upon it, which may come later in the list.
                subprocess.run(words, capture_output=True, check=False)
