"""Fixtures of the store's tests."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pocketmq.store.recovery.components import StoreComponents
from tests.golden_stores import GoldenStores
from tests.kit.store_golden import golden_parts
from tests.kit.store_language import TalkingStore, store_at

Parts = Callable[[str], StoreComponents]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TalkingStore]:
    """An empty store of small files."""
    async with store_at(tmp_path / "s") as made:
        yield made


@pytest.fixture(scope="session")
def real(golden: GoldenStores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """Golden stores as they are opened without being told any size, once each, to be read."""
    opened: dict[str, StoreComponents] = {}
    with ExitStack() as stack:

        def parts(name: str) -> StoreComponents:
            if name not in opened:
                scratch = tmp_path_factory.mktemp("real")
                opened[name] = stack.enter_context(golden_parts(golden, name, scratch))
            return opened[name]

        yield parts
