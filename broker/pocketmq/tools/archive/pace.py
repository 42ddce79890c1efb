"""Plans the rounds of a shipper."""

from typing import Final

FADING: Final = 0.9
"""Part of the duration of a slow round that the next plan still has."""
MARGIN: Final = 1.25
"""Rounds are planned to take this many times as long as the slow ones of late."""
ROOM_PART: Final = 0.2
"""Least time for a round, as a part of `every_s`: one may be slow without a warning."""
PAUSE_PART: Final = 0.05
"""Shortest pause, as a part of `every_s`."""


class Pace:
    """Begins rounds early enough to archive a change within `every_s`, unless rounds are slower.

    A round reads the end of the log first. So a change right after that is archived at the end of
    the next round, and what counts is the time from one begin to the next end.
    """

    __slots__ = ("_every_s", "_usual_s")

    def __init__(self, every_s: float) -> None:
        self._every_s, self._usual_s = every_s, 0.0

    def pause(self, begun_s: float, ended_s: float) -> float:
        """Returns the pause (s) after a round."""
        assert ended_s >= begun_s
        self._usual_s = max(ended_s - begun_s, self._usual_s * FADING)
        room_s = max(self._usual_s * MARGIN, self._every_s * ROOM_PART)
        next_s = begun_s + self._every_s - room_s
        return max(next_s - ended_s, self._every_s * PAUSE_PART)
