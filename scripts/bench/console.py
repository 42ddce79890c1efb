"""The web console beside a broker with 10,000 topics, 1,000 groups and a million messages.

    python -m bench.console ENDPOINT FD        a console that reports its longest turn for SIGUSR1

The console runs in its own process, as a broker runs it. A turn is one callback of its event loop,
in processor time of the thread. Open pages are requests at the intervals of the pages' script.
"""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from threading import Event, Thread
from time import perf_counter, sleep, thread_time
from typing import Any, Final, NamedTuple

from bench.servers import (
    ADMIN,
    ASYNC,
    BROKER,
    Server,
    broker_server,
    lag_bound_ms,
    load,
    send_request,
)
from harness.figures import Extent, Figure, alternated, ratios
from harness.process import ROOT, anonymous_mib, cpu_seconds, environment, module, tell
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb

TOPICS: Final = 10_000
GROUPS: Final = 1_000
MESSAGES: Final = 1_000_000
BATCH: Final = 100
RATE: Final = 300.0
"""Sends a second, beside which pages are open."""
OPEN_S: Final = 12.0
PAUSE_S: Final = 2.0
"""Pause between two rounds of pages, in which kept answers become old."""
PAGES: Final = {
    "overview": "/", "topics": "/topics", "by rate": "/topics?sort=rate&q=9",
    "topic": "/topic?name=t7",
    "messages": "/messages?topic=t7&by=time", "by key": "/messages?topic=t7&by=key&q=key-7",
    "groups": "/groups?sort=lag", "group": "/group?name=g7", "clients": "/clients",
    "dead letters": "/dead-letters", "delayed": "/delayed", "transactions": "/transactions",
    "access": "/access", "settings": "/settings", "send": "/send", "tail": "/tail?topic=t7",
}  # fmt: skip
LIVE: Final = {
    "/overview/live": 2.0, "/overview/live?second": 2.0, "/topics?sort=rate": 5.0,
    "/groups?sort=lag": 5.0, "/topic?name=t7": 5.0,
}  # fmt: skip
"""The five open pages: what they load, and seconds between two loads; lists are loaded by hand."""


class ConsoleRun(NamedTuple):
    """A running console: its process, and its port."""

    process: "subprocess.Popen[str]"
    port: int

    def get(self, path: str, connection: HTTPConnection | None = None) -> float:
        """Loads a page; returns the time in ms.

        Errors   SystemExit: the page is not answered
        """
        using = connection or HTTPConnection("127.0.0.1", self.port, timeout=60)
        begun = perf_counter()
        using.request("GET", path)
        answer = using.getresponse()
        answer.read()
        took_ms = 1000 * (perf_counter() - begun)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")
        return took_ms

    def longest_ms(self) -> tuple[float, str]:
        """Returns the longest turn since the last question, and its callback."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGUSR1)
        longest: dict[str, Any] = json.loads(self.process.stdout.readline())
        return longest["ms"], longest["what"]


@contextmanager
def running_console(endpoint: str) -> Iterator[ConsoleRun]:
    """Runs a console."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            module("bench.console", endpoint, listener.fileno()), text=True, cwd=ROOT,
            stdout=subprocess.PIPE, env=environment(), pass_fds=(listener.fileno(),),
        )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield ConsoleRun(process, port)
        finally:
            process.kill()


def console_figures(extent: Extent) -> list[Figure]:
    """Pages, turns, memory and processor time of the console, and sends beside it."""
    with broker_server(ASYNC, "rpc.tls=false", "broker.auto_create_topics=true") as server:
        _fill(server, extent)
        with running_console(server.target) as console:
            figures = _pages(server, console, extent)
            figures += _open(server, console, extent)
            figures += _sends(server, console, extent)
            figures.append(
                Figure.of(
                    "console_memory", "RssAnon of the console's process",
                    [anonymous_mib(console.process.pid)], "MiB", "≤ 25",
                )
            )  # fmt: skip
    return figures


def _fill(server: Server, extent: Extent) -> None:
    names = [f"t{number}" for number in range(extent.count(TOPICS))]
    server.create_topics(dict.fromkeys(names, 4))
    count = extent.count(GROUPS)
    groups = [
        admin_pb2.CreateGroupRequest(name=f"g{at}").SerializeToString() for at in range(count)
    ]
    load(server, ADMIN + "CreateGroup", *groups, in_flight=8, count=count)
    requests = [send_request(BATCH, name, 0) for name in names]
    calls = extent.count(MESSAGES) // BATCH
    load(server, BROKER + "SendMessage", *requests, in_flight=8, count=calls)
    commits = [
        pb.CommitOffsetRequest(group=f"g{at}", topic=f"t{at}", queue_id=0, offset=at % BATCH)
        for at in range(count)
    ]
    sent = [one.SerializeToString() for one in commits]
    load(server, BROKER + "CommitOffset", *sent, in_flight=8, count=count)
    server.catch_up()


def _pages(server: Server, console: ConsoleRun, extent: Extent) -> list[Figure]:
    for path in PAGES.values():
        console.get(path)  # The first visit imports and compiles.
    times: dict[str, list[float]] = {name: [] for name in PAGES}
    turns, lags = [], []
    console.longest_ms()
    for _ in range(extent.rounds):
        sleep(PAUSE_S)
        before, each = server.page("/metrics"), {}
        for name, path in PAGES.items():
            times[name].append(console.get(path))
            each[name] = console.longest_ms()
        lags.append(lag_bound_ms(before, server.page("/metrics")) or 0.0)
        worst = max(each, key=lambda name: each[name][0])
        turns.append(each[worst][0])
        tell({"turn_ms": turns[-1], "page": worst, "callback": each[worst][1]})
    tell({"pages_ms": {name: [round(one) for one in taken] for name, taken in times.items()}})
    slowest = max(times, key=lambda name: max(times[name]))
    rounds = [max(taken[at] for taken in times.values()) for at in range(extent.rounds)]
    return [
        Figure.of("console_page", f"the slowest page ({slowest})", rounds, "ms", "≤ 300"),
        Figure.of("console_turn", "longest turn of the console's loop", turns, "ms", "≤ 5"),
        Figure.of("console_broker_lag", "the broker's loop meanwhile, upper bound", lags, "ms"),
    ]


def _spent(server: Server, console: ConsoleRun) -> float:
    return cpu_seconds(server.process.pid) + cpu_seconds(console.process.pid)


def _open(server: Server, console: ConsoleRun, extent: Extent) -> list[Figure]:
    seconds = extent.seconds(OPEN_S)

    def share(pages: Mapping[str, float]) -> float:
        with _opened(console, pages):
            sleep(1)
            begun = _spent(server, console)
            sleep(seconds)
            return 100 * (_spent(server, console) - begun) / seconds

    subjects = {"none": partial(share, {}), "overview": partial(share, {"/overview/live": 2.0})}
    found = alternated(extent.rounds, subjects, unit="% of a core")
    added = [one - other for one, other in zip(found["overview"], found["none"], strict=True)]
    what = "processor time of an open overview, console and broker"
    return [Figure.of("console_open", what, added, "%", "≤ 1")]


def _sends(server: Server, console: ConsoleRun, extent: Extent) -> list[Figure]:
    request = send_request(1, "t7", 0)

    def p99(pages: Mapping[str, float]) -> float:
        with _opened(console, pages):
            run = load(
                server, BROKER + "SendMessage", request, rate=RATE, seconds=extent.seconds(OPEN_S)
            )
        return run["p99_ms"]

    found = alternated(
        extent.rounds, {"open": partial(p99, LIVE), "none": partial(p99, {})}, unit="p99, ms"
    )
    rounds = ratios(found["open"], found["none"])
    return [
        Figure.of(
            "console_sends", "p99 of sends: five pages open ÷ none", rounds, "ratio", "≤ 1.1"
        ),
        Figure.of("console_sends_p99", "p99 of sends with none open", found["none"], "ms"),
    ]


@contextmanager
def _opened(console: ConsoleRun, pages: Mapping[str, float]) -> Iterator[None]:
    """Loads pages at their intervals during the block."""
    closed = Event()

    def watch(path: str, interval_s: float) -> None:
        connection = HTTPConnection("127.0.0.1", console.port, timeout=60)
        while not closed.wait(interval_s):
            console.get(path, connection)

    threads = [Thread(target=watch, args=pair) for pair in pages.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        closed.set()
        for thread in threads:
            thread.join()


def _serve(endpoint: str, number: str) -> None:
    """Serves a console, each turn of which is timed."""
    from pocketmq.console.__main__ import main

    longest: dict[str, Any] = {"ms": 0.0, "what": ""}
    kind: Any = asyncio.Handle
    run = kind._run

    def timed(handle: Any) -> None:
        begun = thread_time()
        run(handle)
        took_ms = 1000 * (thread_time() - begun)
        if took_ms > longest["ms"]:
            callback = handle._callback
            longest.update(ms=took_ms, what=str(getattr(callback, "__self__", callback))[:300])

    def report(*_: object) -> None:
        print(json.dumps(longest), flush=True)
        longest.update(ms=0.0, what="")

    kind._run = timed
    signal.signal(signal.SIGUSR1, report)
    main(endpoint, "", number)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
