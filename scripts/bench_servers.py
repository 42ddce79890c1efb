"""Servers under measurement, started as processes on loopback and ended by pid."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc

from broker.rpc.pb import broker_pb2 as pb

ROOT = Path(__file__).resolve().parents[1]
BROKER = "/pocketmq.v1.Broker/"


class Server:
    """A running process with a gRPC port."""

    def __init__(self, process: subprocess.Popen[str], target: str, store: Path | None) -> None:
        self.process = process
        self.target = target
        self.store = store

    def call(self, method: str, request: bytes, *, timeout_s: float = 60) -> bytes:
        """Return the bytes one call answers."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(self.target, options=options) as channel:
            answer: bytes = channel.unary_unary(method)(request, timeout=timeout_s)
            return answer

    def stored_count(self, topic: str, queue_count: int) -> int:
        """Return how many messages the queues of a topic hold."""
        total = 0
        for queue_id in range(queue_count):
            request = pb.QueryOffsetsRequest(topic=topic, queue_id=queue_id)
            answer = self.call(BROKER + "QueryOffsets", request.SerializeToString())
            total += pb.QueryOffsetsResponse.FromString(answer).max_offset
        return total

    def anonymous_mib(self) -> float:
        """Return the process's RssAnon."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"RssAnon:\s+(\d+)", status)
        return int(match[1]) / 1024 if match else 0.0


@contextmanager
def noop_server(pull_answer: bytes = b"") -> Iterator[Server]:
    """Run the bare server."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pull_answer)
        command = [sys.executable, str(ROOT / "scripts/bench_noop.py"), file.name]
        with _running(command) as process:
            assert process.stdout is not None
            yield Server(process, f"127.0.0.1:{process.stdout.readline().strip()}", None)


@contextmanager
def broker_server(*settings: str, directory: Path | None = None) -> Iterator[Server]:
    """Run the daemon on a store of its own (or the one given) with these --set settings."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as temporary:
        store = directory or Path(temporary) / "store"
        command = [sys.executable, "-m", "broker", "serve", "--store", str(store)]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for setting in settings:
            command += ["--set", setting]
        with _running(command) as process:
            assert process.stdout is not None
            ready: dict[str, Any] = json.loads(process.stdout.readline())
            yield Server(process, ready["grpc"], store)


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def seconds_to_ready() -> float:
    """Return how long the daemon takes from its command to its ready line, on an empty store."""
    begun = perf_counter()
    with broker_server():
        return perf_counter() - begun


def load(
    server: Server, method: str, request: bytes, *, in_flight: int, seconds: float
) -> dict[str, float]:
    """Drive a server and return what the generator counted."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(request)
        command = [sys.executable, str(ROOT / "scripts/bench_load.py"), server.target, method]
        command += [file.name, str(in_flight), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    result: dict[str, float] = json.loads(done.stdout)
    if result["failed"]:
        raise SystemExit(f"{method}: {result['failed']} calls failed")
    return result
