"""The web console beside a broker with 10,000 topics, 1,000 groups and a million messages.

The console runs in its own process, as a broker runs it (timed_console.py). A turn is one callback
of its event loop, in processor time of the thread. Open pages are requests at the intervals of the
pages' script.
"""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any, Final, NamedTuple

from bench.load import percentile
from bench.servers import (
    ADMIN,
    ASYNC,
    BROKER,
    Server,
    broker_server,
    lag_bound_ms,
    load,
    loading,
    noop_server,
    send_request,
)
from harness.figures import Extent, Figure, alternated, turns
from harness.process import ROOT, anonymous_mib, cpu_seconds, environment, tell
from pocketmq.app.console import VARIABLES, start_command
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb

TOPICS: Final = 10_000
GROUPS: Final = 1_000
MESSAGES: Final = 1_000_000
BATCH: Final = 100
RATE: Final = 200.0
"""Sends a second, beside which pages are open."""
OPEN_S: Final = 12.0
SLICE_S: Final = 10.0
"""Time for which pages are open, or closed, before they change."""
SETTLE_S: Final = 0.5
STALL_MS: Final = 5.0
"""Duration of a bare server's call from which on the machine stalls; usually it takes 0.5 ms."""
PAIRS: Final = 3
"""Pairs of slices for each round of the other figures."""
FEW: Final = 10
"""Topics and groups of the first measurement of memory."""
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
            [*start_command(), "-m", "bench.timed_console", endpoint, str(listener.fileno())],
            text=True, cwd=ROOT, stdout=subprocess.PIPE, pass_fds=(listener.fileno(),),
            env=environment() | VARIABLES,
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
        _fill(server, FEW, FEW, FEW * BATCH)
        with running_console(server.target) as console:  # A first start writes byte code.
            _memory_after_pages(console)
        with running_console(server.target) as console:
            few_mib = _memory_after_pages(console)
        _fill(server, extent.count(TOPICS), extent.count(GROUPS), extent.count(MESSAGES))
        with running_console(server.target) as console:
            many_mib = _memory_after_pages(console)
            figures = _pages(server, console, extent)
            figures += _open(server, console, extent)
            figures += _sends(server, console, extent)
            last_mib = anonymous_mib(console.process.pid)
    whats = {
        "few": (f"RssAnon of the console's process, each page once, {FEW} topics", few_mib),
        "many": ("the same with all topics", many_mib), "long": ("the same at the end", last_mib),
    }  # fmt: skip
    return figures + [
        Figure.of(f"console_memory_{name}", what, [mib], "MiB", "≤ 25")
        for name, (what, mib) in whats.items()
    ]


def _memory_after_pages(console: ConsoleRun) -> float:
    for path in PAGES.values():
        console.get(path)
    return anonymous_mib(console.process.pid)


def _fill(server: Server, topics: int, count: int, messages: int) -> None:
    names = [f"t{number}" for number in range(topics)]
    server.create_topics(dict.fromkeys(names, 4))
    groups = [
        admin_pb2.CreateGroupRequest(name=f"g{at}").SerializeToString() for at in range(count)
    ]
    load(server, ADMIN + "CreateGroup", *groups, in_flight=8, count=count)
    requests = [send_request(BATCH, name, 0) for name in names]
    calls = messages // BATCH
    load(server, BROKER + "SendMessage", *requests, in_flight=8, count=calls)
    commits = [
        pb.CommitOffsetRequest(group=f"g{at}", topic=f"t{at}", queue_id=0, offset=at % BATCH)
        for at in range(count)
    ]
    sent = [one.SerializeToString() for one in commits]
    load(server, BROKER + "CommitOffset", *sent, in_flight=8, count=count)
    server.catch_up()


def _pages(server: Server, console: ConsoleRun, extent: Extent) -> list[Figure]:
    times: dict[str, list[float]] = {name: [] for name in PAGES}
    longest, lags = [], []
    console.longest_ms()
    for _ in range(extent.rounds):
        sleep(PAUSE_S)
        before, each = server.page("/metrics"), {}
        for name, path in PAGES.items():
            times[name].append(console.get(path))
            each[name] = console.longest_ms()
        lags.append(lag_bound_ms(before, server.page("/metrics")) or 0.0)
        worst = max(each, key=lambda name: each[name][0])
        longest.append(each[worst][0])
        tell({"turn_ms": longest[-1], "page": worst, "callback": each[worst][1]})
    tell({"pages_ms": {name: [round(one) for one in taken] for name, taken in times.items()}})
    slowest = max(times, key=lambda name: max(times[name]))
    rounds = [max(taken[at] for taken in times.values()) for at in range(extent.rounds)]
    return [
        Figure.of("console_page", f"the slowest page ({slowest})", rounds, "ms", "≤ 300"),
        Figure.of("console_turn", "longest turn of the console's loop", longest, "ms", "≤ 5"),
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
    """Sends at one rate, while pages are open and closed in slices of the same run.

    Both slices of a pair have about the same load by other programs. A bare server gets the same
    requests at the same rate meanwhile. While one of its calls takes STALL_MS, the machine stalls,
    not the broker: sends of that time do not count. The ratio of pairs of slices without open pages
    shows the noise.
    """
    length_s = extent.seconds(SLICE_S)
    order = [is_open for at in range(extent.rounds * PAIRS) for is_open in turns([True, False], at)]
    requests, seconds = [send_request(1, "t7", 0)], length_s * len(order) + SETTLE_S
    asked = partial(
        loading, method=BROKER + "SendMessage", requests=requests, rate=RATE, each=True,
        seconds=seconds,
    )  # fmt: skip
    slices: list[tuple[bool, float]] = []
    with noop_server() as noop, asked(noop) as bare_run, asked(server) as run:
        bare_run.wait_until_begun()
        run.wait_until_begun()
        for is_open in order:
            slices.append((is_open, perf_counter()))
            with _opened(console, LIVE if is_open else {}):
                sleep(length_s)
        found, bare = sorted(run.calls()), sorted(bare_run.calls())
    kept = beside(found, bare)
    pairs, all_pairs, bare_pairs = (
        [_p99s(calls, slices[at : at + 2], length_s) for at in range(0, len(slices), 2)]
        for calls in (kept, found, bare)
    )
    closed = [under for _, under in pairs]
    tell({
        "sends": len(found), "in_stalls": len(found) - len(kept), "load": os.getloadavg(),
        "pairs_ms": pairs, "all_pairs_ms": all_pairs, "bare_pairs_ms": bare_pairs,
    })  # fmt: skip
    noise = [over / under for over, under in zip(closed[1::2], closed[::2], strict=False)]
    share = 100 * (len(found) - len(kept)) / max(len(found), 1)
    return [
        Figure.of(
            "console_sends", "p99 of sends: five pages open ÷ none", *_ratios(pairs), "≤ 1.1"
        ),
        Figure.of("console_sends_noise", "the same ratio of none ÷ none", noise, "ratio"),
        Figure.of("console_sends_all", "the same with stalls of the machine", *_ratios(all_pairs)),
        Figure.of(
            "console_sends_bare", "the same of a bare server meanwhile", *_ratios(bare_pairs)
        ),
        Figure.of("console_sends_stalls", "sends in stalls of the machine", [share], "%"),
        Figure.of("console_sends_p99", "p99 of sends with none open", closed, "ms"),
    ]


def _ratios(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], str]:
    return [opened / closed for opened, closed in pairs], "ratio"


def beside(
    calls: Sequence[tuple[float, float]], bare: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Returns the calls during which no call of the bare server took STALL_MS.

    Both are (begin in s, latency in ms), in the order of begins.
    """
    stalls = [(begun, begun + ms / 1000) for begun, ms in bare if ms >= STALL_MS]
    kept: list[tuple[float, float]] = []
    first = 0
    for begun, ms in calls:
        while first < len(stalls) and stalls[first][1] < begun:
            first += 1
        if first == len(stalls) or begun + ms / 1000 < stalls[first][0]:
            kept.append((begun, ms))
    return kept


def _p99s(
    calls: Sequence[tuple[float, float]], slices: Sequence[tuple[bool, float]], length_s: float
) -> tuple[float, float]:
    """Returns the p99 in ms of the calls in slices with open pages, and in those without.

    slices   (are pages open, begin); the first SETTLE_S of each do not count
    """
    latencies: dict[bool, list[float]] = {True: [], False: []}
    for is_open, begun in slices:
        latencies[is_open] += [
            latency_ms
            for asked, latency_ms in calls
            if begun + SETTLE_S <= asked < begun + length_s
        ]
    opened, closed = (percentile(sorted(latencies[one]), 0.99) for one in (True, False))
    return opened, closed


@contextmanager
def _opened(console: ConsoleRun, pages: Mapping[str, float]) -> Iterator[None]:
    """Loads pages at their intervals during the block, each for the first time in its interval."""
    closed = Event()

    def watch(number: int, path: str, interval_s: float) -> None:
        connection = HTTPConnection("127.0.0.1", console.port, timeout=60)
        wait_s = interval_s * number / len(pages)
        while not closed.wait(wait_s):
            console.get(path, connection)
            wait_s = interval_s

    threads = [
        Thread(target=watch, args=(number, *pair)) for number, pair in enumerate(pages.items())
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        closed.set()
        for thread in threads:
            thread.join()
