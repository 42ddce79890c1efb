"""What tests of the offline tools share: golden stores with the sizes they were written with."""

from pathlib import Path
from typing import Any

from broker.format.index_layout import STYLE_5_3, STYLE_5_5, IndexGeometry
from broker.format.record_scan import RecordScan
from broker.rebuild.log_files import KnownShape
from tests.fakes.tool_sizes import known_shape


def sizes_of(manifest: dict[str, Any]) -> KnownShape:
    """Return the sizes that a golden store's manifest tells."""
    params = manifest["params"]
    is_old = manifest["rocketmq"].startswith("V5_3")
    return known_shape(
        params["mappedFileSizeCommitLog"],
        params["mappedFileSizeConsumeQueue"],
        IndexGeometry(params["maxHashSlotNum"], params["maxIndexNum"]),
        STYLE_5_3 if is_old else STYLE_5_5,
    )


def record_positions(file: Path) -> list[tuple[int, int]]:
    """Return (position, size) of every record of a commit-log file."""
    return list(RecordScan(file.read_bytes(), int(file.name)))
