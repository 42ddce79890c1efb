"""Random frames that hostile classic clients send.

make = FrameMaker(Random(7), [row.number for row in TABLE.rows])
one = make.some()          one.raw, one.ends: CLOSED or OPEN; None: either
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from struct import pack
from typing import Any, Final, NamedTuple

from pocketmq.rpc.classic.signing import SIGNATURE, signing_fields
from pocketmq.wire.remoting import BINARY, JSON, Command, encode
from tests.kit.mutated import mutated

CLOSED, OPEN = "closed", "open"
INT_MAX: Final = 2**31 - 1
FRAME_MAX: Final = 16 * 1024 * 1024
NUMBERS: Final = (
    "-1", "0", "1", "7", "999", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "9" * 40, "9" * 5_000, "1.5", "x", "", " 1",
    "+1", "1e3", "0x10", "\u0661", "\u00b2", "true", "null", "\0",
)  # fmt: skip
TEXTS: Final = (
    "", "x", "orders", "g", "h", "%RETRY%g", "%RETRY%h", "%DLQ%g", "%RETRY%", "TBW102", "none",
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_REVIVE_LOG_DefaultCluster",
    "CID_RMQ_SYS_TRANS", "a/b", "..", "a b", "t" * 127, "t" * 128, "t" * 256, "\0", "\x01\x02",
    "gr\u00f6\u00dfe", "\U0001f600", "\ufeff", "*", "a||b", "a > 1", "a >", "((((((((", "SQL92",
    "TAG", "XPATH", "0 1 2 3 0 broker-a 0 0", "0 1 2 3 1 broker-a 0 0", "0 1 2 3 2 b 9 9",
    "PUSH", "BROADCASTING", "AVG_BY_CIRCLE", "+message.type=FIFO", "-x", "[]", "{}",
    "TAGS\x01a\x02KEYS\x01k\x02", "DELAY\x013\x02", "TIMER_DELIVER_MS\x019999999999999\x02",
    "__SHARDINGKEY\x01s\x02", "UNIQ_KEY\x017F000001\x02", "WAIT\x01false\x02", "a\x01",
)  # fmt: skip
USUAL: Final = {
    "topic": "orders", "consumerGroup": "g", "producerGroup": "p", "group": "g", "groupName": "g",
    "queueId": "0", "sysFlag": "0", "namespace": "ORDER_TOPIC_CONFIG", "key": "orders",
    "expressionType": "TAG", "clientId": "c1", "clientID": "c1", "brokerName": "broker-a",
    "readQueueNums": "2", "writeQueueNums": "2", "perm": "6", "order": "false",
    "transactionId": "7F000001", "topicName": "orders", "subVersion": "0", "queueOffset": "0",
    "properties": "", "offset": "0", "msgId": "7F00000100002A9F0000000000000000",
    "maxMsgNums": "4", "invisibleTime": "10000", "expType": "TAG", "exp": "*", "commitOffset": "0",
    "batch": "false", "attributes": "", "value": "v", "tranStateTableOffset": "0",
    "timestamp": "0", "suspendTimeoutMillis": "1000", "subscription": "*", "strategyName": "AVG",
    "statsName": "TOPIC_PUT_NUMS", "statsKey": "orders", "setZeroIfNotFound": "true",
    "recallHandle": "", "pollTime": "0", "initMode": "0", "maxNum": "32", "isOrder": "false",
    "flag": "0", "extraInfo": "0 1 2 3 0 broker-a 0 0", "delayLevel": "3", "count": "10",
    "defaultTopicQueueNums": "2", "index": "0", "commitOrRollback": "8", "commitLogOffset": "0",
    "beginTimestamp": "0", "endTimestamp": "9223372036854775807", "bornTimestamp": "1",
}  # fmt: skip
"""Field -> a value that the handlers take."""
SHORT: Final = {
    "a": "p", "b": "orders", "c": "TBW102", "d": "2", "e": "0", "f": "0", "g": "1", "h": "0",
    "i": "", "j": "0", "k": "false", "l": "16", "m": "false", "n": "broker-a",
}  # fmt: skip
BUSY: Final = (10, 310, 320, 11, 361, 200050, 200054, 36, 15, 34, 307)
"""Codes of requests that store something or wait, which are made more often."""
_SUBSCRIPTION: Final = {
    "topic": "orders", "subString": "*", "expressionType": "TAG", "subVersion": 1, "tagsSet": [],
}  # fmt: skip
_QUEUE: Final = {"topic": "orders", "brokerName": "broker-a", "queueId": 0}
_LOCKS: Final = {"consumerGroup": "g", "clientId": "c1", "mqSet": [_QUEUE]}
_TOPIC: Final = {
    "topicName": "orders", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "order": False,
    "attributes": {"+message.type": "NORMAL"},
}  # fmt: skip
_GROUP: Final = {"groupName": "g", "consumeEnable": True, "retryMaxTimes": 3, "retryQueueNums": 1}
BODIES: Final[dict[int, Any]] = {
    34: {
        "clientID": "c1", "producerDataSet": [{"groupName": "p"}],
        "consumerDataSet": [{
            "groupName": "g", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [_SUBSCRIPTION],
        }],
    },
    46: {"clientId": "c1", "group": "g", "subscriptionData": _SUBSCRIPTION, "namespace": ""},
    41: _LOCKS, 42: _LOCKS,
    400: {
        "consumerGroup": "g", "topic": "orders", "clientId": "c1", "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    },
    401: {"consumerGroup": "g", "topic": "orders", "mode": "POP", "popShareQueueNum": -1},
    200151: {"brokerName": "broker-a", "acks": [{
        "c": "g", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 10_000,
        "b": "BQ==",
    }]},
    18: {"topicConfigList": [_TOPIC]}, 200: _GROUP, 225: {"groupConfigList": [_GROUP]},
}  # fmt: skip
"""Request code -> a body that its handler takes."""
ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 0, INT_MAX, 2**31, 2**63 - 1, 2**63, 10**300, 1.5, "", "x", "t" * 300, [], [1],
    [None], {}, {"a": 1}, [[[[]]]], "\ud800", [{}] * 5_000, "/" * 40_000,
)  # fmt: skip


class Hostile(NamedTuple):
    """Bytes of a client.

    ends   whether the broker must close the connection or leave it open; None: either
    kind   name of the maker's method
    """

    raw: bytes
    ends: str | None
    kind: str


def framed(
    header: bytes, body: bytes = b"", *, serialization: int = JSON, header_size: int | None = None,
    size: int | None = None,
) -> bytes:  # fmt: skip
    """Returns a frame whose sizes may be wrong."""
    if header_size is None:
        header_size = len(header)
    if size is None:
        size = 4 + len(header) + len(body)
    mark = (serialization & 0xFF) << 24 | header_size & 0xFFFFFF
    return pack(">II", size & 0xFFFFFFFF, mark) + header + body


@cache
def _json_names(count: int) -> str:
    return ",".join(f'"{n:x}":""' for n in range(count))


class FrameMaker:
    """Makes requests, well-formed or not, with a number of its own each.

    secrets   of the users who sign requests; none: no request is signed
    forged    numbers of requests without the right signature of an enabled user
    """

    def __init__(
        self, random: Random, codes: Sequence[int], secrets: Mapping[str, str] = {}
    ) -> None:
        self._random = random
        self._secrets = secrets
        self.forged: set[int] = set()
        self._codes = [*codes, 999, 0, -1, 32_767, 65_535]
        self._number = 0
        self._kinds: list[Callable[[], Hostile]] = [
            *[self.request] * 6, *[self.odd_fields] * 8, *[self.odd_body] * 6, self.odd_size,
            self.odd_header_size, self.odd_serialization, self.odd_json, self.doubled_names,
            self.many_fields, self.odd_binary, self.mutated_frame, *[self.unasked_reply] * 2,
            *[self.one_way] * 2, self.large_body, self.noise, self.odd_numbers,
        ]  # fmt: skip

    def some(self) -> Hostile:
        """Returns a frame of any kind."""
        make = self._random.choice(self._kinds)
        return make()._replace(kind=make.__name__)

    # -- frames that are well-formed -----------------------------------------------------------
    def request(self) -> Hostile:
        """Returns a request that a client could send."""
        return self._sent(self._usual())

    def odd_fields(self) -> Hostile:
        """Returns a request with other values in some fields."""
        usual = self._usual()
        fields = dict(usual.fields)
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            if not fields:
                break
            name = self._random.choice([*fields])
            if self._random.random() < 0.2:
                del fields[name]
                continue
            fields[name] = self._random.choice(
                NUMBERS if fields[name].isdigit() and self._random.random() < 0.8 else TEXTS
            )
        return self._sent(usual._replace(fields=fields))

    def odd_body(self) -> Hostile:
        """Returns a request whose body has another form."""
        usual, random = self._usual(), self._random
        if random.random() < 0.7:
            usual = usual._replace(code=random.choice([*BODIES]))
        content = BODIES.get(usual.code)
        match random.randrange(4):
            case 0:
                body = random.randbytes(random.choice((0, 1, 7, 300)))
            case 1 if content is not None:
                body = mutated(random, json.dumps(content).encode())
            case 2:
                depth = random.choice((10, 1_000, 20_000))
                body = random.choice((b"[", b'{"a":', b'{"acks":[')) * depth
            case _:
                body = json.dumps(self._changed(content)).encode()
        return self._sent(usual._replace(body=body))

    def one_way(self) -> Hostile:
        """Returns a request that gets no reply."""
        return self._sent(self._usual()._replace(flag=2))

    def unasked_reply(self) -> Hostile:
        """Returns a reply to no request, also one that is one-way."""
        usual = self._usual()
        return self._sent(usual._replace(flag=self._random.choice((1, 3))))

    def large_body(self) -> Hostile:
        """Returns a request whose body may exceed the limit of its code."""
        random = self._random
        usual = self._usual()
        sizes = (65_537, 70_000, 1_048_577 if usual.code in BODIES else 100_000)
        size = random.choice(sizes) if random.random() < 0.2 else 9
        return self._sent(usual._replace(body=bytes(size)))

    # -- frames that are not -------------------------------------------------------------------
    def odd_size(self) -> Hostile:
        """Returns a frame whose length is wrong: negative, 0, huge, or another."""
        size = self._random.choice((0, 1, 3, -1, -(2**31), INT_MAX, FRAME_MAX - 3, FRAME_MAX + 9))
        return Hostile(framed(self._header(), size=size), CLOSED, "")

    def odd_header_size(self) -> Hostile:
        """Returns a frame whose header exceeds it, or the limit."""
        header = self._header()
        if self._random.random() < 0.3:
            huge = framed(header, header_size=300_000, size=400_000)
            return Hostile(huge, CLOSED, "")
        return Hostile(framed(header, header_size=len(header) + 1), CLOSED, "")

    def odd_serialization(self) -> Hostile:
        """Returns a frame in another serialization than JSON or RocketMQ's."""
        kind = self._random.choice((2, 3, 7, 0x7F, 0x80, 0xFF))
        return Hostile(framed(self._header(), serialization=kind), CLOSED, "")

    def odd_json(self) -> Hostile:
        """Returns a frame whose header is no JSON object, or has members of another kind."""
        random, header = self._random, self._header()
        broken = (
            b"", b"null", b"[]", b"1", b'"x"', b"{", header[:-1], b"[" * 50_000, b'{"a":' * 30_000,
            b"\xff\xfe", b'{"code":"x"}', b'{"code":1e400}', b'{"code":null}', b'{"opaque":4.0}',
            b'{"code":2147483648}', b'{"extFields":[1]}', b'{"extFields":{"a":[]}}',
            b'{"extFields":{"a":{"b":1}}}', b'{"remark":7}', b'{"language":[1]}',
            b'{"extFields":{"a":"\\ud800"}}', b'{"remark":"\\udfff"}', b'{"code":' + b"9" * 5_000,
            b'{"flag":' + b"9" * 5_000 + b"}",
        )  # fmt: skip
        return Hostile(framed(random.choice(broken)), CLOSED, "")

    def odd_numbers(self) -> Hostile:
        """Returns a frame with legal but unusual header members."""
        number, random = self._next(), self._random
        given: dict[str, Any] = {
            "code": random.choice(self._codes), "opaque": number, "flag": 0, "unknown": [[{}]],
            "version": random.choice((0, -1, INT_MAX)), "language": random.choice(("", "X", "GO")),
            "extFields": {"topic": None, "queueId": 0, "order": True, "f": 1.5},
        }  # fmt: skip
        return Hostile(framed(json.dumps(given).encode()), OPEN, "")

    def doubled_names(self) -> Hostile:
        """Returns a frame with the same members twice."""
        number = self._next()
        header = (
            f'{{"code":105,"code":106,"opaque":1,"opaque":{number},"flag":1,"flag":0,'
            '"extFields":{"topic":"a","topic":"orders"},"extFields":{"topic":"orders"}}'
        )
        return Hostile(framed(header.encode()), OPEN, "")

    def many_fields(self) -> Hostile:
        """Returns a frame with more fields than any request has."""
        count = self._random.choice((129, 1_000, 20_000))
        if self._random.random() < 0.02:
            count = 1_000_000
        is_binary = self._random.random() < 0.5
        if is_binary:
            fields = pack(">h2si", 2, b"ab", 0) * min(count, 20_000)
            header = pack(">hBhiii", 105, 0, 1, self._next(), 0, 0) + pack(">i", len(fields))
            return Hostile(framed(header + fields, serialization=BINARY), CLOSED, "")
        text = f'{{"code":105,"extFields":{{{_json_names(count)}}}}}'
        return Hostile(framed(text.encode()), CLOSED, "")

    def odd_binary(self) -> Hostile:
        """Returns a binary header that lies about its sizes."""
        random, size = self._random, self._random.choice((-1, -(2**31), INT_MAX, 5, 1_000))
        head = pack(">hBhii", 105, random.choice((0, 13, 14, 255)), 1, self._next(), 0)
        lies = (
            pack(">i", size), pack(">ii", 0, size), pack(">iih", 0, 2, -1), pack(">iih", 0, 2, 9),
            pack(">iihb", 0, 3, 1, 97), pack(">iihbi", 0, 7, 1, 97, size),
            pack(">iihbi", 0, 7, 1, 0xFF - 256, 0), pack(">ib", 1, -1), b"",
        )  # fmt: skip
        return Hostile(framed(head + random.choice(lies), serialization=BINARY), CLOSED, "")

    def mutated_frame(self) -> Hostile:
        """Returns a frame with changed, lost or doubled bytes."""
        return Hostile(mutated(self._random, self._sent(self._usual()).raw), None, "")

    def noise(self) -> Hostile:
        """Returns bytes that are no frame, or the beginning of one."""
        random = self._random
        text = random.choice(
            (b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n", b"\x16\x03\x01")
        )
        return Hostile(text if random.random() < 0.5 else random.randbytes(30), None, "")

    # -- parts ---------------------------------------------------------------------------------
    def _next(self) -> int:
        self._number += 1
        return self._number

    def _usual(self) -> Command:
        random = self._random
        code = random.choice(self._codes if random.random() < 0.6 else BUSY)
        fields = dict(SHORT if code in (310, 320) and random.random() < 0.7 else USUAL)
        if random.random() < 0.3:
            fields = {name: fields[name] for name in fields if random.random() < 0.6}
        if "pollTime" in fields and random.random() < 0.3:
            offset = random.choice(("0", "2", "9"))
            fields |= {"sysFlag": "6", "pollTime": "15000", "queueOffset": offset}
        content = BODIES.get(code)
        body = b"x" if content is None else json.dumps(content).encode()
        serialization = BINARY if random.random() < 0.2 else JSON
        return Command(code, fields, body, self._next(), serialization=serialization)

    def _sent(self, command: Command) -> Hostile:
        return Hostile(encode(self._signed(command) if self._secrets else command), OPEN, "")

    def _signed(self, command: Command) -> Command:
        """Returns the command with a signature, which may be wrong, incomplete or another's."""
        random = self._random
        user = random.choice([*self._secrets])
        secret = self._secrets[user]
        signing = dict(signing_fields(user, secret, command))
        signed = command._replace(fields={**command.fields, **signing})
        if random.random() < 0.7:
            return signed
        self.forged.add(command.opaque)
        match random.randrange(6):
            case 0:
                return command
            case 1:
                del signing[random.choice([*signing])]
            case 2:
                signing[SIGNATURE] = random.choice((*TEXTS, *NUMBERS, signing[SIGNATURE][:-1]))
            case 3:
                signing = dict(signing_fields(user, secret + "x", command))
            case 4:
                signing = dict(signing_fields(random.choice((*TEXTS, "off")), secret, command))
            case _:
                return signed._replace(body=signed.body + b"x")
        return command._replace(fields={**command.fields, **signing})

    def _header(self) -> bytes:
        return encode(self._usual()._replace(body=b"", serialization=JSON))[8:]

    def _changed(self, value: Any) -> Any:
        """Returns a copy of a document with another value in one place."""
        random = self._random
        if not value or random.random() < 0.2:
            return random.choice(ODD)
        if isinstance(value, dict):
            name = random.choice([*value])
            return {**value, name: self._changed(value[name])}
        if isinstance(value, list):
            at = random.randrange(len(value))
            return [*value[:at], self._changed(value[at]), *value[at + 1 :]]
        return random.choice(ODD)
