"""The image of the Dockerfile, built by buildah on a bare Debian, and containers that run it.

buildah builds with the isolation that needs least, chroot; its own `run` has no read-only root and
no network of its own, so containers are enclosures that follow the image's settings.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from debian_root import ROOT, PipSettings, Unavailable, can_fetch, debian_root, pip_settings
from enclosure import Enclosure, first_process
from tests.e2e.daemon import Done, Served, ended

BASE: Final = "localhost/debian"
BUILDER: Final = "localhost/debian-with-a-compiler"
IMAGE: Final = "localhost/pocketmq"
PACKAGES: Final = ("python3", "python3-venv")
"""What the Dockerfile asks of the image it makes its own of."""
COMPILER: Final = ("gcc", "libc6-dev", "python3-dev")
"""What it asks besides of the image it builds on."""
BUILD_S: Final = 400


class Image:
    """An image that was built, its files mounted at `root`."""

    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self.root = root
        self.settings = settings

    def enclosure(self, volume: Path) -> Enclosure:
        """Returns where a container runs: as the image says, its root read-only, no way out."""
        return Enclosure(
            self.root,
            environment=dict(word.split("=", 1) for word in self.settings["Env"]),
            shared={volume: next(iter(self.settings["Volumes"]))},
            user=self.settings["User"],
            directory=self.settings["WorkingDir"],
            read_only=True,
            own_network=True,
        )

    def run(self, volume: Path, *words: str) -> Done:
        """Runs a program to its end in a container of its own."""
        return ended(self.enclosure(volume).command(*words))


@contextmanager
def built_image(place: Path) -> Iterator[Image]:
    """Builds the image with all of buildah's storage below a place, and removes it in the end.

    Errors   Unavailable – nothing to build on, or no way to Python's packages
    """
    buildah = _Buildah(place)
    bases = {BASE: debian_root(PACKAGES), BUILDER: debian_root((*PACKAGES, *COMPILER))}
    if not can_fetch("hatchling", place):
        raise Unavailable("the network is missing: pip cannot fetch what the image is made of")
    for name, files in bases.items():
        empty = buildah("from", "scratch")
        buildah("add", "--quiet", empty, str(files), "/")
        buildah("commit", "--quiet", "--rm", empty, name)
    try:
        buildah.build(pip_settings())
        settings = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
        container = buildah("from", "--pull-never", IMAGE)
        yield Image(Path(buildah("mount", container)), settings)
    finally:
        buildah("rm", "--all")
        buildah("rmi", "--all", "--force")


class Container(Served):
    """The image's entry point, serving inside a `with` on ports that no one else sees.

    secret   of the user admin, who asks
    """

    def __init__(self, image: Image, volume: Path, secret: str) -> None:
        super().__init__(volume.with_name(f"{volume.name}.log"))
        self._secret = secret
        self._image = image
        self._enclosure = image.enclosure(volume)

    def __enter__(self) -> Self:
        self.start(self._enclosure.command(*self._image.settings["Entrypoint"]))
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

    def ask(self, *arguments: str) -> Done:
        """Runs a command of this checkout against the broker, from outside over the network."""
        network = ["nsenter", f"--net=/proc/{self.pid}/ns/net"]
        signed = ["POCKETMQ_ACCESS_KEY=admin", f"POCKETMQ_SECRET_KEY={self._secret}"]
        endpoint = ["env", "POCKETMQ_ENDPOINT=127.0.0.1:8081", *signed]
        command = [sys.executable, "-m", "pocketmq", *arguments]
        return ended([*network, *endpoint, *command], cwd=ROOT)


def health_command(image: Image) -> Sequence[str]:
    """Returns the words of the image's health command."""
    words: list[str] = image.settings["Healthcheck"]["Test"]
    assert words[0] == "CMD"
    return words[1:]


class _Buildah:
    """buildah, with storage of its own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._options = self._with_driver("overlay")
        # A root that is an overlay itself takes no other on top.
        if subprocess.run([*self._options, "info"], capture_output=True, check=False).returncode:
            self._options = self._with_driver("vfs")

    def _with_driver(self, driver: str) -> list[str]:
        storage, run = self._place / f"{driver}-storage", self._place / f"{driver}-run"
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

    def build(self, pip: PipSettings) -> None:
        """Builds the Dockerfile on the base; how to reach the package index goes in by mounts."""
        conf = self._place / "pip.conf"
        conf.write_text(pip.text)
        mounts = [f"--volume={here}:{there}:ro" for here, there in pip.paths.items()]
        self(
            *("bud", "--quiet", "--isolation=chroot", "--format=docker", "--pull-never"),
            *(f"--build-arg=BASE={BASE}", f"--build-arg=BUILDER={BUILDER}"),
            *(f"--volume={conf}:/etc/pip.conf:ro", *mounts),
            *(f"--tag={IMAGE}", str(ROOT)),
        )
