"""Signed requests of classic clients: whole requests, with the secret that users have already."""

import hmac
import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

import pytest

from pocketmq.model.access import Action, ResourceKind, resource_from_text
from pocketmq.rpc.classic.service_table import TABLE
from pocketmq.rpc.classic.signing import signed_by_fields
from pocketmq.rpc.creations import Creations
from pocketmq.rpc.guard import Guard
from pocketmq.services.access.access import Access
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.users import SECRET, access_of, grant_of
from tests.rpc.classic.test_replies import reply_fields
from tests.rpc.classic.test_send import short
from tests.rpc.classic.test_transactions import begun, checked

SEND: Final = short()


def signed(
    fields: Mapping[str, str], body: bytes = b"", user: str = "app", secret: str = SECRET
) -> dict[str, str]:
    """Returns the fields with access key and signature, as the client for Java makes them."""
    fields = {**fields, "AccessKey": user}
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    signature = b64encode(hmac.new(secret.encode(), content, "sha1").digest()).decode()
    return {**fields, "Signature": signature}


def guarded(broker: StoreBroker, access: Access) -> RemotingPair:
    tables = broker.store.tables
    exists = {ResourceKind.TOPIC: tables.topics.find, ResourceKind.GROUP: tables.groups.find}
    creations = Creations(exists, broker.clock.monotonic_ms, lambda: 1)
    guard = Guard(access, creations, signed_by_fields)
    service = guard.guarded(broker.classic.service(), TABLE.rules("DefaultCluster"))
    return RemotingPair(service)


@pytest.fixture
async def client(broker: StoreBroker) -> RemotingPair:
    return guarded(broker, access_of(grant_of("app", "pub", "topic:*")))


async def test_a_signed_send_is_stored(broker: StoreBroker, client: RemotingPair) -> None:
    assert (await client.ask(310, signed(SEND, b"x"), b"x")).code == 0
    assert (await client.ask(105, signed({"topic": "orders"}))).code == 0
    assert (await client.ask(105, signed({"topic": "TBW102"}))).code == 0
    assert len(await broker.messages()) == 1


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (SEND, b"x"),
        ({**SEND, "AccessKey": "app"}, b"x"),
        (signed(SEND, b"x", secret="wrong"), b"x"),
        (signed(SEND, b"x", user="nobody"), b"x"),
        (signed(SEND, b"x", user="off"), b"x"),
        (signed(SEND, b"x"), b"y"),
        ({**signed(SEND, b"x"), "b": "other"}, b"x"),
    ],
)
async def test_other_signatures_are_refused(
    broker: StoreBroker, client: RemotingPair, fields: dict[str, str], body: bytes
) -> None:
    reply = await client.ask(310, fields, body)
    assert (reply.code, bool(reply.remark)) == (16, True)
    assert broker.store.appended == 0


async def test_what_no_grant_permits_is_refused(broker: StoreBroker) -> None:
    client = guarded(broker, access_of(grant_of("app", "sub", "topic:orders")))
    assert (await client.ask(310, signed(SEND, b"x"), b"x")).code == 16
    assert (await client.ask(206, signed({}))).code == 16
    assert (await client.ask(206, signed({}, user="admin"))).code == 0
    assert (await client.ask(105, signed({"topic": "orders"}))).code == 0
    assert broker.store.appended == 0


async def test_topics_that_sends_create_count_for_their_user(
    broker: StoreBroker, client: RemotingPair
) -> None:
    first, second = short("one"), short("two")
    assert (await client.ask(310, signed(first, b"x"), b"x")).code == 0
    refused = await client.ask(310, signed(second, b"x"), b"x")
    assert (refused.code, "user_creations_per_hour" in refused.remark) == (2, True)


ASKER: Final = "127.0.0.1@3572#4895526049351"


@pytest.mark.parametrize("change", ["off", "secret", "removed"])
async def test_a_client_whose_user_is_gone_gets_no_replies_and_is_disconnected(
    broker: StoreBroker, change: str
) -> None:
    access = access_of(grant_of("app", "all", "topic:*"), grant_of("app", "all", "group:*"))
    asker, replier = guarded(broker, access), RemotingPair(broker.classic.service())
    beat = {"clientID": ASKER, "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    body = json.dumps(beat).encode()
    for _ in range(2):
        assert (await asker.ask(34, signed({}, body), body)).code == 0
    groups, roster = broker.sessions.classic.groups, access.table.roster
    assert groups.producer_connection(ASKER) is asker.server
    match change:
        case "off":
            roster.change("app", is_enabled=False)
        case "secret":
            roster.change("app", secret=SECRET[::-1])
        case _:
            roster.remove("app")
    access.refresh()
    reply = await replier.ask(325, reply_fields(), b"pong")
    assert "not found" in reply.remark
    assert not asker.asked
    assert asker.wire.is_closed
    assert not access._open


async def test_a_connection_that_ends_is_forgotten(broker: StoreBroker) -> None:
    access = access_of()
    client = guarded(broker, access)
    body = json.dumps({"clientID": ASKER, "producerDataSet": [], "consumerDataSet": []}).encode()
    assert (await client.ask(34, signed({}, body), body)).code == 0
    assert len(access._open) == 1
    client.lose()
    assert not access._open


def beat_of(*producer_groups: str) -> bytes:
    """Returns the body of a producer's heartbeat."""
    groups = [{"groupName": group} for group in producer_groups]
    beat = {"clientID": ASKER, "producerDataSet": groups, "consumerDataSet": []}
    return json.dumps(beat).encode()


@pytest.mark.parametrize("gone", ["app", "admin"])
async def test_each_user_of_a_connection_ends_its_heartbeats(
    broker: StoreBroker, gone: str
) -> None:
    access = access_of(grant_of("app", "all", "group:*"))
    client, sessions = guarded(broker, access), broker.sessions.classic
    for user, group in (("app", "p"), ("admin", "q"), ("app", "p")):
        body = beat_of(group)
        assert (await client.ask(34, signed({}, body, user=user), body)).code == 0
    assert len(access._open) == 2
    assert sessions.groups.producer_groups == ["p", "q"]
    access.table.roster.remove(gone)
    access.refresh()
    assert sessions.groups.producer_groups == []
    assert client.wire.is_closed
    client.lose()
    assert not access._open


async def test_a_producer_is_asked_by_the_right_of_its_last_heartbeat_s_user(
    broker: StoreBroker,
) -> None:
    access = access_of(grant_of("app", "pub", "group:p"))
    client, body = guarded(broker, access), beat_of("p")
    await begun(broker, RemotingPair(broker.classic.service()))
    for user in ("app", "admin"):
        assert (await client.ask(34, signed({}, body, user=user), body)).code == 0
    assert broker.transactions.producer_count("p") == 1
    access.table.roster.revoke("app", frozenset({Action.PUB}), resource_from_text("group:p"))
    access.refresh()
    assert len(await checked(broker, client)) == 1
