"""A server of S3's protocol for batteries: versitygw, whose objects are files of a directory.

    go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

with s3_bucket(place) as bucket:
    open_objects(Disk(), bucket.target("lake"))
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

from harness.budget import TARGETS
from harness.process import Failed, need

HOW: Final = "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEY, SECRET, REGION, BUCKET = "key", "secret", "us-east-1", "bucket"
START_S: Final = 30.0
POLL_S: Final = 0.05


class Bucket(NamedTuple):
    """An empty bucket of a running server, whose address is HOST:PORT."""

    address: str

    def target(self, place: str) -> str:
        """Returns the URL of a place in the bucket, with credentials."""
        options = f"endpoint_override={self.address}&scheme=http&region={REGION}"
        return f"s3://{KEY}:{SECRET}@{BUCKET}/{place}?{options}"

    @property
    def of_iceberg(self) -> dict[str, str]:
        """The same for pyiceberg, whose locations are s3://bucket/PLACE."""
        return {
            "s3.endpoint": f"http://{self.address}", "s3.region": REGION,
            "s3.access-key-id": KEY, "s3.secret-access-key": SECRET,
        }  # fmt: skip


class Shelf(NamedTuple):
    """A directory, for archives that are in no object store."""

    directory: Path

    def target(self, place: str) -> str:
        """Returns the path of a place in the directory."""
        return str(self.directory / place)

    @property
    def of_iceberg(self) -> dict[str, str]:
        """Options of pyiceberg: none."""
        return {}


@contextmanager
def archive_place(place: Path, kind: str) -> Iterator[Bucket | Shelf]:
    """Yields where a battery archives to: a directory, or the bucket of a server.

    kind     one of budget.TARGETS
    Errors   those of `s3_bucket`
    """
    if kind == TARGETS[0]:
        yield Shelf(place)
        return
    with s3_bucket(place) as bucket:
        yield bucket


@contextmanager
def s3_bucket(place: Path) -> Iterator[Bucket]:
    """Runs a server whose objects are in a directory; the block begins when it answers.

    Errors   NotHere: versitygw is missing; Failed: it ended, or did not answer in START_S
    """
    need("versitygw", HOW)
    root = place / "s3"
    (root / BUCKET).mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["versitygw", "--access", KEY, "--secret", SECRET, "--region", REGION, "--quiet"]
    with (place / "s3.log").open("w") as said:
        process = subprocess.Popen(
            [*command, "--port", address, "posix", root], stdout=said, stderr=said
        )
        try:
            _await_answer(process, address)
            yield Bucket(address)
        finally:
            process.kill()
            process.wait()


def _await_answer(process: subprocess.Popen[bytes], address: str) -> None:
    host, _, port = address.partition(":")
    late = monotonic() + START_S
    while process.poll() is None and monotonic() < late:
        with suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        sleep(POLL_S)
    raise Failed(f"versitygw does not answer at {address}")
