"""Sends of classic clients of all kinds, as frames, and a broker that serves frames.

maker = ClassicMaker(Random(1))
async with twins(classic_twin) as (quick, usual): …
await served_alike(quick, usual, maker.some())
"""

from random import Random
from struct import pack
from typing import Any, Final

from pocketmq.rpc.service import Shortcut
from pocketmq.wire.remoting import (
    BINARY,
    JSON,
    RESPONSE,
    Command,
    RemotingError,
    decode,
    encode,
)
from tests.kit.call import FakeCall
from tests.kit.mutated import mutated
from tests.kit.send_requests import TOPICS, Twin
from tests.kit.store_broker import CALL, StoreBroker

NAMES: Final = {310: "SEND_MESSAGE_V2", 320: "SEND_BATCH_MESSAGE", 10: "SEND_MESSAGE"}
KEY: Final = "7F0000014C0C4E0E2F2A8367D6AE0000"
ODD_PAIRS: Final = (
    ("", "x"), ("x", ""), ("DELAY", "3"), ("DELAY", "0"), ("CLUSTER", "c"), ("WAIT", "false"),
    ("TIMER_DELAY_MS", "x"), ("\u20ac", "1"), ("name", "\u20ac"), ("KEYS", "a  b"), ("TAGS", "a|b"),
    ("UNIQ_KEY", "a b"), ("UNIQ_KEY", 'a"b'), ("UNIQ_KEY", "a\\b"), ("KEYS", "k" * 256),
    ("TAGS", "t" * 256), ("x", "a\x01b"), ("_SYS_PRIORITY_", "1"), ("KEYS", " "), ("TAGS", "\t"),
    ("__CRC32#", "1"), ("UNIQ_KEY", "u" * 255), ("KEYS", "a "), ("x\n", "\x1f"),
)  # fmt: skip
ODD_FIELDS: Final = (
    ("b", ""), ("b", "fresh"), ("b", "%RETRY%g"), ("b", "sealed"), ("b", "\u20ac"), ("e", "-1"),
    ("e", "900"), ("e", "x"), ("e", "01"), ("e", "99999999999"), ("f", "4"), ("f", "1"),
    ("f", "00"), ("g", "0"), ("g", "-1"), ("g", "9" * 25), ("h", "-1"), ("h", "4294967296"),
    ("m", "TRUE"), ("m", "yes"), ("d", "x"), ("d", "-3"), ("i", ""), ("z", "1"),
    ("AccessKey", "me"), ("a", ""), ("i", "\x02"), ("i", "TAGS"), ("i", "\x01"),
)  # fmt: skip


class ClassicMaker:
    """Makes frames from a seed."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._oddity = 0.0

    def some(self) -> bytes:
        """Returns a plain frame, a frame with unusual parts, or a damaged one."""
        chance = self._random.random()
        self._oddity = 0.15 if 0.5 < chance < 0.85 else 0.0
        frame = self._frame()
        return frame if chance < 0.85 else mutated(self._random, frame)

    def _is_odd(self) -> bool:
        return self._random.random() < self._oddity

    def _frame(self) -> bytes:
        random = self._random
        code = random.choice((310, 310, 310, 320, 310 if not self._is_odd() else 10))
        is_batch = code == 320 or random.random() < 0.1
        fields = {
            "a": "producers", "b": random.choice(TOPICS), "c": "TBW102", "d": "4",
            "e": str(random.choice((0, 0, 1))), "f": "0",
            "g": str(random.choice((0, 1, 1_795_000_000_123))), "h": str(random.choice((0, 7))),
            "i": self._block(), "j": "0", "k": "false", "m": str(is_batch).lower(), "n": "real",
        }  # fmt: skip
        for name in random.sample(sorted(fields), random.choice((0, 0, 1))):
            if name not in "abefg" or self._is_odd():
                del fields[name]
        while self._is_odd():
            name, value = random.choice(ODD_FIELDS)
            fields[name] = value
        body = self._rows() if is_batch else random.randbytes(random.choice((1, 7, 127, 300)))
        opaque = random.choice((0, 7, 123_456_789, 1 << 30))
        kind = random.choice((JSON, JSON, BINARY))
        frame = encode(Command(code, fields, body, opaque, serialization=kind))
        if kind == JSON and random.random() < 0.2:
            frame = _spaced(frame, body)
        return frame

    def _block(self) -> str:
        random = self._random
        pairs = [
            ("UNIQ_KEY", random.choice((KEY, "u", "order/4711"))),
            ("WAIT", random.choice(("true", "true", "false"))),
        ]
        if random.random() < 0.6:
            pairs.append(("TAGS", random.choice(("A", "TagA", "!~"))))
        if random.random() < 0.6:
            pairs.append(("KEYS", random.choice(("k", "k1 k2", "a b c d"))))
        if random.random() < 0.4:
            pairs.append((random.choice(("colour", "a.b")), random.choice(("red", "a b", '"\\/'))))
        while self._is_odd():
            pairs.append(random.choice(ODD_PAIRS))
        random.shuffle(pairs)
        text = "\x02".join(f"{name}\x01{value}" for name, value in pairs)
        return text + random.choice(("", "\x02"))

    def _rows(self) -> bytes:
        rows = []
        for _ in range(self._random.choice((1, 2, 5))):
            body, block = self._random.randbytes(9), self._block().encode()
            size = 22 + len(body) + len(block) + self._is_odd()
            flag = -1 if self._is_odd() else 3
            head = pack(">iiiii", size, 0, 0, flag, len(body))
            rows.append(head + body + pack(">h", len(block)) + block)
        return b"".join(rows)


def _spaced(frame: bytes, body: bytes) -> bytes:
    """Returns a frame whose header has a blank, which Java's client does not write."""
    header = frame[8 : len(frame) - len(body)].replace(b',"flag"', b', "flag"')
    return pack(">II", 4 + len(header) + len(body), len(header)) + header + body


class ClassicTwin(Twin):
    """A broker that serves frames of classic clients."""

    def __init__(self, broker: StoreBroker, shortcut: Shortcut | None, call: FakeCall) -> None:
        self._methods = {one.number: one for one in broker.classic.service().methods}
        super().__init__(broker, self._methods[310], shortcut, call)

    async def outcome(self, raw: bytes) -> bytes | str:
        """Serves a frame; returns the reply, or the error."""
        try:
            return await super().outcome(raw)
        except RemotingError as error:
            return str(error)

    async def _served_the_usual_way(self, raw: bytes) -> bytes:
        if int.from_bytes(raw[:4]) != len(raw) - 4 or len(raw) < 8:
            return b"no request"
        request = decode(raw)
        method = self._methods.get(request.code)
        if method is None or request.code not in NAMES or request.flag:
            return b"another request"
        assert method.parse is not None
        answer: Any = await method.handler(method.parse(request), self.call)
        return encode(
            answer._replace(
                opaque=request.opaque, flag=RESPONSE, serialization=request.serialization
            )
        )


def classic_twin(broker: StoreBroker, *, is_quick: bool) -> Twin:
    """Returns a broker that serves classic clients."""
    return ClassicTwin(broker, broker.classic.sending.shortcut if is_quick else None, CALL)
