"""Pulls compared with an earlier commit, and uncompiled sends with a bare grpc.aio server."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep
from typing import Final, NamedTuple

from bench.peer.clients import Run, h2load
from bench.peer.content import TOPIC, equal_contents, unary_content, v1_request
from bench.peer.rows import Aim, Row, sides
from bench.peer.sends import told
from bench.peer.sides import Extent
from bench.servers import ASYNC, BROKER, Server, broker_server, noop_server
from harness.figures import alternated, ratios
from harness.process import ROOT, ended, need
from pocketmq.rpc.pb import broker_pb2 as pb

BASELINE: Final = "b091470"
PULLED: Final = 32
SHAPES: Final = {
    pb.MESSAGES: ("MESSAGES", Aim(0.25, at_most=True)),
    pb.RECORDS: ("RECORDS", Aim(0.15, at_most=True)),
}
PLAIN: Final = Aim(2.0)
WARM_CALLS: Final = 500


class _Called(NamedTuple):
    run: Run
    us: float


class _Subject:
    """A server and a call whose replies always have the same length."""

    def __init__(self, server: Server, method: str, request: bytes) -> None:
        self._server = server
        self._method = method
        self._request = request
        self._answer_bytes = len(server.call(method, request))

    def run(self, calls: int) -> _Called:
        """Makes `calls` calls.

        Errors   SystemExit: the mean length of replies differs from that of the first reply
        """
        before = self._server.cpu_seconds
        run = h2load(self._server.target, self._method, self._request, calls)
        spent = self._server.cpu_seconds - before
        if not 0.8 < run.answer_bytes / calls / (self._answer_bytes + 5) < 1.2:
            raise SystemExit(f"{self._method}: {run.answer_bytes} bytes in {calls} answers")
        return _Called(run, 1e6 * spent / calls)


def _rounds(subjects: Sequence[_Subject], extent: Extent, seconds: float) -> list[list[_Called]]:
    """Warms all subjects, then runs them in alternating order; returns the rounds of each."""
    runs = {}
    for number, subject in enumerate(subjects):
        first = subject.run(WARM_CALLS).run
        again = subject.run(max(WARM_CALLS, int(first.per_second * seconds / 2))).run
        runs[number] = partial(subject.run, max(64, int(again.per_second * seconds)))
    return [*alternated(extent.rounds, runs).values()]


def pull_rows(extent: Extent) -> Iterator[Row]:
    """The server's processor time of a pulled message, compared with the earlier commit."""
    with (
        tree(BASELINE) as root,
        broker_server(ASYNC, *extent.settings) as ours,
        broker_server(ASYNC, root=root) as earlier,
    ):
        for server in (ours, earlier):
            _fill(server)
        for shape, (name, aim) in SHAPES.items():
            request = pb.PullMessageRequest(
                topic=TOPIC, queue_id=0, max_messages=PULLED, shape=shape
            ).SerializeToString()
            subjects = [
                _Subject(server, BROKER + "PullMessage", request) for server in (ours, earlier)
            ]
            own, other = (
                [one.us / PULLED for one in found]
                for found in _rounds(subjects, extent, extent.seconds)
            )
            what = f"processor time of a message, pull of 32 × 1 KiB as {name}, to {BASELINE}"
            plain = sides(own, other, "µs", 2)
            yield told(Row(f"pull_{name.lower()}", what, aim, ratios(own, other), plain))


def plain_rows(extent: Extent) -> Iterator[Row]:
    """Uncompiled sends, compared with a grpc.aio server that parses but stores nothing."""
    request = v1_request([unary_content()])
    pure = broker_server(ASYNC, *extent.settings, environment={"POCKETMQ_PURE": "1"})
    with pure as ours, noop_server() as noop:
        subjects = [_Subject(server, BROKER + "SendMessage", request) for server in (ours, noop)]
        own, other = _rounds(subjects, extent, extent.seconds)
    rates = ([one.run.per_second for one in own], [one.run.per_second for one in other])
    what = "unary send, not compiled (POCKETMQ_PURE=1), to a no-op on grpc.aio"
    yield told(Row("plain", what, PLAIN, ratios(*rates), sides(*rates, "/s")))
    costs = ([one.us for one in own], [one.us for one in other])
    what = "processor time of the same"
    yield told(Row("plain_cpu", what, None, ratios(*costs), sides(*costs, "µs", 1)))


def _fill(server: Server) -> None:
    """Stores the messages to pull in queue 0, and some more after them."""
    for _ in range(4):
        messages = [
            pb.Message(topic=TOPIC, queue_id=0, body=one.body, tag=one.tag, keys=one.keys)
            for one in equal_contents(PULLED)
        ]
        server.send(messages)
    while server.queue_end(TOPIC, 0) < 4 * PULLED:
        sleep(0.02)


@contextmanager
def tree(commit: str) -> Iterator[Path]:
    """Checks out the sources of a commit in a temporary directory.

    Errors   Failed: this clone lacks the commit
    """
    need("git", f"it lays out the sources of {commit}")
    with tempfile.TemporaryDirectory(prefix="pocketmq-baseline-") as temporary:
        tar, sources = Path(temporary) / "tar", Path(temporary) / "sources"
        ended(["git", "-C", str(ROOT), "archive", "--format=tar", "-o", str(tar), commit])
        sources.mkdir()
        ended(["tar", "-xf", str(tar), "-C", str(sources)])
        yield sources
