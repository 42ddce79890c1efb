"""`pocketmq/store.json`: the sizes this store was made with, and what it held when last closed.

A real RocketMQ keeps its sizes in its configuration; here they travel with the store. `closed`
lists queues and index files at the last orderly stop, so that a view somebody removed is noticed;
it holds only while the checkpoint is the one written at that stop.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.model.errors import StoreTooNew

MANIFEST_FILE: Final = "store.json"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True)
class ClosedState:
    """What the store held when it was closed in order.

    queues maps topic to queue id (as text) to [min offset, max offset].
    """

    log_end: int
    checkpoint: str
    queues: dict[str, dict[str, list[int]]]
    index_files: list[str]


@dataclass(frozen=True)
class StoreManifest:
    """Sizes in bytes or counts; style is the index style of the writer.

    made_here tells a store this broker began from one it found. property_crc_from is the physical
    offset from which on every record ends with a property CRC, None where they are written without.
    """

    commit_log_file_size_bytes: int
    consume_queue_file_size_bytes: int
    index_slot_count: int
    index_entry_count_max: int
    index_style: str
    time_zone: str
    cluster: str
    broker: str
    consume_queue_extension: bool = False
    consume_queue_extension_file_size_bytes: int = 48 * 1024 * 1024
    format_version: int = FORMAT_VERSION
    made_here: bool = True
    property_crc_from: int | None = None
    closed: ClosedState | None = field(default=None)


class ManifestFile:
    """Reads and replaces the manifest of a store."""

    __slots__ = ("_table",)

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._table = TableFile(disk, own_directory / MANIFEST_FILE)

    def read(self) -> StoreManifest | None:
        """Return the manifest, None in a store that never had one.

        Errors   StoreTooNew; ValueError when no version of the file can be read
        """
        return self._table.read(self._parse)

    def write(self, manifest: StoreManifest) -> None:
        """Replace the manifest durably; blocks."""
        self._table.write(json.dumps(asdict(manifest), indent=2).encode())

    def _parse(self, content: bytes) -> StoreManifest:
        fields = json.loads(content)
        if not isinstance(fields, dict):
            raise ValueError("the manifest is not a JSON object")
        found = int(fields.get("format_version", 0))
        if found > FORMAT_VERSION:
            raise StoreTooNew(path=str(self._table.path), found=found, known=FORMAT_VERSION)
        closed = fields.pop("closed", None)
        try:
            return StoreManifest(**fields, closed=ClosedState(**closed) if closed else None)
        except TypeError as error:
            raise ValueError(f"the manifest has other fields: {error}") from error
