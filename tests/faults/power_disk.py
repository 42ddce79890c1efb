"""Small file systems in images on loop devices, whose power a test can cut.

with PowerDisk(image, root, "ext4", "data=ordered,commit=5", size_bytes) as disk:
    disk.cut()                 nothing reaches the image from now on; what is not synced is lost
    disk.unmount()
    disk.mount()

Requires root and loop devices.
"""

import contextlib
import fcntl
import os
import struct
from pathlib import Path
from typing import Final, Self

from harness.process import Failed, ended

SHUTDOWN: Final = 0x8004587D
WITHOUT_JOURNAL: Final = struct.pack("I", 2)


def make_file_system(kind: str, image: Path, size_bytes: int) -> None:
    """Makes an empty file system in a sparse file, or on a device if `size_bytes` is 0.

    Errors   Failed, OSError
    """
    if size_bytes:
        with image.open("wb") as file:
            file.truncate(size_bytes)
    force = {"ext4": "-F", "xfs": "-f"}[kind]
    ended([f"mkfs.{kind}", "-q", force, str(image)])


class PowerDisk:
    """A file system in an image, mounted at `root` within the block."""

    def __init__(self, image: Path, root: Path, kind: str, options: str, size_bytes: int) -> None:
        self.root = root
        self._kind, self._options = kind, options
        self._image = image
        self._is_mounted = False
        make_file_system(kind, image, size_bytes)

    def mount(self) -> None:
        """Mounts the file system."""
        options = f"loop,{self._options}"
        ended(["mount", "-t", self._kind, "-o", options, str(self._image), str(self.root)])
        self._is_mounted = True

    def cut(self) -> None:
        """Cuts the power: nothing reaches the image from now on."""
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, WITHOUT_JOURNAL)
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Unmounts the file system and detaches its loop device, if not yet done."""
        # Not read from /proc/self/mounts: during another mount a read of it may lack a line.
        if self._is_mounted:
            ended(["umount", str(self.root)])
            self._is_mounted = False

    def __enter__(self) -> Self:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, Failed):
            self.unmount()
            return
        ended(["umount", "-l", str(self.root)])
