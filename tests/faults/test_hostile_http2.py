"""S3: peers that keep to no rule of HTTP/2, against the daemon, while four good clients work.

Whatever they do: the broker's memory stays within a bound, its health answers, the good clients'
messages are stored, and when they are gone everything is as before.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from struct import pack
from time import monotonic, perf_counter, sleep
from typing import Any, Final

import grpc
import pytest
from h2.exceptions import ProtocolError

from pocketmq.rpc.pb import broker_pb2 as pb
from tests.e2e.daemon import LATE_FACTOR, Daemon, is_busy
from tests.kit.raw_http2 import CONTINUATION, HEADERS, PING, RawClient

SEED: Final = int(os.environ.get("SEED", "1"))
GROWTH_MAX: Final = {"own": 64 * 1024 * 1024, "grpcio": 256 * 1024 * 1024}
"""Bytes of memory that an attack may cost, by what carries the calls."""
HEALTH_S: Final = 0.2
UNREAD_COUNT: Final = 16
"""Calls of each of half as many connections whose answers are never read."""
UNREAD_SIZE: Final = 15 << 20
LARGE_ANSWERS_MAX: Final = {
    "own": GROWTH_MAX["own"],
    "grpcio": 2 * UNREAD_COUNT**2 // 2 * UNREAD_SIZE,
}
"""The same where answers of 12 MiB are asked for and not read: our own makes one at a time, and no
more than are kept; grpcio keeps all that handlers gave, and copies."""
LARGE_ANSWERS_S: Final = {"own": HEALTH_S, "grpcio": 1.0}
"""How late health may be then."""
SEND: Final = "pocketmq.v1.Broker/SendMessage"
PULL: Final = "pocketmq.v1.Broker/PullMessage"
GOOD_COUNT: Final = 4
GOOD_SENDS: Final = 2 * GOOD_COUNT
"""Sends that must succeed while an attack goes on."""
CONNECTIONS: Final = 100
STREAMS: Final = 100
ATTACK_S: Final = float(os.environ.get("HOSTILE_S", "1"))
"""How long each attack lasts at most; the long tier (scripts/torture/http2.py) takes 60 s."""
TRANSPORTS: Final = ("own", "grpcio") if ATTACK_S > 1 else ("own",)
"""What carries the attacked calls: grpcio, which is for comparison, in the long tier."""
COUNT_FACTOR: Final = max(1, int(ATTACK_S / 2))
"""How much more may be done in that time."""
LATE: Final = re.compile(r'event_loop_lag_seconds_bucket\{.*le="([^"]+)".*\} (\S+)')
GARBAGE_PER_S: Final = 10 << 20
MESSAGE: Final = 4 << 20


class Besieged(Daemon):
    """A broker whose event loop may be late: it has thousands of calls to send away."""

    def __init__(self, store: Path, transport: str) -> None:
        super().__init__(store, "--transport", transport)
        self.transport = transport

    def _check_lateness(self) -> None:
        pass

    def in_time(self) -> dict[float, float]:
        """Returns how many looks at the event loop were late by so many seconds at most."""
        return {float(le): float(n) for le, n in LATE.findall(self.page("/metrics").text)}

    def anonymous_bytes(self) -> int:
        """Returns the memory it holds that is no file's."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


class Watch:
    """Four good clients and a look at health and memory, each as fast as it is answered."""

    def __init__(self, broker: Besieged) -> None:
        self._broker = broker
        self._stop = threading.Event()
        self.base = self.peak = broker.anonymous_bytes()
        self.sent = self.refused = 0
        self.health: list[float] = []
        self.waits: list[float] = []
        """How long each good send took."""
        self.errors: list[BaseException] = []
        self._late = broker.in_time()
        works = [*[self._send] * GOOD_COUNT, self._look]
        self._threads = [threading.Thread(target=self._work, args=(work,)) for work in works]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # On a slow machine an attack may be over before the good clients came to their turn.
        while self.sent < GOOD_SENDS and not self.errors:
            sleep(0.01)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test tells
            self.errors.append(error)

    def _send(self) -> None:
        message = pb.Message(topic="orders", body=b"good" * 100)
        raw = pb.SendMessageRequest(messages=[message]).SerializeToString()
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(self._broker.endpoint, options) as channel:
            call: Any = channel.unary_unary(f"/{SEND}")
            while not self._stop.wait(0.01):
                begun = perf_counter()
                try:
                    call(raw, timeout=30)
                    self.waits.append(perf_counter() - begun)
                    self.sent += 1
                except grpc.RpcError as error:
                    code: Any = error
                    if code.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise
                    self.refused += 1

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            begun = perf_counter()
            assert self._broker.page("/readyz").status == 200
            self.health.append(perf_counter() - begun)
            self.peak = max(self.peak, self._broker.anonymous_bytes())

    def loop_late_ms(self) -> float:
        """Returns what the broker's own loop was late at most, but for one time in a hundred."""
        counts = {le: n - self._late[le] for le, n in self._broker.in_time().items()}
        enough = 0.99 * max(counts.values())
        return 1000 * min(bound for bound, count in counts.items() if count >= enough)

    def check(self, growth_max: dict[str, int] = GROWTH_MAX, health_s: float = HEALTH_S) -> None:
        """Fails where a good client suffered.

        growth_max   bytes, by what carries the calls
        """
        assert not self.errors, self.errors
        growth = self.peak - self.base
        late = sorted(self.health)[int(len(self.health) * 0.99)]
        slow = sorted(self.waits)[int(len(self.waits) * 0.99)]
        print(
            f"{self._broker.transport}: {self.sent} good sends in {slow * 1000:.0f} ms,"
            f" {self.refused} put off, health {late * 1000:.0f} ms,"
            f" loop {self.loop_late_ms():.0f} ms, memory + {growth >> 20} MiB"
        )
        assert growth <= growth_max[self._broker.transport]
        assert late <= health_s * (LATE_FACTOR if is_busy() else 1)


@pytest.fixture(scope="module", params=TRANSPORTS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Besieged]:
    store = tmp_path_factory.mktemp("hostile") / "s"
    with Besieged(store, request.param) as daemon:
        assert daemon.ask("topic", "create", "orders", "--queues", "1").code == 0
        assert daemon.ask("topic", "create", "large", "--queues", "1").code == 0
        with grpc.insecure_channel(daemon.endpoint) as channel:
            call: Any = channel.unary_unary(f"/{SEND}")
            for _ in range(4):
                message = pb.Message(topic="large", body=bytes(MESSAGE - 4096))
                call(pb.SendMessageRequest(messages=[message]).SerializeToString(), timeout=30)
        yield daemon


def is_well(broker: Besieged) -> bool:
    """Returns whether a new client is served, and at once."""
    with RawClient(broker.endpoint) as peer:
        stream = peer.call(SEND)
        message = pb.Message(topic="orders", body=b"after")
        peer.message(stream, pb.SendMessageRequest(messages=[message]).SerializeToString())
        return peer.ending(stream).get("grpc-status") == "0"


def unfinished(peers: list[RawClient], streams: int) -> list[tuple[RawClient, dict[int, int]]]:
    """Begins messages on every connection; returns what is left of each."""
    begun = []
    for peer in peers:
        left = {}
        for _ in range(streams):
            stream = peer.call(SEND, flush=False)
            peer.http2.send_data(stream, pack(">BI", 0, MESSAGE))
            left[stream] = MESSAGE - 1
        peer.flush()
        begun.append((peer, left))
    return begun


def test_messages_that_never_end_fill_no_memory(broker: Besieged) -> None:
    sent = cut_off = 0
    with ExitStack() as open_ones, Watch(broker) as watch:
        peers = [open_ones.enter_context(RawClient(broker.endpoint)) for _ in range(CONNECTIONS)]
        begun = unfinished(peers, STREAMS)
        until = monotonic() + 2 * ATTACK_S
        while monotonic() < until:
            for place, (peer, left) in enumerate(begun):
                try:
                    peer.listen()
                    for stream in list(left):
                        size = peer.push(stream, left[stream])
                        left[stream] -= max(size, 0)
                        sent += max(size, 0)
                        if size < 0:
                            del left[stream]
                except (ProtocolError, OSError):  # cut off: it comes again
                    cut_off += 1
                    again = open_ones.enter_context(RawClient(broker.endpoint))
                    begun[place] = unfinished([again], STREAMS)[0]
    kept = sum(len(left) for _, left in begun)
    print(
        f"{CONNECTIONS * STREAMS} messages begun, {sent >> 20} MiB sent, {kept} not ended,"
        f" {cut_off} connections cut off, repro: SEED={SEED}"
    )
    watch.check()
    assert is_well(broker)


Attack = Callable[[Besieged, float], int]


def rapid_reset(broker: Besieged, until: float) -> int:
    """Opens streams and takes them back at once."""
    count = 0
    while monotonic() < until:
        with RawClient(broker.endpoint) as peer, suppress(ProtocolError, OSError):
            while monotonic() < until and count < 50_000:
                for _ in range(100):
                    stream = peer.call(SEND, flush=False)
                    peer.http2.reset_stream(stream)
                    count += 1
                peer.flush()
                peer.listen()
    return count


def pings(broker: Besieged, until: float) -> int:
    """Ping, and read no answer."""
    count = 0
    with RawClient(broker.endpoint) as peer:
        flood = peer.frame(PING, 0, 0, b"12345678") * 1_000
        peer.socket.settimeout(0.5)
        while monotonic() < until and peer.throw(flood):
            count += 1_000
    return count


def continuations(broker: Besieged, until: float) -> int:
    """Begins headers that never end."""
    count = 0
    while monotonic() < until:
        with RawClient(broker.endpoint) as peer:
            peer.throw(peer.frame(HEADERS, 0, 1, b"\x82"))
            piece = peer.frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 1_000) * 10
            while monotonic() < until and peer.throw(piece):
                count += 10
    return count


def large_metadata(broker: Besieged, until: float) -> int:
    """Sends a megabyte of metadata with each call."""
    count = 0
    while monotonic() < until and count < 50 * COUNT_FACTOR:
        with RawClient(broker.endpoint) as peer, suppress(ProtocolError, OSError):
            extra = [(f"x-{n}", "v" * 8_000) for n in range(128)]
            stream = peer.call(SEND, extra)
            # grpcio leaves some without an answer.
            assert peer.ending(stream, max(until - monotonic(), 0.1)).get("grpc-status") != "0"
        count += 1
    return count


def garbage(broker: Besieged, until: float) -> int:
    """Sends bytes that mean nothing, and frames of random kinds."""
    random, count = Random(SEED), 0
    while monotonic() < until and count < 300 * COUNT_FACTOR:
        with RawClient(broker.endpoint) as peer:
            for _ in range(5):
                kind, flags = random.randrange(12), random.randrange(256)
                stream, size = random.choice((0, 1, 2, 2**31 - 1)), random.randrange(64)
                peer.throw(peer.frame(kind, flags, stream, random.randbytes(size)))
            peer.throw(random.randbytes(1_000))
        count += 1
    return count


def much_garbage(broker: Besieged, until: float) -> int:
    """Sends so many bytes a second in frames that mean nothing, and as many that are none."""
    random, sent, begun = Random(SEED), 0, monotonic()
    noise = random.randbytes(1 << 20)
    with ExitStack() as open_ones:
        while (now := monotonic()) < until:
            peer = open_ones.enter_context(RawClient(broker.endpoint))
            frame = peer.frame(random.randrange(10, 256), 0, random.randrange(3), noise[:16_384])
            while monotonic() < min(until, now + 0.5) and peer.throw(frame):
                sent += len(frame)
                sleep(max(0.0, begun + sent / GARBAGE_PER_S - monotonic()))
            with RawClient(broker.endpoint) as other:
                at = random.randrange(1 << 19)
                other.throw(noise[at : at + (1 << 19)])
                sent += 1 << 19
            open_ones.pop_all().close()
    assert sent > GARBAGE_PER_S * (monotonic() - begun) / 4, "it is much"
    return sent >> 20


def silence(broker: Besieged, until: float) -> int:
    """Connects, and sends nothing."""
    with ExitStack() as open_ones:
        for count in range(500):
            open_ones.enter_context(RawClient(broker.endpoint)).socket.settimeout(1)
            if monotonic() > until:
                return count
        return 500


def slow_readers(broker: Besieged, until: float) -> int:
    """Asks for large answers, and reads none of them."""
    with ExitStack() as open_ones:
        for _ in range(UNREAD_COUNT // 2):
            peer = open_ones.enter_context(RawClient(broker.endpoint))
            for _ in range(UNREAD_COUNT):
                request = pb.PullMessageRequest(topic="large", max_bytes=UNREAD_SIZE)
                peer.message(peer.call(PULL), request.SerializeToString())
        while monotonic() < until:
            if broker.page("/livez").status != 200:
                return 0
    return UNREAD_COUNT**2 // 2


def refused(raw: bytes, *, flag: int = 0, encoding: str = "") -> Attack:
    """Returns an attack by one request, sent again and again on new connections."""

    def attack(broker: Besieged, until: float) -> int:
        count = 0
        while monotonic() < until and count < 10 * COUNT_FACTOR:
            with RawClient(broker.endpoint) as peer, suppress(OSError):
                extra = [("grpc-encoding", encoding)] if encoding else []
                stream = peer.call(SEND, extra)
                whole = pack(">BI", flag, len(raw)) + raw
                position = 0
                while position < len(whole) and monotonic() < until:
                    room = peer.http2.local_flow_control_window(stream)
                    size = min(room, 16_384, len(whole) - position)
                    if size <= 0:
                        peer.listen(0.05)
                        continue
                    piece = whole[position : position + size]
                    position += size
                    peer.http2.send_data(stream, piece, end_stream=position == len(whole))
                    peer.flush()
                if position == len(whole):
                    assert peer.ending(stream).get("grpc-status") not in (None, "0", "13")
                    count += 1
        return count

    return attack


def gzip_bomb() -> bytes:
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join([*(packer.compress(zeros) for _ in range(256)), packer.flush()])


def nested(depth: int) -> bytes:
    return b"\x0b" * depth


ATTACKS: Final[dict[str, Callable[[], Attack]]] = {
    "rapid reset": lambda: rapid_reset,
    "pings": lambda: pings,
    "continuations": lambda: continuations,
    "large metadata": lambda: large_metadata,
    "garbage": lambda: garbage,
    "10 MiB of garbage a second": lambda: much_garbage,
    "silence": lambda: silence,
    "slow readers": lambda: slow_readers,
    "2 M empty messages": lambda: refused(b"\n\0" * (2 << 20)),
    "deep nesting": lambda: refused(nested(60_000)),
    "gzip bomb": lambda: refused(gzip_bomb(), flag=1, encoding="gzip"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_survived(broker: Besieged, name: str) -> None:
    attack = ATTACKS[name]()
    with Watch(broker) as watch:
        count = attack(broker, monotonic() + ATTACK_S)
    print(f"{name}: {count}, repro: SEED={SEED}")
    if attack is slow_readers:
        watch.check(LARGE_ANSWERS_MAX, LARGE_ANSWERS_S[broker.transport])
    else:
        watch.check()
    assert count
    assert is_well(broker)


def test_afterwards_everything_is_as_before(broker: Besieged) -> None:
    assert broker.ask("store", "status").code in (0, 2)
    assert "rpc.failed" not in broker.log.read_text()
    assert broker.log.stat().st_size < 1 << 20
