"""The checkpoint: six integers at the start of a 4096-byte file.

   0   8  physic_msg_timestamp      store time of the last record known to be flushed
   8   8  logics_msg_timestamp      store time of the last record known to be in flushed queues
  16   8  index_msg_timestamp       end time of the last index file that was flushed when full
  24   8  master_flushed_offset     replication only
  32   8  confirm_physical_offset   start of the last valid record seen by recovery
  40   8  logics_physical_offset    start of the last record known to be in flushed queues

Older brokers wrote only the first three or five integers; the others are read as 0.
Source: StoreCheckpoint (5.5.0).
"""

from typing import Final, NamedTuple

from pocketmq.format.layout import Buffer, Layout

CHECKPOINT_FILE_SIZE: Final = 4096
CHECKPOINT: Final = Layout(
    ("physic_msg_timestamp", "q", "store time of the last record known to be flushed"),
    ("logics_msg_timestamp", "q", "store time of the last record known to be in flushed queues"),
    ("index_msg_timestamp", "q", "end time of the last index file that was flushed when full"),
    ("master_flushed_offset", "q", "replication only"),
    ("confirm_physical_offset", "q", "start of the last valid record seen by recovery"),
    ("logics_physical_offset", "q", "start of the last record known to be in flushed queues"),
)


class CheckpointValues(NamedTuple):
    """The six fields; times in ms since 1970, offsets in bytes of the log."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    logics_physical_offset: int = 0


def encode_checkpoint(values: CheckpointValues) -> bytes:
    """Returns the 48 bytes of a checkpoint."""
    return CHECKPOINT.struct.pack(*values)


def decode_checkpoint(buffer: Buffer) -> CheckpointValues:
    """Parses a checkpoint file, which may be shorter than 48 bytes."""
    padded = bytes(buffer[: CHECKPOINT.size]).ljust(CHECKPOINT.size, b"\0")
    return CheckpointValues(*CHECKPOINT.struct.unpack(padded))
