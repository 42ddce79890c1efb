"""D1: the store loses power at any call of the disk, and keeps what it promised.

Lives of the real store on a simulated disk; at random calls crash states are taken (any subset of
what was not durable, see tests/sim/disk.py), each is started by the real recovery, with further
cuts on the way, and looked at by checkers that share no code with the store.
scripts/torture/run crash goes on for as long as it is told to.
"""

import pytest

from tests.sim.crash_lives import Budgeted, live_on
from tests.sim.crash_recovery import Tally, figures

STATES = 1_400
"""About 2.5 ms each; `scripts/torture/run crash` takes more."""
SEEDS = (1, 5)
CALLS = {
    "stat", "mkdir", "sync_directory", "lock", "names", "create", "truncate", "allocate", "write",
    "sync", "close", "rename", "unlink", "map", "populate", "read", "open", "seek", "rmdir",
}  # fmt: skip
"""Kinds of calls a life makes; a cut comes before each of them."""


pytestmark = pytest.mark.usefixtures("quiet")
"""A crash is no news here."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", range(len(SEEDS)))
def test_nothing_is_lost_and_no_view_lies(part: int) -> None:
    tally = Tally()
    live_on(tally, seed=SEEDS[part], budget=Budgeted(states=STATES // len(SEEDS)))
    print(figures(tally))
    assert not tally.violations, "\n".join(tally.violations[:5])
    assert tally.states >= STATES // len(SEEDS)
    assert tally.distinct >= tally.states // 3
    assert tally.nested >= tally.states // 10
    assert tally.calls.keys() >= CALLS
