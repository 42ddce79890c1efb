"""Classic clients' requests, the same bytes to both brokers: sends, batches and pulls.

One generator in this process loads both: frames are prepared, and replies are only counted and
looked at for their code. It keeps a fixed number of requests in flight on each connection.
"""

import json
import selectors
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from struct import Struct
from time import monotonic, perf_counter, sleep
from typing import Final, NamedTuple

from bench.peer.content import GROUP, TOPIC, equal_contents
from bench.peer.rocketmq import QUEUE_COUNT, broker_alone
from bench.peer.rows import Aim, Row, sides
from bench.peer.sends import told
from bench.peer.sides import MESSAGES_MAX, Extent
from bench.servers import ADMIN, ASYNC, broker_server
from harness.figures import alternated, ratios
from harness.process import cpu_seconds
from pocketmq.rpc.pb import admin_pb2

JARS: Final = ("broker", "namesrv")
BATCH: Final = 32
"""Messages of a batch, and of a pull."""
READ_SIZE: Final = 1 << 20
HANG_SECONDS: Final = 60.0
READY_SECONDS: Final = 240.0
SETTLE_SECONDS: Final = 0.2
_FRAME: Final = Struct(">II")
_ROW: Final = Struct(">iiiii")
_OK: Final = b'{"code":0,'


class Shape(NamedTuple):
    """One row's requests.

    requests   encoded requests, used in turn
    messages   number of messages of each request
    in_flight  requests that wait for their replies on each connection
    """

    name: str
    what: str
    requests: Sequence[bytes]
    messages: int
    connections: int
    in_flight: int
    rate_aim: Aim


class Measured(NamedTuple):
    """One run: messages each second, and the server's processor time of a message."""

    per_second: float
    us: float


def frame(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """Returns a request as RocketMQ's Java client 5.3 encodes it."""
    header = {
        "code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": code,
        "serializeTypeCurrentRPC": "JSON", "version": 479,
    }  # fmt: skip
    encoded = json.dumps(header, separators=(",", ":")).encode()
    return _FRAME.pack(4 + len(encoded) + len(body), len(encoded)) + encoded + body


def send_fields(queue_id: int, properties: str, *, is_batch: bool) -> dict[str, str]:
    """Returns the fields of a send to a queue."""
    return {
        "a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0",
        "g": "1790000000000", "h": "0", "i": properties, "j": "0", "k": "false",
        "m": "true" if is_batch else "false", "n": "broker-a",
    }  # fmt: skip


def sends() -> list[bytes]:
    """Returns sends of 1 KiB with a key, an id and a tag, one for each queue."""
    return [
        frame(310, send_fields(number, _properties(one.keys, one.message_id), is_batch=False),
              one.body)
        for number, one in enumerate(equal_contents(QUEUE_COUNT))
    ]  # fmt: skip


def batches() -> list[bytes]:
    """Returns sends of BATCH such messages, one for each queue."""
    rows = []
    for one in equal_contents(BATCH):
        text = _properties(one.keys, one.message_id).encode()
        size = _ROW.size + len(one.body) + 2 + len(text)
        head = _ROW.pack(size, 0, 0, 0, len(one.body))
        rows.append(head + one.body + len(text).to_bytes(2) + text)
    wait = "UNIQ_KEY\x017F0000014DD24E0E2F2A8367F2B10005\x02WAIT\x01true\x02"
    return [
        frame(320, send_fields(number, wait, is_batch=True), b"".join(rows))
        for number in range(QUEUE_COUNT)
    ]


def _properties(keys: Sequence[str], identity: str) -> str:
    names = " ".join(keys)
    return f"KEYS\x01{names}\x02UNIQ_KEY\x01{identity}\x02WAIT\x01true\x02TAGS\x01TagA\x02"


def pulls() -> list[bytes]:
    """Returns pulls of BATCH messages, from the first of each queue."""
    return [
        frame(11, {
            "queueId": str(number), "commitOffset": "0", "subscription": "*",
            "suspendTimeoutMillis": "20000", "bname": "broker-a", "sysFlag": "4",
            "expressionType": "TAG", "ReqT": "0", "topic": TOPIC, "consumerGroup": GROUP,
            "maxMsgNums": str(BATCH), "queueOffset": "0", "subVersion": "0",
            "maxMsgBytes": "2147483647",
        })
        for number in range(QUEUE_COUNT)
    ]  # fmt: skip


SHAPES: Final = (
    Shape("unary", "classic send, 4 × 64 in flight", sends(), 1, 4, 64, Aim(3.0, 2.0)),
    Shape("alone", "classic send, one at a time", sends(), 1, 1, 1, Aim(3.0, 2.0)),
    Shape("batch", "classic batch of 32", batches(), BATCH, 2, 4, Aim(2.0)),
    Shape("pull", "classic pull of 32", pulls(), BATCH, 2, 4, Aim(2.0)),
)
CPU: Final = Aim(0.3, at_most=True)


class _Connection:
    """One connection of the generator."""

    def __init__(self, target: str, requests: Sequence[bytes], in_flight: int) -> None:
        host, _, port = target.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests
        self._chunks: dict[int, bytes] = {}
        self._in_flight = in_flight
        self._rest = b""

    def begin(self) -> None:
        """Sends the first requests."""
        self._send(self._in_flight)

    def _send(self, count: int) -> None:
        chunk = self._chunks.get(count)
        if chunk is None:
            given = self._requests
            chunk = b"".join(given[number % len(given)] for number in range(count))
            self._chunks[count] = chunk
        self.socket.sendall(chunk)

    def take(self, *, more: bool) -> int:
        """Reads replies, and sends as many further requests; returns their number.

        Errors   SystemExit: a reply has another code than 0, or the connection ended
        """
        read = self.socket.recv(READ_SIZE)
        if not read:
            raise SystemExit("the broker closed a connection")
        data = self._rest + read if self._rest else read
        position = count = 0
        while len(data) - position >= _FRAME.size:
            size, _ = _FRAME.unpack_from(data, position)
            if len(data) < position + 4 + size:
                break
            if not data.startswith(_OK, position + _FRAME.size):
                raise SystemExit(f"the broker refused: {data[position : position + 400]!r}")
            position += 4 + size
            count += 1
        self._rest = data[position:]
        if more and count:
            self._send(count)
        return count


def generate(target: str, shape: Shape, seconds: float) -> tuple[int, float]:
    """Loads a broker for a time, and reads all replies; returns their number and the seconds."""
    connections = [
        _Connection(target, shape.requests, shape.in_flight) for _ in range(shape.connections)
    ]
    waiting = shape.connections * shape.in_flight
    most, replies = MESSAGES_MAX // shape.messages, 0
    with selectors.DefaultSelector() as selector:
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
        begun = perf_counter()
        for one in connections:
            one.begin()
        while replies < waiting:
            events = selector.select(HANG_SECONDS)
            if not events:
                raise SystemExit(f"no reply came for {HANG_SECONDS:.0f} s")
            more = perf_counter() - begun < seconds and waiting < most
            for key, _ in events:
                count = key.data.take(more=more)
                replies += count
                waiting += count if more else 0
        spent = perf_counter() - begun
    for one in connections:
        one.socket.close()
    return replies, spent


class ClassicSide(NamedTuple):
    """One broker of a comparison."""

    pid: int
    target: str

    def run(self, shape: Shape, seconds: float) -> Measured:
        """Loads the broker; its processor time includes the dispatch soon after."""
        before = cpu_seconds(self.pid)
        replies, spent = generate(self.target, shape, seconds)
        sleep(SETTLE_SECONDS)
        messages = replies * shape.messages
        return Measured(messages / spent, 1e6 * (cpu_seconds(self.pid) - before) / messages)


@contextmanager
def _both(jars: Path, extent: Extent) -> Iterator[dict[str, ClassicSide]]:
    with broker_alone(jars) as real, broker_server(ASYNC, *extent.settings) as ours:
        ours.create_topics({TOPIC: QUEUE_COUNT})
        create = admin_pb2.CreateGroupRequest(name=GROUP).SerializeToString()
        ours.call(ADMIN + "CreateGroup", create)
        found = {
            "PocketMQ": ClassicSide(ours.process.pid, ours.target),
            "RocketMQ": ClassicSide(real.pid, real.target),
        }
        for side in found.values():
            wait_until_ready(partial(generate, side.target, SHAPES[1], 0.0))
        yield found


def wait_until_ready(send: Callable[[], object]) -> None:
    """Calls a function until it succeeds.

    Errors   OSError, SystemExit: those of the last call, after READY_SECONDS
    """
    end = monotonic() + READY_SECONDS
    while True:
        try:
            send()
        except (OSError, SystemExit):
            if monotonic() > end:
                raise
            sleep(0.2)
        else:
            return


def classic_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Rates and processor time of classic sends, batches and pulls, to RocketMQ's."""
    warm_seconds = max(2.0, extent.jvm_calls / 15_000)
    with _both(jars, extent) as both:
        generate(both["RocketMQ"].target, SHAPES[0], warm_seconds)
        for shape in SHAPES:
            for side in both.values():
                generate(side.target, shape, extent.seconds)
            runs = {name: partial(one.run, shape, extent.seconds) for name, one in both.items()}
            found = alternated(extent.rounds, runs, shape=shape.name)
            yield from _rows(shape, found["PocketMQ"], found["RocketMQ"])


def _rows(shape: Shape, ours: list[Measured], real: list[Measured]) -> Iterator[Row]:
    rates = ([one.per_second for one in ours], [one.per_second for one in real])
    plain = sides(*rates, "/s")
    yield told(Row(f"classic_{shape.name}", shape.what, shape.rate_aim, ratios(*rates), plain))
    costs = ([one.us for one in ours], [one.us for one in real])
    what = f"processor time of a message, {shape.what}"
    plain = sides(*costs, "µs", 1)
    yield told(Row(f"classic_{shape.name}_cpu", what, CPU, ratios(*costs), plain))
