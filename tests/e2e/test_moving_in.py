"""The way in: producers go from a master of RocketMQ to PocketMQ, and no message is lost."""

from pathlib import Path

import pytest

from harness.budget import NotHere
from torture.moving_in import Move, jars_here


@pytest.mark.timeout(900)
def test_producers_move_from_a_killed_master_to_its_promoted_follower(tmp_path: Path) -> None:
    try:
        jars = jars_here()
    except NotHere as missing:
        pytest.skip(str(missing))
    move = Move(tmp_path / "move", jars)
    move.go()
    for name in ("v2", "classic"):
        assert move.figures[f"{name}: acknowledged"] > 0
