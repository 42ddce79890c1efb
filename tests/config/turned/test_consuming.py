"""How much a group may have in hand, as an operator says."""

from pathlib import Path

import pytest

from pocketmq.app.backing import consume_settings
from pocketmq.config.load import load
from tests.kit.consuming import bodies, consuming
from tests.kit.store_language import STORE_HOST


@pytest.mark.knob("limits.in_flight_max")
async def test_a_group_has_so_many_messages_in_hand(tmp_path: Path) -> None:
    config = load(assignments=["limits.in_flight_max=2"])
    settings = consume_settings(config, STORE_HOST)
    async with consuming(tmp_path / "s", in_flight_max=settings.in_flight_max) as desk:
        await desk.send("a", "b", "c")
        assert bodies(await desk.receive()) == ["a", "b"]
