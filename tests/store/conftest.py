"""Fixtures of the store's tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from broker.store.starting.structures import Structures
from tests.fakes.store_golden import golden_parts
from tests.golden_stores import GoldenStores

Parts = Callable[[str], Structures]


@pytest.fixture(scope="session")
def real(golden: GoldenStores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """Golden stores as they are opened without being told any size, once each, to be read."""
    opened: dict[str, Structures] = {}
    with ExitStack() as stack:

        def parts(name: str) -> Structures:
            if name not in opened:
                scratch = tmp_path_factory.mktemp("real")
                opened[name] = stack.enter_context(golden_parts(golden, name, scratch))
            return opened[name]

        yield parts
