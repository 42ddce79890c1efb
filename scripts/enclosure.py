"""Runs a program in a separate root directory, with its own mounts and process ids.

The program is process 1 of its namespace. So a signal without a handler does not affect it, and no
process that it starts outlives it. Mounts vanish with the program. Requires root, and unshare,
nsenter, mount and chroot.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

DEVICES: Final = ("null", "zero", "full", "random", "urandom")
"""Devices of a read-only root; any other root has all of /dev."""

SIOCSIFFLAGS: Final = 0x8914  # Sets an interface's flags; 1 is "up" (linux/sockios.h, linux/if.h)
RAISE_LOOPBACK: Final = (
    "import fcntl, socket, struct; "
    f"fcntl.ioctl(socket.socket(), {SIOCSIFFLAGS}, struct.pack('16sh14x', b'lo', 1))"
)

MOUNT_BEFORE: Final = """\
root=$1 python=$2 raise_loopback=$3 read_only=$4 devices=$5 binds=$6; shift 6
[ -z "$raise_loopback" ] || "$python" -c "$raise_loopback"
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev"
mount -t proc proc "$root/proc"
if [ "$read_only" = yes ]; then
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for name in $devices; do
    : > "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
  done
else
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
fi
while [ "$binds" -gt 0 ]; do
  if [ -d "$2" ]; then mkdir -p "$root$3"; else mkdir -p "$root${3%/*}"; touch "$root$3"; fi
  mount --bind "$2" "$root$3"
  mount -o "remount,bind,$1" "$root$3"
  binds=$((binds - 1)); shift 3
done
[ "$read_only" = no ] || mount -o remount,bind,ro "$root"
cd "$root"
exec "$@"
"""
"""Shell script that mounts in the new namespaces, and then executes the program."""


@dataclass(frozen=True)
class Enclosure:
    """A root directory, and the settings of programs in it.

    shown    files of this machine that are readable in the root, with their paths there
    shared   files of this machine that are also writable, with their paths there
    user     ids as `1000:1000`
    """

    root: Path
    environment: Mapping[str, str]
    shown: Mapping[Path, str] = field(default_factory=dict)
    shared: Mapping[Path, str] = field(default_factory=dict)
    user: str = "0:0"
    directory: str = "/"
    read_only: bool = False
    own_network: bool = False

    def command(self, *words: str) -> list[str]:
        """Returns the command that runs `words` in the root, as its first process."""
        spaces = ["--mount", "--pid", *(["--net"] if self.own_network else [])]
        binds = [("ro", str(here), there) for here, there in self.shown.items()]
        binds += [("rw", str(here), there) for here, there in self.shared.items()]
        return [
            *("unshare", *spaces, "--fork", "--kill-child"),
            *("sh", "-euc", MOUNT_BEFORE, "sh", str(self.root), sys.executable),
            *(RAISE_LOOPBACK if self.own_network else "", "yes" if self.read_only else "no"),
            *(" ".join(DEVICES), str(len(binds)), *chain(*binds)),
            *("chroot", f"--userspec={self.user}", str(self.root), *self._inside(), *words),
        ]

    def beside(self, pid: int, *words: str) -> list[str]:
        """Returns the command that runs `words` beside the first process, with outer id `pid`."""
        user, group = self.user.split(":")
        spaces = ["--mount", "--pid", *(["--net"] if self.own_network else [])]
        return [
            *("nsenter", f"--target={pid}", *spaces, "--root"),
            *(f"--setuid={user}", f"--setgid={group}", *self._inside(), *words),
        ]

    def _inside(self) -> Iterable[str]:
        variables = (f"{name}={value}" for name, value in self.environment.items())
        return ("/usr/bin/env", "-i", f"--chdir={self.directory}", *variables)


def first_process(unshare: int) -> int:
    """Returns the outer id of the process that `command` runs; 0: it has ended."""
    children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    return int(children[0]) if children else 0


def lacking(*tools: str) -> str:
    """Returns a description of what this machine lacks for a root and the tools; empty: nothing."""
    if os.geteuid() != 0:
        return "root is missing: only root makes and enters roots of their own"
    for tool in ("unshare", "nsenter", *tools):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt-get install {tool}"
    spaces = ["unshare", "--mount", "--pid", "--net", "--fork", "mount", "-t", "proc", "proc"]
    tried = subprocess.run([*spaces, "/proc"], capture_output=True, text=True, check=False)
    return f"namespaces are missing: {tried.stderr.strip()}" if tried.returncode else ""
