"""Settings of access control."""

from dataclasses import dataclass
from typing import Final

from pocketmq.config.knob import knob, live_knob
from pocketmq.config.units import HOUR_MS

AUTO: Final = "auto"
ON: Final = "on"
OFF: Final = "off"


@dataclass(frozen=True, kw_only=True)
class AccessSection:
    """Access control; the store holds users and grants, see `pocketmq user`, `pocketmq acl`."""

    check: str = knob(
        AUTO,
        "Whether calls have to be signed by a user with permission: on, off, or auto, which is "
        "on where other machines can reach a port.",
        choices=(AUTO, ON, OFF),
    )  # fmt: skip
    date_window_ms: int = live_knob(
        15 * HOUR_MS, "How far the date of a signature may be from the broker's clock; 0: any "
        "date. Most clients write the time of their own zone, so that less than 14h shuts some "
        "out; where all run in UTC, 5m will do.",
    )  # fmt: skip
    admin_secret_path: str = knob(
        "", "File with a secret: a store without users begins with the user admin, who has it and "
        "may do everything.",
    )  # fmt: skip
