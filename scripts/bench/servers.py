"""Servers under measurement, started as processes on loopback and ended by pid."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any
from urllib.request import ProxyHandler, build_opener

import grpc

from bench.load import framed
from bench.process import anonymous_mib
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
BROKER = "/pocketmq.v1.Broker/"
ADMIN = "/pocketmq.v1.Admin/"
ASYNC = "store.flush=async"
TOPIC = "bench"
BODY = random.Random(1).randbytes(1024)
CATCH_UP_SECONDS = 60
END_SECONDS = 60
SAID_MAX = 4_000
"""Letters of a server's log that are shown when a measurement fails."""

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

    def __init__(
        self, process: subprocess.Popen[str], target: str, store: Path | None, http: str = ""
    ) -> None:
        self.process = process
        self.target = target
        self.store = store
        self.http = http

    def call(self, method: str, request: bytes, *, timeout_s: float = 60) -> bytes:
        """Returns the bytes one call answers."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(self.target, options=options) as channel:
            answer: bytes = channel.unary_unary(method)(request, timeout=timeout_s)
            return answer

    def send(self, messages: Sequence[pb.Message]) -> None:
        """Stores messages of one queue."""
        request = pb.SendMessageRequest(messages=messages)
        self.call(BROKER + "SendMessage", request.SerializeToString())

    def create_topics(self, queue_counts: Mapping[str, int]) -> None:
        """Makes topics with so many queues each."""
        requests = [
            admin_pb2.CreateTopicRequest(name=topic, queue_count=count).SerializeToString()
            for topic, count in queue_counts.items()
        ]
        load(self, ADMIN + "CreateTopic", *requests, in_flight=8, count=len(requests))

    def status(self) -> admin_pb2.StoreStatusResponse:
        """Returns the numbers that describe the store."""
        return admin_pb2.StoreStatusResponse.FromString(self.call(ADMIN + "StoreStatus", b""))

    def queue_end(self, topic: str, queue_id: int) -> int:
        """Returns the queue offset behind a queue's last message."""
        request = pb.QueryOffsetsRequest(topic=topic, queue_id=queue_id)
        answer = self.call(BROKER + "QueryOffsets", request.SerializeToString())
        return pb.QueryOffsetsResponse.FromString(answer).max_offset

    def stored_count(self, topic: str, queue_count: int) -> int:
        """Returns how many messages the queues of a topic took."""
        return sum(self.queue_end(topic, queue_id) for queue_id in range(queue_count))

    def topic_count(self, topic: str) -> int:
        """Returns how many messages a topic took: one call, however many queues it has."""
        request = admin_pb2.DescribeTopicRequest(name=topic).SerializeToString()
        answer = self.call(ADMIN + "DescribeTopic", request)
        queues = admin_pb2.DescribeTopicResponse.FromString(answer).queues
        return sum(queue.max_offset for queue in queues)

    def check_stored(self, acknowledged: dict[str, int]) -> None:
        """Ends the measurement unless each topic holds what was acknowledged."""
        self.catch_up()
        for topic, count in acknowledged.items():
            stored = self.topic_count(topic)
            if stored != count:
                raise SystemExit(f"{topic}: acknowledged {count} messages, stored {stored}")

    def catch_up(self) -> None:
        """Waits until queues and index know every message."""
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
        with _open(f"http://{self.http}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text


@contextmanager
def noop_server(pull_answer: bytes = b"") -> Iterator[Server]:
    """Runs the bare server."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pull_answer)
        command = [sys.executable, "-m", "bench.noop", file.name]
        with _running(command) as (process, line):
            yield Server(process, f"127.0.0.1:{line.strip()}", None)


@contextmanager
def bare_server(answer: bytes) -> Iterator[Server]:
    """Runs a server in C that gives every call this answer (bench/bare).

    Errors   SystemExit: there is no C compiler, or it does not build
    """
    program = ROOT / ".cache" / "bench" / "bare"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-O2", "-o", str(program), str(Path(__file__).parent / "bare" / "bare.c")]
    if shutil.which("gcc") is None or subprocess.run(command, check=False).returncode:
        raise SystemExit("the bare server cannot be built: gcc is missing, or refuses it")
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(answer)
        with _running([str(program), file.name]) as (process, line):
            yield Server(process, f"127.0.0.1:{line.strip()}", None)


@contextmanager
def broker_server(
    *settings: str,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    root: Path = ROOT,
) -> Iterator[Server]:
    """Runs the daemon with these --set settings on a store of its own, or on the one given.

    The one given is closed in order; its own is thrown away.
    environment   variables besides those there are
    root          the source tree the daemon is run from
    """
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
        store = directory or Path(temporary) / "store"
        command = [sys.executable, "-m", "pocketmq", "serve", "--store", str(store)]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for setting in settings:
            command += ["--set", setting]
        in_order, more = directory is not None, environment or {}
        with _running(command, in_order=in_order, environment=more, root=root) as (process, line):
            ready: dict[str, Any] = json.loads(line)
            yield Server(process, ready["grpc"], store, ready["http"])


@contextmanager
def _running(
    command: list[str],
    *,
    in_order: bool = False,
    environment: Mapping[str, str] | None = None,
    root: Path = ROOT,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs a command and returns its process and the first line it prints."""
    with tempfile.TemporaryFile("w+") as said:
        # As users run it: modules are compiled once, whatever the environment says.
        own = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
        own |= {"PYTHONPATH": f"{root}:{root / 'broker'}:{root / 'scripts'}", **(environment or {})}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=root, env=own
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"{' '.join(command)} ended")
            yield process, line
        except BaseException:
            said.seek(0)
            print(said.read()[-SAID_MAX:], file=sys.stderr)
            raise
        finally:
            if in_order:
                process.terminate()
                _wait(process)
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"process {process.pid} does not end; it is killed", file=sys.stderr)


def seconds_to_ready() -> float:
    """Returns how long the daemon takes from its command to its ready line, on an empty store."""
    begun = perf_counter()
    with broker_server():
        return perf_counter() - begun


class Load:
    """A generator at work."""

    def __init__(self, process: subprocess.Popen[str], what: str) -> None:
        self._process = process
        self._what = what

    def wait_until_begun(self) -> None:
        """Returns when the first counted call goes out."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def result(self) -> dict[str, float]:
        """Returns what the generator counted, once it has ended."""
        out, said = self._process.communicate()
        if self._process.returncode:
            raise SystemExit(f"{self._what}\n{said}")
        result: dict[str, float] = json.loads(out.splitlines()[-1])
        if result["failed"]:
            raise SystemExit(f"{self._what}: {result['failed']:.0f} calls failed\n{said}")
        return result


@contextmanager
def loading(
    server: Server, method: str, requests: Sequence[bytes], *, in_flight: int = 1,
    seconds: float = 0, count: int = 0, rate: float = 0,
) -> Iterator[Load]:  # fmt: skip
    """Drives a server meanwhile; see load.py for what the numbers mean."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(framed(requests))
        command = [sys.executable, "-m", "bench.load", server.target, method]
        command += [file.name, "--in-flight", str(in_flight), "--seconds", str(seconds)]
        command += ["--count", str(count), "--rate", str(rate)]
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
    """Drives a server and returns what the generator counted."""
    with loading(
        server, method, requests, in_flight=in_flight, seconds=seconds, count=count, rate=rate
    ) as run:
        return run.result()
