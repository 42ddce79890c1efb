"""Changes of settings over the network, by admins only."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.model.access import User
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.methods import ClassicAdmin
from pocketmq.rpc.classic.messaging import ClassicMethods
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.classic.service_table import TABLE
from pocketmq.rpc.classic.signing import signed_by_fields
from pocketmq.rpc.guard import Guard
from tests.kit import remoting_pair
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.users import SECRET
from tests.rpc.classic.test_signing import signed

RECORDED: Final = Path(remoting_pair.__file__).parent / "remoting" / "updateBrokerConfig.json"


async def test_the_recorded_request_of_mqadmin(broker: StoreBroker, client: RemotingPair) -> None:
    """Its setting has no meaning here; RocketMQ takes it."""
    row: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    asked = row["body"]
    refused = await client.ask(25, {}, asked.encode())
    assert refused.code == 3
    assert "'waitTimeMillsInSendQueue': one event loop serves all calls" in refused.remark
    name, _, _ = asked.partition("=")
    taken = await client.ask(25, {}, asked.replace(name, "transactionTimeOut").encode())
    assert (taken.code, taken.fields, taken.body) == (row["reply"]["code"], {}, b"")
    assert broker.live.config.transactions.timeout_ms == 5_001


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        (b"brokerPermission=9", 1, "brokerPermission"), (b"", 1, "no line"), (b"\xff", 1, "UTF-8"),
        (b"rpc.listen=0.0.0.0:1", 3, "settings file"), (b"x\n" * 65, 1, "64"),
    ],
)  # fmt: skip
async def test_bad_changes_are_refused(
    broker: StoreBroker, client: RemotingPair, body: bytes, code: int, told: str
) -> None:
    before = broker.live.config
    reply = await client.ask(25, {}, body)
    assert reply.code == code
    assert told in reply.remark
    assert broker.live.config is before


async def test_only_admins_change_settings(broker: StoreBroker) -> None:
    for user in (User("admin", SECRET, is_admin=True), User("app", SECRET)):
        broker.access.table.roster.add(user)
    broker.access.refresh()
    guard = Guard(broker.access, None, signed_by_fields)
    rules = TABLE.rules("DefaultCluster")
    client = RemotingPair(guard.guarded(broker.classic.service(), rules))
    body = b"brokerPermission=4"
    assert (await client.ask(25, {}, body)).code == 16
    assert (await client.ask(25, signed({}, body, user="app"), body)).code == 16
    assert broker.live.config.broker.permission == 6
    assert (await client.ask(25, signed({}, body, user="admin"), body)).code == 0
    assert broker.live.config.broker.permission == 4
    client.server.cut_off()


async def test_without_users_settings_cannot_be_changed(broker: StoreBroker) -> None:
    rules = ClassicRules(
        "broker-a", "DefaultCluster", "", "10.0.0.9:8081", permission=lambda: 6,
        auto_create_topics=lambda: True, queue_count=lambda: 2, auto_create_groups=lambda: True,
    )  # fmt: skip
    admin = ClassicAdmin(broker.backing, rules, Controls())
    client = RemotingPair(ClassicMethods(broker.backing, rules, admin).service())
    reply = await client.ask(25, {}, b"brokerPermission=4")
    assert reply.code == 3
    assert "sign as an admin, or start it with --insecure" in reply.remark
    client.server.cut_off()
