"""Plain decisions take the shortcut, and nothing shows that they did: not the bytes of log, queues,
index and reply, not what became of a half message, not what is counted."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.model.topic import GIVEN_UP_TOPIC, OP_HALF_TOPIC
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.kit.mutated import mutated
from tests.kit.send_requests import RequestMaker, Twin, hold_alike, served_alike, twins
from tests.kit.store_broker import CALL, StoreBroker, store_broker
from tests.kit.store_language import turns
from tests.sim.clock import at

ROUNDS = 80
GROUPS = ("payers", "", "%a|b-_")


def ending(twin: Twin, *, is_quick: bool) -> Twin:
    """Returns the same broker, asked to end transactions."""
    method = twin.broker.methods["EndTransaction"]
    assert method.shortcut is not None
    return Twin(twin.broker, method, method.shortcut if is_quick else None, CALL)


class Producer:
    """Sends half messages to two brokers and ends them, as a seed will have it."""

    def __init__(self, seed: str, quick: Twin, usual: Twin) -> None:
        self._random = Random(seed)
        self._maker = RequestMaker(self._random, properties_max=1)
        self._pair = quick, usual
        self.ending = ending(quick, is_quick=True), ending(usual, is_quick=False)
        self._sent: list[tuple[str, list[str]]] = []

    async def send(self) -> None:
        """Sends half messages, all of one group."""
        request = pb.SendMessageRequest.FromString(self._maker.plain())
        request.wait = pb.DURABLE
        group = self._random.choice(GROUPS)
        for message in request.messages:
            message.transactional, message.producer_group = True, group
        raw = request.SerializeToString()
        replies = [await twin.outcome(raw) for twin in self._pair]
        assert replies[0] == replies[1]
        assert isinstance(replies[0], bytes), replies[0]
        results = pb.SendMessageResponse.FromString(replies[0]).results
        ids = [result.transaction_id for result in results]
        self._sent.append((group or request.messages[0].topic, ids))

    def decisions(self, *, oddity: float) -> bytes:
        """Returns a request that ends what was sent lastly, or some of all that was ever sent."""
        random = self._random
        group, ids = self._sent[-1]
        if random.random() < oddity:
            group, ids = random.choice(self._sent)
            ids = random.choices(ids, k=random.randint(1, 3))
        if random.random() < oddity / 4:
            group = random.choice(("payers", "strangers", "", "a b", "\u20ac"))
        request = pb.EndTransactionRequest(group=group)
        for text in ids:
            resolution = random.choice((pb.COMMIT, pb.COMMIT, pb.ROLLBACK))
            if random.random() < oddity / 4:
                resolution = pb.UNKNOWN
            if random.random() < oddity / 4:
                text = random.choice((f"0{text}", text.lower(), text[:-1], "", f"F{text}", "1.2."))
            request.decisions.add(transaction_id=text, resolution=resolution)
        raw = request.SerializeToString()
        return mutated(random, raw) if random.random() < oddity / 4 else raw


async def begin(broker: StoreBroker) -> None:
    for topic in (OP_HALF_TOPIC, GIVEN_UP_TOPIC):
        await broker.store.tables.topics.ensure(topic, 1)


@pytest.mark.parametrize(
    ("settings", "is_taken"),
    [
        ({"flush": "async"}, True),
        ({"flush": "sync", "index_style": "5.3"}, True),
        ({"property_crc": True}, False),
    ],
    ids=["async", "sync", "property_crc"],
)
async def test_both_ways_do_the_same(settings: dict[str, Any], is_taken: bool) -> None:
    async with twins(commit_log_file_size_bytes=1 << 20, **settings) as (quick, usual):
        for twin in (quick, usual):
            await begin(twin.broker)
        producer = Producer(str(settings), quick, usual)
        for _ in range(ROUNDS):
            await producer.send()
            await served_alike(*producer.ending, producer.decisions(oddity=0.4))
        least = 0.25 if is_taken else 0.0
        assert producer.ending[0].shortcut_count >= least * ROUNDS
        assert (producer.ending[0].shortcut_count > 0) == is_taken
        await hold_alike(quick, usual)
        counted = [
            [(stat.name, getattr(stat, "values", None)) for stat in twin.broker.transactions.stats]
            for twin in (quick, usual)
        ]
        assert counted[0] == counted[1]
        opens = [twin.broker.transactions.open_count for twin in (quick, usual)]
        assert opens[0] == opens[1] > 0


async def test_every_plain_decision_takes_the_shortcut() -> None:
    async with twins(flush="async", commit_log_file_size_bytes=1 << 22) as (quick, usual):
        for twin in (quick, usual):
            await begin(twin.broker)
        producer = Producer("plain", quick, usual)
        for count in range(1, 60):
            await producer.send()
            await served_alike(*producer.ending, producer.decisions(oddity=0))
            assert producer.ending[0].shortcut_count == count
        await hold_alike(quick, usual)


async def test_what_was_put_before_the_start_is_left_to_the_usual_way(tmp_path: Path) -> None:
    message = pb.Message(topic="orders", body=b"x", transactional=True, producer_group="payers")
    raw = pb.SendMessageRequest(messages=[message]).SerializeToString()
    ids = []
    for start in range(2):
        async with store_broker(tmp_path / "s", flush="async") as broker:
            await begin(broker)
            reply = await broker.served_the_usual_way("SendMessage", raw)
            ids.append(pb.SendMessageResponse.FromString(reply).results[0].transaction_id)
            shortcut = broker.methods["EndTransaction"].shortcut
            assert shortcut is not None
            for number in range(start * 2):
                request = pb.EndTransactionRequest(group="payers")
                request.decisions.add(transaction_id=ids[number], resolution=pb.COMMIT)
                raw_end = request.SerializeToString()
                reply_at_once = shortcut(raw_end, CALL.peer_host, CALL.metadata)
                assert (reply_at_once is not None) == (number == 1)
            await broker.talking.settled()


async def test_the_answer_waits_for_the_disk_as_long_as_it_takes(tmp_path: Path) -> None:
    message = pb.Message(topic="orders", body=b"x", transactional=True, producer_group="payers")
    raw = pb.SendMessageRequest(messages=[message]).SerializeToString()
    async with store_broker(tmp_path / "s", flush="sync") as broker:
        await begin(broker)
        reply = await broker.served_the_usual_way("SendMessage", raw)
        (sent,) = pb.SendMessageResponse.FromString(reply).results
        request = pb.EndTransactionRequest(group="payers")
        request.decisions.add(transaction_id=sent.transaction_id, resolution=pb.COMMIT)
        shortcut = broker.methods["EndTransaction"].shortcut
        assert shortcut is not None
        with broker.talking.quick_disk.held():
            waiting = shortcut(request.SerializeToString(), CALL.peer_host, CALL.metadata)
            assert waiting is not None
            assert not isinstance(waiting, bytes)
            answer = asyncio.ensure_future(waiting)
            await turns()
            broker.clock.advance(broker.store.settings.sync_flush_timeout_ms + 1)
            broker.store.writing.durability.step(at(broker.clock.monotonic))
            await turns()
            assert not answer.done()
        (result,) = pb.EndTransactionResponse.FromString(await answer).results
        assert result.status == pb.ENDED
