"""A property CRC that is switched on and off again: what was written without one is sound."""

from pathlib import Path

import pytest

from broker.cli.store.access import sizes_of
from broker.files.disk import Disk
from broker.tools.verify.verification import VerifyOptions, verify
from tests.fakes.store_language import store_at


@pytest.mark.parametrize("switched", [(False, True), (True, False), (True, False, True)])
async def test_nothing_is_found(tmp_path: Path, switched: tuple[bool, ...]) -> None:
    for number, is_on in enumerate(switched):
        async with store_at(tmp_path / "s", property_crc=is_on) as store:
            await store.send("orders", *(f"{number}-{message}" for message in range(3)), key="k")
            now_ms = store.clock.wall_ms()
    sizes = sizes_of(Disk(), tmp_path / "s", [], with_index=True)
    found = verify(Disk(), tmp_path / "s", sizes, VerifyOptions(now_ms=now_ms))
    assert (found.counts, found.records) == ({}, 3 * len(switched))
