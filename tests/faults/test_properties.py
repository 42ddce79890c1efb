"""S2: properties come back as they were given, or the message is refused and nothing is stored.

The block has two separators and no escaping, so a text with one of them in it would come back as
other properties: a client could set what only the broker may.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from pocketmq.format.properties import PROPERTIES_SIZE_MAX, decode_properties, encode_properties
from pocketmq.model.errors import RequestError
from pocketmq.model.message import RESERVED_PROPERTIES
from pocketmq.model.names import PROPERTY_COUNT_MAX, check_property
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.kit.store_broker import StoreBroker, store_broker

SEED: Final = int(os.environ.get("SEED", "1"))
CASES: Final = 100_000
"""Sets of properties; 1 M in the long tier."""
CONTROLS: Final = [chr(number) for number in range(0x20)] + ["\x7f", "\x80", "\x85", "\x9f"]
LETTERS: Final = [
    *("a", "Z", "0", " ", "\x01", "\x02", "\x00", "\n", "\t", "=", "|", "%", "é", "€", "\u202e"),
    *("\u2028", "\ufffd", "\U0001f600", "KEYS", "UNIQ_KEY", "\x02KEYS\x01"),
]  # fmt: skip
SYSTEM_KEYS: Final = """REAL_TOPIC REAL_QID DELAY TRAN_MSG PGROUP INNER_MULTI_DISPATCH
    INNER_MULTI_QUEUE_OFFSET UNIQ_KEY WAIT KEYS TAGS CLUSTER MSG_REGION TRACE_ON __SHARDINGKEY
    RECONSUME_TIME MAX_RECONSUME_TIMES POP_CK RETRY_TOPIC DLQ_ORIGIN_TOPIC __CRC32# INNER_NUM
    TIMER_DELIVER_MS TIMER_DELAY_SEC TIMER_OUT_MS TIMER_ROLL_TIMES ORIGIN_GROUP MIN_OFFSET
    __transactionId__ TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS""".split()


def random_properties(random: Random) -> dict[str, str]:
    def text() -> str:
        return "".join(random.choices(LETTERS, k=random.randrange(5)))

    return {text(): text() for _ in range(random.randrange(1, 4))}


def are_accepted(properties: dict[str, str]) -> bool:
    try:
        for name, value in properties.items():
            check_property(name, value)
    except RequestError:
        return False
    return True


def test_what_is_accepted_comes_back() -> None:
    random = Random(SEED)
    accepted = 0
    for _ in range(CASES):
        properties = random_properties(random)
        if are_accepted(properties):
            accepted += 1
            back = decode_properties(encode_properties(properties))
            assert back == properties, f"repro: SEED={SEED}: {properties!r}"
    assert accepted >= CASES // 20
    print(f"{CASES} sets of properties, {accepted} of them storable")


def test_every_pair_of_letters_comes_back_or_is_refused() -> None:
    letters = [chr(number) for number in range(0x21)] + ["a"]
    texts = [a + b + c for a in letters for b in letters for c in ("", "x")]
    accepted = 0
    for text in texts:
        for pair in ((text, "v"), ("n", text)):
            if are_accepted(dict([pair])):
                accepted += 1
                assert decode_properties(encode_properties(dict([pair]))) == dict([pair])
    assert 1_000 < accepted < len(texts) * 2


@pytest.mark.parametrize("name", sorted({*SYSTEM_KEYS, *RESERVED_PROPERTIES}))
def test_what_the_broker_reads_meaning_from_is_refused(name: str) -> None:
    assert not are_accepted({name: "orders"})


# -- through the API, and back out of the store ----------------------------------------------------
def message(**fields: Any) -> pb.Message:
    return pb.Message(**{"topic": "orders", "body": b"x", "queue_id": 0, **fields})


FIELDS: Final[dict[str, Callable[[str], pb.Message]]] = {
    "name": lambda text: message(properties={text: "v"}),
    "value": lambda text: message(properties={"n": text}),
    "key": lambda text: message(keys=[text]),
    "keys": lambda text: message(keys=["k", text]),
    "tag": lambda text: message(tag=text),
    "group": lambda text: message(message_group=text),
    "id": lambda text: message(message_id=text),
}


async def stored(broker: StoreBroker, sent: pb.Message) -> pb.StoredMessage | None:
    """Returns a message as a consumer gets it, None when it was refused and nothing stored."""
    store = broker.talking.store
    before = store.appended
    outcome = await broker.outcome(
        "SendMessage", pb.SendMessageRequest(messages=[sent]).SerializeToString()
    )
    if outcome != "ok":
        assert outcome != "Internal"
        assert store.appended == before
        return None
    await broker.talking.settled()
    place = store.reading.queue_range("orders", 0)[1] - 1
    request = pb.PullMessageRequest(topic="orders", queue_id=0, offset=place)
    (found,) = (await broker.answer("PullMessage", request)).messages
    return pb.StoredMessage.FromString(found.SerializeToString())


def is_as_sent(sent: pb.Message, found: pb.StoredMessage) -> bool:
    own = {k: v for k, v in found.properties.items() if k not in RESERVED_PROPERTIES}
    return (
        own == dict(sent.properties)
        and found.tag == sent.tag
        and list(found.keys) == list(sent.keys)
        and found.message_group == sent.message_group
        and (not sent.message_id or found.message_id == sent.message_id)
    )


def texts() -> Iterator[str]:
    for letter in (*CONTROLS, *LETTERS):
        yield from (letter, f"a{letter}b", f"{letter}a", f"a{letter}")


async def test_no_text_of_a_message_becomes_another_property(tmp_path: Path) -> None:
    count = refused = 0
    async with store_broker(tmp_path / "s", commit_log_file_size_bytes=1 << 20) as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        for make in FIELDS.values():
            for text in texts():
                sent = make(text)
                found = await stored(broker, sent)
                assert found is None or is_as_sent(sent, found), f"{sent!r} became {found!r}"
                count += 1
                refused += found is None
    assert count >= 1_500
    assert count // 4 < refused < count


async def test_system_keys_do_not_pass_the_api(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s") as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        for name in SYSTEM_KEYS:
            assert await stored(broker, message(properties={name: "1"})) is None
            hidden = {"a": f"b\x02{name}\x01c"}
            assert await stored(broker, message(properties=hidden)) is None
        assert broker.talking.store.appended == 0


@pytest.mark.parametrize("property_crc", [False, True])
async def test_a_block_ends_where_its_length_field_does(tmp_path: Path, property_crc: bool) -> None:
    async with store_broker(
        tmp_path / "s", commit_log_file_size_bytes=1 << 20, property_crc=property_crc
    ) as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        sizes = {True: 0, False: PROPERTIES_SIZE_MAX + 1}
        while sizes[False] - sizes[True] > 1:
            size = (sizes[False] + sizes[True]) // 2
            sent = message(properties={"n": "v" * size}, message_id="ID")
            found = await stored(broker, sent)
            assert found is None or is_as_sent(sent, found)
            sizes[found is not None] = size
        assert PROPERTIES_SIZE_MAX - 200 < sizes[True] < PROPERTIES_SIZE_MAX
        wide = message(properties={"n": "€" * (sizes[True] // 3 + 1)}, message_id="ID")
        assert await stored(broker, wide) is None


async def test_many_properties_are_refused_before_they_are_looked_at(tmp_path: Path) -> None:
    async with store_broker(tmp_path / "s", commit_log_file_size_bytes=1 << 20) as broker:
        await broker.talking.store.tables.topics.create("orders", queue_count=1)
        most = {f"n{number}": "v" for number in range(PROPERTY_COUNT_MAX)}
        assert await stored(broker, message(properties=most)) is not None
        for count in (PROPERTY_COUNT_MAX + 1, 10_000):
            many = {f"n{number}": "v" for number in range(count)}
            assert await stored(broker, message(properties=many)) is None
        assert await stored(broker, message(keys=["k"] * 40_000)) is None
