"""Measured servers: processes that listen on loopback."""

import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.request import ProxyHandler, build_opener

import grpc
from prometheus_client.parser import text_string_to_metric_families

from bench.load import framed
from harness.process import (
    CACHE,
    ROOT,
    Serving,
    anonymous_mib,
    cpu_seconds,
    ended,
    module,
    need,
    running,
    serve,
)
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb

BROKER = "/pocketmq.v1.Broker/"
ADMIN = "/pocketmq.v1.Admin/"
ASYNC = "store.flush=async"
TOPIC = "bench"
BODY = random.Random(1).randbytes(1024)
CATCH_UP_SECONDS = 60
LAG = "pocketmq_event_loop_lag_seconds"

_open = build_opener(ProxyHandler({})).open


def send_request(count: int, topic: str = TOPIC, queue_id: int | None = None) -> bytes:
    """Returns the bytes of a SendMessage request: messages of 1 KiB, each with a tag and a key."""
    messages = [
        pb.Message(topic=topic, queue_id=queue_id, body=BODY, tag="TagA", keys=[f"key-{number}"])
        for number in range(count)
    ]
    return pb.SendMessageRequest(messages=messages).SerializeToString()


class Server:
    """A running process with a gRPC port, and with an HTTP port if it is a broker."""

    def __init__(self, serving: Serving, store: Path | None = None) -> None:
        self.process = serving.process
        self.target = serving.target if store is None else str(serving.ready["grpc"])
        self.store = store
        self._http = "" if store is None else str(serving.ready["http"])

    @property
    def cpu_seconds(self) -> float:
        """The process's processor time so far, of all threads."""
        return cpu_seconds(self.process.pid)

    def call(self, method: str, request: bytes, *, timeout_s: float = 60) -> bytes:
        """Makes a call; returns its encoded reply."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(self.target, options=options) as channel:
            answer: bytes = channel.unary_unary(method)(request, timeout=timeout_s)
            return answer

    def send(self, messages: Sequence[pb.Message]) -> None:
        """Stores messages of one queue."""
        request = pb.SendMessageRequest(messages=messages)
        self.call(BROKER + "SendMessage", request.SerializeToString())

    def create_topics(self, queue_counts: Mapping[str, int]) -> None:
        """Creates topics with the given numbers of queues."""
        requests = [
            admin_pb2.CreateTopicRequest(name=topic, queue_count=count).SerializeToString()
            for topic, count in queue_counts.items()
        ]
        load(self, ADMIN + "CreateTopic", *requests, in_flight=8, count=len(requests))

    def status(self) -> admin_pb2.StoreStatusResponse:
        """Returns the store's status."""
        return admin_pb2.StoreStatusResponse.FromString(self.call(ADMIN + "StoreStatus", b""))

    def queue_end(self, topic: str, queue_id: int) -> int:
        """Returns the queue offset after a queue's last message."""
        request = pb.QueryOffsetsRequest(topic=topic, queue_id=queue_id)
        answer = self.call(BROKER + "QueryOffsets", request.SerializeToString())
        return pb.QueryOffsetsResponse.FromString(answer).max_offset

    def stored_count(self, topic: str, queue_count: int) -> int:
        """Returns the number of messages in the queues of a topic."""
        return sum(self.queue_end(topic, queue_id) for queue_id in range(queue_count))

    def topic_count(self, topic: str) -> int:
        """Returns the number of messages in a topic, by one call for all its queues."""
        request = admin_pb2.DescribeTopicRequest(name=topic).SerializeToString()
        answer = self.call(ADMIN + "DescribeTopic", request)
        queues = admin_pb2.DescribeTopicResponse.FromString(answer).queues
        return sum(queue.max_offset for queue in queues)

    def check_stored(self, acknowledged: dict[str, int]) -> None:
        """Ends the measurement unless each topic contains as many messages as were acknowledged."""
        self.catch_up()
        for topic, count in acknowledged.items():
            stored = self.topic_count(topic)
            if stored != count:
                raise SystemExit(f"{topic}: acknowledged {count} messages, stored {stored}")

    def catch_up(self) -> None:
        """Waits until all messages are dispatched to queues and index."""
        end = monotonic() + CATCH_UP_SECONDS
        while (status := self.status()).dispatched_offset < status.appended_offset:
            if monotonic() > end:
                raise SystemExit(f"dispatch is behind for {CATCH_UP_SECONDS} s: {status}")
            sleep(0.02)

    def anonymous_mib(self) -> float:
        """Returns the process's RssAnon."""
        return anonymous_mib(self.process.pid)

    def page(self, path: str) -> str:
        """Returns a page of the HTTP port."""
        with _open(f"http://{self._http}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text


@contextmanager
def noop_server(pull_answer: bytes = b"") -> Iterator[Server]:
    """Runs the server of noop.py."""
    with _answering(module("bench.noop"), pull_answer) as server:
        yield server


@contextmanager
def bare_server(answer: bytes) -> Iterator[Server]:
    """Runs a server in C that returns `answer` for every call (bench/bare).

    Errors   NotHere: there is no C compiler; Failed: it does not build
    """
    program = CACHE / "bench" / "bare"
    program.parent.mkdir(parents=True, exist_ok=True)
    need("gcc", "it builds the bare server")
    ended(["gcc", "-O2", "-o", str(program), str(Path(__file__).parent / "bare" / "bare.c")])
    with _answering([str(program)], answer) as server:
        yield server


@contextmanager
def _answering(command: Sequence[str], answer: bytes) -> Iterator[Server]:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(answer)
        with running([*command, file.name]) as serving:
            yield Server(serving)


@contextmanager
def broker_server(
    *settings: str,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    root: Path = ROOT,
) -> Iterator[Server]:
    """Runs the daemon with --set settings on a given store, or on a temporary one.

    A given store is closed in order.

    environment   further environment variables
    root          source tree of the daemon
    """
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
        store, in_order = directory or Path(temporary) / "store", directory is not None
        command = serve(store, *settings)
        with running(command, in_order=in_order, root=root, variables=environment) as serving:
            yield Server(serving, store)


def bucket_counts(page: str) -> dict[float, float]:
    """Returns the cumulative observations of the lag's buckets, by upper bound."""
    counts: dict[float, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples if family.name == LAG else ():
            if sample.name == f"{LAG}_bucket":
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0) + sample.value
    return counts


def lag_bound_ms(before: str, after: str) -> float | None:
    """Returns the largest bucket bound (ms) of the loop's lag observed between two pages.

    Returns  None without an observation; inf above the last bound
    """
    old, new = bucket_counts(before), bucket_counts(after)
    added = {bound: count - old.get(bound, 0) for bound, count in new.items()}
    total = max(added.values(), default=0)
    if not total:
        return None
    return 1000 * min(bound for bound, count in added.items() if count == total)


class Load:
    """A running load generator."""

    def __init__(self, process: subprocess.Popen[str], what: str) -> None:
        self._process = process
        self._what = what

    def wait_until_begun(self) -> None:
        """Waits for the first counted call."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def result(self) -> dict[str, float]:
        """Waits for the generator's end; returns its results."""
        result: dict[str, float] = json.loads(self._printed()[-1])
        return result

    def latencies_ms(self) -> list[float]:
        """Waits for the end of a generator with `each`; returns the latencies of its calls."""
        return [latency_ms for _, latency_ms in self.calls()]

    def calls(self) -> list[tuple[float, float]]:
        """Waits for the end of a generator with `each`; returns begin and latency of its calls.

        Shape   (s of time.perf_counter, which all processes of the machine share; ms)
        """
        return [(begun, latency_ms) for begun, latency_ms in json.loads(self._printed()[-2])]

    def _printed(self) -> list[str]:
        out, said = self._process.communicate()
        if self._process.returncode:
            raise SystemExit(f"{self._what}\n{said}")
        lines = out.splitlines()
        failed = json.loads(lines[-1])["failed"]
        if failed:
            raise SystemExit(f"{self._what}: {failed:.0f} calls failed\n{said}")
        return lines


@contextmanager
def loading(
    server: Server, method: str, requests: Sequence[bytes], *, in_flight: int = 1,
    seconds: float = 0, count: int = 0, rate: float = 0, each: bool = False,
) -> Iterator[Load]:  # fmt: skip
    """Drives a server during the block; load.py explains the results."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(framed(requests))
        command = module("bench.load", server.target, method, file.name, "--in-flight", in_flight)
        command += ["--seconds", str(seconds), "--count", str(count), "--rate", str(rate)]
        command += ["--each"] if each else []
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        with process:
            try:
                yield Load(process, method)
            finally:
                if process.poll() is None:
                    process.kill()


def load(
    server: Server, method: str, *requests: bytes, in_flight: int = 1, seconds: float = 0,
    count: int = 0, rate: float = 0,
) -> dict[str, float]:  # fmt: skip
    """Drives a server; returns the generator's results."""
    with loading(
        server, method, requests, in_flight=in_flight, seconds=seconds, count=count, rate=rate
    ) as run:
        return run.result()
