"""How far a real broker's timer came: the first number of RocketMQ's `config/timercheck`.

Source: TimerCheckpoint.
"""

from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.names import CONFIG_DIRECTORY

TIMER_CHECK_FILE: Final = "timercheck"
_NUMBER_BYTES: Final = 8


def timer_read_ms(disk: Disk, directory: Path) -> int:
    """Return up to which time everything left the timer, in ms; 0 where no timer ever ran."""
    path = directory / CONFIG_DIRECTORY / TIMER_CHECK_FILE
    content = disk.read_file(path, 0, _NUMBER_BYTES) if disk.exists(path) else b""
    if len(content) < _NUMBER_BYTES:
        return 0
    return max(int.from_bytes(content[:_NUMBER_BYTES], signed=True), 0)
