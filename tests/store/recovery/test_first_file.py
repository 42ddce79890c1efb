"""Damage in the oldest log file: a broker whose log another one has reads it at each start."""

from pathlib import Path

import pytest

from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from tests.kit.store_language import store_at


@pytest.mark.parametrize(("leader", "is_noticed"), [("10.0.0.1:8081", True), ("", False)])
@pytest.mark.parametrize("is_truncated", [False, True])
async def test_it_is_noticed_though_all_views_are_durable(
    tmp_path: Path, leader: str, is_noticed: bool, is_truncated: bool
) -> None:
    async with store_at(tmp_path, index_entry_count_max=8) as told:
        for number in range(60):
            await told.send("orders", "x" * 300, key=f"k{number}")
        await told.settled()
    path = tmp_path / COMMIT_LOG_DIRECTORY / f"{0:020}"
    content = bytearray(path.read_bytes())
    at = content.index(b"x" * 300) + 150
    content[at:] = bytes(len(content) - at) if is_truncated else b"y" + content[at + 1 :]
    path.write_bytes(content)
    async with store_at(tmp_path, index_entry_count_max=8, leader=leader) as told:
        assert (told.store.damage is not None) is is_noticed
