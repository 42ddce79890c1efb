"""Two daemons with a proxy between them: a partition, a slow follower, kills, a paused leader."""

from pathlib import Path

from tests.faults.replica_lives import ReplicaLives

EVENTS = (
    "stall to follower", "cut", "kill follower", "kill leader", "pause leader, promote",
    "kill leader, promote",
)  # fmt: skip


def test_two_brokers_lose_nothing_and_end_byte_equal(tmp_path: Path) -> None:
    with ReplicaLives(tmp_path, 1) as lives:
        for event in EVENTS:
            lives.live(event)
        lives.compare()
        assert lives.figures["acknowledged"] > 20
        assert lives.figures["promotions"] == 2
