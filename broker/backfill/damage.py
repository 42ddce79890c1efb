"""Bytes of a file that are not what they must be."""

from dataclasses import dataclass
from typing import Final

from broker.model.errors import Corruption

DAMAGE: Final = "damage"
"""The column that tells of damage, where it is told by rows of their own."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a file is damaged.

    position          byte of the file
    physical_offset   of the log; in a view: the record its last sound row is about, 0 without one
    """

    path: str
    position: int
    physical_offset: int
    reason: str

    @property
    def error(self) -> Corruption:
        """What is raised for it."""
        return Corruption(
            path=self.path,
            file_position=self.position,
            physical_offset=self.physical_offset,
            why=self.reason,
        )
