"""The table in health.py, row by row."""

import pytest

from broker.metrics.health import Health


@pytest.mark.parametrize(
    ("state", "is_alive", "is_ready"),
    [
        ("starting", True, False),
        ("recovering", True, False),
        ("running", True, True),
        ("read_only", True, True),
        ("draining", True, False),
        ("failed", False, False),
    ],
)
def test_a_state_decides_what_probes_are_told(state: str, is_alive: bool, is_ready: bool) -> None:
    health = Health(lambda: state)
    assert health.state == state
    assert health.is_alive is is_alive
    assert health.is_ready is is_ready


def test_recovery_tells_how_far_it_is() -> None:
    health = Health(lambda: "recovering", read_progress=lambda: 0.12345)
    assert health.report() == {"state": "recovering", "progress": 0.123}
    assert Health(lambda: "running", read_progress=lambda: 1.0).report() == {"state": "running"}
