"""How many topics, queues and groups there may be, as an operator says."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pocketmq.client import AsyncClient, ClientError
from pocketmq.model.access import User
from pocketmq.model.administration import GroupSettings
from pocketmq.tools.users import changed_roster
from tests.kit.users import SECRET, grant_of
from tests.running_broker import broker_with

Make = Callable[[AsyncClient], Awaitable[object]]
MAKES: dict[str, Make] = {
    "topics_max": lambda client: client.admin.create_topic("one-more", queue_count=1),
    "queues_max": lambda client: client.admin.create_topic("wide", queue_count=1_000),
    "groups_max": lambda client: client.admin.create_group("one-more", GroupSettings()),
}


@pytest.mark.knob("limits.topics_max", "limits.queues_max", "limits.groups_max")
@pytest.mark.parametrize("name", MAKES)
async def test_no_more_are_made_than_may_be(tmp_path: Path, name: str) -> None:
    async with broker_with(tmp_path, f"limits.{name}=1") as broker:
        if name != "queues_max":
            await broker.client.admin.create_topic("first", queue_count=1)
            await broker.client.admin.create_group("first", GroupSettings())
        with pytest.raises(ClientError, match=f"limits.{name}") as caught:
            await MAKES[name](broker.client)
        assert caught.value.status == "RESOURCE_EXHAUSTED"
        assert caught.value.reason == "LimitReached"


@pytest.mark.knob("limits.user_creations_per_hour")
async def test_a_user_makes_so_many_an_hour(tmp_path: Path) -> None:
    with changed_roster(tmp_path) as roster:
        roster.add(User("admin", SECRET, is_admin=True))
        roster.add(User("app", SECRET))
        roster.grant(grant_of("app", "create", "topic:*"))
    settings = ("access.check=on", "limits.user_creations_per_hour=1")
    async with broker_with(tmp_path, *settings) as broker:
        address = broker.addresses["grpc"]
        async with AsyncClient(address, retry_ms=0, access_key="app", secret_key=SECRET) as client:
            await client.admin.create_topic("first", queue_count=1)
            with pytest.raises(ClientError, match="within an hour"):
                await client.admin.create_topic("second", queue_count=1)
