"""Recorded sessions of real producers get the answers that RocketMQ 5.5.0 gave them.

differs            why
route of a topic   it names the broker's own address; only its code is compared
msgId              it contains the broker's address and the message's physical offset
queueOffset        counted from the session's first send of the queue, as others came before
requests of 37     name a half message by the offsets of the answer to its send
39, and its 37     a check of a transaction comes after seconds; test_transactions.py has it
"""

from functools import partial
from typing import Any, Final

import pytest

from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import until
from tests.rpc.classic.test_recorded import LEFT_OUT, ROUTE, commands, has_reply

SENDS: Final = {310, 320}
END: Final = 37
SESSIONS: Final = {
    "j53-sync-2": ([0, 0, 0, 0], []),
    "j53-batch-3": ([0, 5, 0, 0], []),
    "none-1": ([1, 0, 0, 0], []),
    "j53-tx-5": ([0, 0, 1, 0], ["8", "12", "0"]),
}
"""Name -> number of messages in each of the topic's queues, and decisions of half messages."""


def settled_end(request: Command, halves: dict[str, Command]) -> Command:
    """Returns a decision with the offsets of the half message in this broker."""
    sent = halves[request.fields["transactionId"]].fields
    offsets = {
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": str(int(sent["msgId"][-16:], 16)),
    }
    return request._replace(fields={**request.fields, **offsets})


def shown(reply: Command, first_offset: int) -> dict[str, Any]:
    """Returns the parts of an answer that the table above does not explain."""
    fields = {name: reply.fields[name] for name in reply.fields if name not in LEFT_OUT}
    if "msgId" in fields:
        fields["msgId"] = str(len(fields["msgId"].split(",")))
        fields["queueOffset"] = str(int(fields["queueOffset"]) - first_offset)
    return {"code": reply.code, "fields": fields, "remark": reply.remark, "body": reply.body}


def first_offset(replies: dict[int, Command]) -> int:
    """Returns the queue offset of a session's first send; its halves share one queue."""
    offsets = [int(one.fields["queueOffset"]) for one in replies.values() if "msgId" in one.fields]
    return min(offsets, default=0)


@pytest.mark.parametrize("name", SESSIONS)
async def test_answers_are_rocketmqs(broker: StoreBroker, client: RemotingPair, name: str) -> None:
    if name != "none-1":  # Its producer sends to a topic that does not exist yet.
        await broker.store.tables.topics.create("RawTopic", queue_count=4)
    halves: dict[str, Command] = {}
    decided = []
    asked = {}
    for request in commands(f"{name}.up"):
        if request.code == END:
            if request.fields["fromTransactionCheck"] == "true":
                continue
            decided.append(request.fields["commitOrRollback"])
            client.put(settled_end(request, halves))
            await client.idle()
            continue
        asked[request.opaque] = request.code
        client.put(request)
        await until(partial(has_reply, client, request.opaque))
        if request.code in SENDS:
            reply = client.replies[request.opaque]
            halves[reply.fields.get("transactionId", "")] = reply
    expected = {one.opaque: one for one in commands(f"{name}.down") if one.is_reply}
    assert expected.keys() == asked.keys()
    compared = [number for number in expected if asked[number] != ROUTE]
    begins = first_offset(client.replies), first_offset(expected)
    assert {number: shown(client.replies[number], begins[0]) for number in compared} == {
        number: shown(expected[number], begins[1]) for number in compared
    }
    routes = [number for number in expected if asked[number] == ROUTE]
    assert [client.replies[number].code for number in routes] == [
        expected[number].code for number in routes
    ]
    counts, decisions = SESSIONS[name]
    await broker.talking.settled()
    assert [len(broker.records(topic="RawTopic", queue_id=n)) for n in range(4)] == counts
    assert decided == decisions
