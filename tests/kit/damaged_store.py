"""A copy of a golden store that a test damages and repairs.

store = DamagedStore(golden, "propcrc", tmp_path / "s")
store.flip(store.places[7] + 90); report = store.repair()
assert store.kinds() == {}; assert store.lost() == [store.places[7]]
"""

import os
import random
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, offset_file_name
from pocketmq.format.record_scan import RecordScan
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.repair.repair import repair_store
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import dispatched, rebuilt_files
from tests.kit.tool_sizes import golden_tool_sizes
from tests.sim.quick_disk import QuickDisk

NOW_MS = 1_795_240_000_000
"""Some hours after the golden stores were written."""


class DamagedStore:
    """A store directory, and the records of its log before any damage."""

    def __init__(self, directory: Path, sizes: KnownShape) -> None:
        self.directory = directory
        self.sizes = sizes
        self.records: dict[int, bytes] = {}
        for path in sorted((directory / COMMIT_LOG_DIRECTORY).iterdir()):
            content, base = path.read_bytes(), int(path.name)
            for position, size in RecordScan(content, base):
                self.records[base + position] = content[position : position + size]
        self.places = list(self.records)
        self.touched: list[tuple[int, int]] = []

    @classmethod
    def of_golden(cls, golden: GoldenStores, name: str, to: Path) -> "DamagedStore":
        return cls(golden.copy(name, to), golden_tool_sizes(golden, name))

    @property
    def file_size(self) -> int:
        return self.sizes.commit_log_file_size_bytes

    @property
    def end(self) -> int:
        """The physical offset after the last record."""
        return self.places[-1] + len(self.records[self.places[-1]])

    def path(self, place: int) -> Path:
        base = place - place % self.file_size
        return self.directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)

    # -- damaging ------------------------------------------------------------------------------
    def write(self, place: int, content: bytes) -> None:
        """Writes other bytes at a physical offset, up to the end of its file at most."""
        content = content[: self.file_size - place % self.file_size]
        with self.path(place).open("r+b") as file:
            file.seek(place % self.file_size)
            file.write(content)
        self.touched.append((place, place + len(content)))

    def flip(self, place: int) -> None:
        """Changes one bit of the byte at a physical offset."""
        self.write(place, bytes([self.read(place, 1)[0] ^ (1 << place % 8)]))

    def file(self, number: int) -> Path:
        """A file of the log, by its number."""
        return sorted((self.directory / COMMIT_LOG_DIRECTORY).iterdir())[number]

    def remove(self, path: Path) -> None:
        """Removes a file of the log."""
        self.touched.append((int(path.name), int(path.name) + self.file_size))
        path.unlink()

    def cut(self, path: Path, size: int) -> None:
        """Cuts a file of the log to its first bytes."""
        self.touched.append((int(path.name) + size, int(path.name) + self.file_size))
        os.truncate(path, size)

    def damage(self, chance: random.Random) -> None:
        """Damages the log in one of the ways in which disks do."""
        place = chance.choice(self.places)
        size, anywhere = len(self.records[place]), chance.randrange(self.end - 512)
        ways = {
            "byte": (place + chance.randrange(size), chance.randbytes(1)),
            "page": (anywhere // 4096 * 4096, bytes(4096)),
            "sector": (anywhere, chance.randbytes(512)),
            "size": (place, chance.choice([bytes(4), chance.randbytes(4), (size + 8).to_bytes(4)])),
            "start": (anywhere // self.file_size * self.file_size, chance.randbytes(100)),
            "end": (
                max(anywhere // self.file_size * self.file_size, self.file_size) - 20,
                chance.randbytes(20),
            ),
        }
        self.write(*ways[chance.choice(sorted(ways))])

    # -- looking -------------------------------------------------------------------------------
    def read(self, place: int, size: int) -> bytes:
        with self.path(place).open("rb") as file:
            file.seek(place % self.file_size)
            return file.read(size)

    def lost(self) -> list[int]:
        """Records that are no longer at their physical offsets."""
        return [p for p, record in self.records.items() if self.read(p, len(record)) != record]

    def hit(self) -> list[int]:
        """Records that the test damaged."""
        return [
            place
            for place, record in self.records.items()
            if any(begin < place + len(record) and place < end for begin, end in self.touched)
        ]

    def kinds(self) -> dict[str, int]:
        """Returns the findings of a verification by kind."""
        options = VerifyOptions(now_ms=NOW_MS)
        return verify(QuickDisk(), self.directory, self.sizes, options).counts

    def views(self) -> dict[str, bytes]:
        return rebuilt_files(self.directory)

    def dispatched(self, scratch: Path) -> dict[str, bytes]:
        """The views as the broker would build them from the log as it is."""
        return dispatched(self.directory, self.sizes, self.file_size, scratch)

    # -- mending -------------------------------------------------------------------------------
    def repair(
        self, disk: Disk | None = None, now_ms: int = NOW_MS, *, accept_loss: bool = False
    ) -> dict[str, Any]:
        return repair_store(
            disk or QuickDisk(), self.directory, self.sizes, now_ms=now_ms, accept_loss=accept_loss
        )

    def quarantined(self) -> dict[str, bytes]:
        """The copies that the newest repair made, by name."""
        directory = sorted((self.directory / "pocketmq/quarantine").iterdir())[-1]
        return {
            path.name: path.read_bytes()
            for path in sorted(directory.iterdir())
            if not path.name.endswith(".json")
        }
