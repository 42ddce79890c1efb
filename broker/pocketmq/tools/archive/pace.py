"""Plans when the rounds begin in which a store is shipped to an archive."""

from typing import Final

FADING: Final = 0.9
"""Factor by which the expected duration of a round falls after each faster round."""
MARGIN: Final = 1.25
"""Ratio of the time that is planned for a round to its expected duration."""
ROOM_PART: Final = 0.5
"""Least time that is planned for a round, as a part of `every_s`, so that a single slow round still
ends in time."""
PAUSE_PART: Final = 0.05
"""Shortest pause, as a part of `every_s`."""


class Pace:
    """Begins rounds early enough to archive a change within `every_s`, unless rounds are slower.

    A round reads the end of the log first. A change right after that is archived only by the next
    round. So the time from the begin of a round to the end of the next should be `every_s`.
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
