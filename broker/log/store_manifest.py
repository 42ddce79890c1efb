"""`pocketmq/store.json`: the sizes this store was made with, and what it held when last closed.

A real RocketMQ keeps its sizes in its configuration; here they travel with the store. `closed`
lists queues and index files at the last orderly stop, so that a view somebody removed is noticed;
it holds only while the checkpoint is the one written at that stop.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.model.errors import StoreTooNew
from broker.model.store_shape import RECORDED, StoreShape

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


@dataclass(frozen=True, kw_only=True)
class StoreManifest(StoreShape):
    """The shape of a store, as far as it travels with it (RECORDED), and who wrote it.

    made_here tells a store this broker began from one it found. property_crc_from is the physical
    offset from which on every record ends with a property CRC, None where they are written without.
    """

    cluster: str
    broker: str
    format_version: int = FORMAT_VERSION
    made_here: bool = True
    property_crc_from: int | None = None
    closed: ClosedState | None = None

    @staticmethod
    def with_shape(shape: StoreShape, **fields: Any) -> "StoreManifest":
        """Return the manifest of a store of a shape."""
        return StoreManifest(**{name: getattr(shape, name) for name in RECORDED}, **fields)


_MEMBERS: Final = (
    *RECORDED[:6], "cluster", "broker", *RECORDED[6:],
    *("format_version", "made_here", "property_crc_from", "closed"),
)  # fmt: skip
"""Of the file, in order."""


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
        fields = asdict(manifest)
        document = {name: fields[name] for name in _MEMBERS}
        self._table.write(json.dumps(document, indent=2).encode())

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
