"""Classic clients' requests, the same bytes to both brokers: sends, batches and pulls.

A generator in C (frames.c) loads both. It sends prepared frames, checks code and size of replies,
and keeps a fixed number of requests in flight on each connection.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from struct import Struct
from time import monotonic, sleep
from typing import Final, NamedTuple

from bench.peer.content import GROUP, TOPIC, UNARY_BYTES, equal_contents
from bench.peer.rocketmq import QUEUE_COUNT, broker_alone
from bench.peer.rows import Aim, Row, sides
from bench.peer.sends import told
from bench.peer.sides import MESSAGES_MAX, Extent
from bench.servers import ADMIN, ASYNC, broker_server
from harness.figures import alternated, ratios
from harness.process import CACHE, Failed, cpu_seconds, ended, need
from pocketmq.rpc.pb import admin_pb2

JARS: Final = ("broker", "namesrv")
BATCH: Final = 32
"""Messages of a batch, and of a pull."""
PULLED_MAX: Final = 100_000_000
"""Upper limit of messages that a run pulls: they stay in memory, unlike those that it sends."""
READY_SECONDS: Final = 240.0
SETTLE_SECONDS: Final = 0.2
_FRAME: Final = Struct(">II")
_ROW: Final = Struct(">iiiii")


class Shape(NamedTuple):
    """One row's requests.

    requests   encoded requests, used in turn
    messages   number of messages of each request
    in_flight  requests that wait for their replies on each connection
    reply_size_min   lower limit of a reply's bytes: a pull returns all messages that it asks for
    messages_max     upper limit of a run's messages
    """

    name: str
    what: str
    requests: Sequence[bytes]
    messages: int
    connections: int
    in_flight: int
    rate_aim: Aim
    reply_size_min: int = 0
    messages_max: int = MESSAGES_MAX


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
    Shape(
        "pull",
        "classic pull of 32",
        pulls(),
        BATCH,
        2,
        4,
        Aim(2.0),
        BATCH * UNARY_BYTES,
        PULLED_MAX,
    ),
)
CPU: Final = Aim(0.3, at_most=True)


def generate(target: str, shape: Shape, seconds: float) -> tuple[int, float]:
    """Loads a broker for a time, and reads all replies; returns their number and the seconds.

    Errors   NotHere: there is no C compiler; Failed: a reply has another code than 0 or is too
             short, or the broker closed a connection
    """
    port, most = target.rpartition(":")[2], shape.messages_max // shape.messages
    rest = (shape.connections, shape.in_flight, seconds, most, shape.reply_size_min)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"".join(shape.requests))
        said = ended([str(_generator()), port, *map(str, rest), file.name])
    replies, spent = said.split()
    return int(replies), float(spent)


@cache
def _generator() -> Path:
    program = CACHE / "bench" / "frames"
    program.parent.mkdir(parents=True, exist_ok=True)
    need("gcc", "it builds the generator of classic frames")
    ended(["gcc", "-O2", "-o", str(program), str(Path(__file__).parent / "frames.c")])
    return program


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

    Errors   Failed: that of the last call, after READY_SECONDS
    """
    end = monotonic() + READY_SECONDS
    while True:
        try:
            send()
        except Failed:
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
