"""A store that is checked after each damaged byte.

store = CheckedStore(golden, "propcrc", tmp_path / "s")
with store.changed(path, 17): assert store.kinds()
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.record_scan import RecordScan
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes

UNCHECKED = range(32, 36)
"""hash_slot_count in an index file's header: old versions counted it differently."""


class CheckedStore:
    """A copy of a golden store."""

    def __init__(
        self,
        golden: GoldenStores,
        name: str,
        directory: Path,
        *,
        log_files: int | None = None,
        with_wheel: bool = True,
    ) -> None:
        self.directory = golden.copy(name, directory)
        if not with_wheel:  # It takes most of the time.
            (self.directory / "timerwheel").unlink(missing_ok=True)
            shutil.rmtree(self.directory / "timerlog", ignore_errors=True)
        for path in (
            sorted((self.directory / "commitlog").iterdir())[log_files:] if log_files else ()
        ):
            path.unlink()
        self.sizes = golden_tool_sizes(golden, name)

    def verify(self, **options: Any) -> Verification:
        return verify(Disk(), self.directory, self.sizes, VerifyOptions(**options))

    def kinds(self, **options: Any) -> set[str]:
        return set(self.verify(**options).counts)

    @contextmanager
    def changed(self, path: Path, position: int, content: bytes | None = None) -> Iterator[None]:
        """Writes other bytes there for a while; one changed bit of the byte when none are given."""
        with path.open("r+b") as file:
            file.seek(position)
            before = file.read(len(content or b"x"))
            file.seek(position)
            file.write(content or bytes([before[0] ^ (1 << position % 8)]))
        try:
            yield
        finally:
            with path.open("r+b") as file:
                file.seek(position)
                file.write(before)

    def record_bytes(self, count: int, seed: int) -> list[tuple[Path, int, int]]:
        """Random bytes of random records: (file, position of the byte, of its record)."""
        records = []
        for path in sorted((self.directory / "commitlog").iterdir()):
            scan = RecordScan(path.read_bytes(), int(path.name))
            records += [(path, position, size) for position, size in scan]
        chance = random.Random(seed)
        found = [chance.choice(records) for _ in range(count)]
        return [(path, at + chance.randrange(size), at) for path, at, size in found]

    def view_bytes(self, count: int, seed: int) -> list[tuple[Path, int]]:
        """Random bytes of random files of consume queues and index."""
        chance = random.Random(seed)
        files = [
            path
            for name in ("consumequeue", "index")
            for path in sorted((self.directory / name).rglob("*"))
            if path.is_file()
        ]
        found: list[tuple[Path, int]] = []
        while len(found) < count:
            path = chance.choice(files)
            position = chance.randrange(path.stat().st_size)
            if path.parent.name != "index" or position not in UNCHECKED:
                found.append((path, position))
        return found
