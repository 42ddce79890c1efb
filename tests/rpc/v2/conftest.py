"""An official client of a broker."""

import pytest

from tests.kit.official import OfficialDesk
from tests.kit.store_broker import StoreBroker


@pytest.fixture
async def desk(broker: StoreBroker) -> OfficialDesk:
    """A client; group g is there."""
    await broker.store.tables.groups.ensure("g")
    return OfficialDesk(broker)
