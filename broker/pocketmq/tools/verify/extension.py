"""Verifies the consume-queue extension: units of queues against its entries.

Source: ConsumeQueueExt (the layout: format/consume_unit.py).
"""

from pathlib import Path
from typing import Final

from pocketmq.format.consume_unit import EXTENSION_HEAD, extension_position
from pocketmq.format.names import offset_from_file_name
from pocketmq.tools.verify.collector import Collector

END_MARK: Final = -1
"""Size that marks the rest of the file as unused."""


class ExtensionVerification:
    """The extension of all queues of a store."""

    __slots__ = ("_collector", "_directory", "_files", "_queues", "_used")

    def __init__(self, directory: Path, queues: Path, collector: Collector) -> None:
        self._directory = directory
        self._queues = queues
        self._collector = collector
        self._files: dict[Path, list[tuple[int, bytes]]] = {}
        self._used: set[tuple[Path, int]] = set()

    def holds(self, queue_file: Path, address: int, tags_code: int) -> bool:
        """Returns whether the entry at an address is sound, has this tags code and is unused."""
        queue = queue_file.parent.relative_to(self._queues)
        position = extension_position(address)
        assert position >= 0
        for base, content in self._contents(self._directory / queue):
            if base <= position < base + len(content) - EXTENSION_HEAD.size:
                size, found, _, bitmap_size = EXTENSION_HEAD.unpack_from(content, position - base)
                is_new = (queue, position) not in self._used
                self._used.add((queue, position))
                return bool(
                    size == EXTENSION_HEAD.size + bitmap_size and found == tags_code and is_new
                )
        return False

    def _contents(self, directory: Path) -> list[tuple[int, bytes]]:
        if directory not in self._files:
            paths = sorted(directory.iterdir()) if directory.is_dir() else []
            bases = [(path, offset_from_file_name(path.name)) for path in paths]
            self._files[directory] = [
                (base, path.read_bytes()) for path, base in bases if base is not None
            ]
        return self._files[directory]

    def look(self) -> None:
        """Walks every file: sizes lead from unit to unit until nothing or the end mark follows."""
        for path in sorted(self._directory.rglob("*")):
            if path.is_file() and offset_from_file_name(path.name) is not None:
                self._walk(path)

    def _walk(self, path: Path) -> None:
        content, position = path.read_bytes(), 0
        while position + EXTENSION_HEAD.size <= len(content):
            size, _, _, bitmap_size = EXTENSION_HEAD.unpack_from(content, position)
            if size in (0, END_MARK):
                break
            if size != EXTENSION_HEAD.size + bitmap_size or size < EXTENSION_HEAD.size:
                self._collector.add(
                    "extension_unit", path, position, expected="a unit of the extension",
                    found=f"size {size} with a bitmap of {bitmap_size}",
                )  # fmt: skip
                return
            position += size
        rest = content[position + 2 :] if position + 2 <= len(content) else b""
        if rest.strip(b"\0"):
            self._collector.add(
                "extension_unit", path, position, expected="nothing", found="bytes behind the end"
            )
