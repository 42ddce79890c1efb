"""Restarts a broker under RocketMQ's clients, by SIGKILL or in order; the clients keep running.

    kill --workload official   kills (kill.py)
    restarts                   orderly restarts in three forms with a store each: the port is closed
                               meanwhile; a socket stays open, as with systemd; over TLS
    official_rust              the tests' cases with RocketMQ's Rust client, a battery as its build
                               of 250 crates takes minutes

Each language has one program per store: a producer, whose client retries sends, and a push consumer
in its own group. At the end every group must have received every acknowledged message. Duplicates
are counted by cause: a retried send whose reply was lost (the broker stored it twice), or a
delivery whose ack was in flight at a kill.
"""

import asyncio
import json
import os
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget, NotHere
from harness.process import ended, module
from pocketmq.client import AsyncClient
from pocketmq.model.message import StoredMessage
from tests.e2e.daemon import Daemon, messages_of, pocketmq
from tests.e2e.official.programs import PROGRAMS, Missing, Official, Program, Row, Talk
from tests.faults.history import Violation
from tests.faults.lives import SMALL_FILES, check_log, words

TOPIC: Final = "orders"
QUEUE_COUNT: Final = 4
LIFE_S: Final = (0.2, 2.0)
"""Shortest and longest duration of a life after every producer has had a reply."""
IN_FLIGHT_MS: Final = 2_000
"""Longest time from a delivery to a kill at which the delivery's ack may be unanswered."""
PAUSE_S: Final = 0.01
NUMBERS: Final = 1_000_000_000
"""Distance between the first message numbers of two programs."""
DRAIN_S: Final = 120
FAILED: Final = "sends without an answer"
FIGURES: Final = (
    "acknowledged", FAILED, "stored", "stored twice", "consumed",
    "came again, ack in flight", "came again otherwise", "lost", "never sent",
)  # fmt: skip
WRONG: Final = ("came again otherwise", "lost", "never sent")
PORT_CLOSED: Final = "port closed"
SOCKET_STAYS: Final = "socket stays"
OVER_TLS: Final = "over TLS"
FORMS: Final = (PORT_CLOSED, SOCKET_STAYS, OVER_TLS)
LANGUAGES: Final = ("python", "java", "node", "go")
RESTARTS: Final = 20
"""Most restarts of each form."""
CASES: Final = "tests/e2e/official/rust_cases.py"


def programs_of(*languages: str) -> dict[str, Program]:
    """Returns RocketMQ's clients of some languages; builds them if necessary.

    Errors   NotHere
    """
    try:
        return {name: PROGRAMS[name]() for name in languages}
    except Missing as why:
        raise NotHere(str(why)) from why


class OfficialLives:
    """All lives of one store's broker.

    programs    clients by language
    listening   a socket that outlives all brokers; None: each broker binds the port
    is_tls      whether clients connect by TLS
    """

    def __init__(
        self, place: Path, seed: int, programs: Mapping[str, Program], *,
        listening: socket.socket | None = None, is_tls: bool = False,
    ) -> None:  # fmt: skip
        self.store = place / "store"
        self.figures: Counter[str] = Counter()
        self._place = place
        self._seed = seed
        self._programs = programs
        self._chance = Random(seed)
        self._address = "127.0.0.1:0"
        self._stack = ExitStack()
        self._sending: dict[str, Talk] = {}
        self._pushed: dict[str, Talk] = {}
        self._kills_ms: list[int] = []
        self._listening = listening
        certificate = self.store / "pocketmq" / "tls" / "certificate.pem"
        tls = {"OFFICIAL_TLS": "1", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate)}
        self._environment = tls if is_tls else {}

    def restart(self) -> None:
        """Starts the broker, waits until all clients are at work, stops it in order.

        Errors   AssertionError: the broker does not start or stop in order, or clients do not
                 reconnect
        """
        daemon = self._started("sync")
        try:
            self._at_work()
            time.sleep(self._chance.uniform(*LIFE_S))
            self._kills_ms.append(time.time_ns() // 1_000_000)
            assert daemon.stop() == os.EX_OK, daemon.log.read_text()
        finally:
            daemon.end()
        check_log(daemon)

    def live(self) -> str:
        """Starts the broker, waits until all clients are at work, kills it; returns its flush mode.

        Errors   AssertionError: the broker does not start, or clients do not reconnect
        """
        flush = self._chance.choice(["sync", "async"])
        daemon = self._started(flush)
        try:
            self._at_work()
            time.sleep(self._chance.uniform(*LIFE_S))
        finally:
            daemon.end()
        self._kills_ms.append(time.time_ns() // 1_000_000)
        check_log(daemon)
        return flush

    def end(self) -> None:
        """Starts the broker, lets groups consume the rest, compares, stops, and verifies the files.

        Errors   Violation
        """
        daemon = self._started("sync")
        try:
            self._at_work()
            for talk in self._sending.values():
                talk.stop()
            for talk in self._sending.values():
                talk.ended(DRAIN_S)
            messages = asyncio.run(_stored(daemon.endpoint))
            wanted = {message.unique_key for message in messages}
            for talk in self._pushed.values():
                talk.look()  # `until` counts all rows again for each further one.
                talk.until(lambda rows: wanted <= _ids(rows), DRAIN_S)
            self._compare(messages)
            assert daemon.stop() == os.EX_OK, daemon.log.read_text()
        finally:
            self._stack.close()
            daemon.end()
        check_log(daemon)
        done = pocketmq("store", "verify", str(self.store), "-o", "jsonl", "--max-findings", "5")
        assert (done.code, done.out) == (0, ""), f"{done.out}{done.err}"

    def close(self) -> None:
        """Ends the clients in any state of the broker."""
        self._stack.close()

    def _started(self, flush: str) -> Daemon:
        settings = {"store.flush": flush, "broker.auto_create_groups": "true"}
        given = words(settings, *SMALL_FILES)
        if self._listening is None:
            given = [*given, "--listen", self._address]
        daemon = Daemon(self.store, *given, listening=self._listening)
        daemon.begin()
        daemon.serve()
        if not self._sending:
            self._address = daemon.endpoint
            asyncio.run(_make_topic(daemon.endpoint))
            self._begin()
        return daemon

    def _begin(self) -> None:
        for place, (name, program) in enumerate(self._programs.items()):
            log = self._place / f"{name}.log"
            client = self._stack.enter_context(
                Official(program, self._address, log, **self._environment)
            )
            self._pushed[name] = client.begin("push", topic=TOPIC, group=f"readers-{name}")
            self._sending[name] = client.begin(
                "keep_sending", topic=TOPIC, begin=place * NUMBERS, pause_s=PAUSE_S
            )

    def _at_work(self) -> None:
        """Waits until every producer has a new reply, and every needed consumer a new message."""
        for talk, count in [(talk, len(talk.look())) for talk in self._needed()]:
            talk.until(partial(_is_at_work, count))

    def _needed(self) -> Iterable[Talk]:
        """Returns the producers and consumers without which no broker is killed."""
        return [*self._sending.values(), *self._pushed.values()]

    def _compare(self, messages: Sequence[StoredMessage]) -> None:
        """Counts the outcome of every message in every group.

        Errors   Violation
        """
        for name, talk in self._sending.items():
            self.figures[f"{FAILED}, {name}"] += sum("failed" in row for row in talk.rows)
        sent = [row for talk in self._sending.values() for row in talk.rows]
        pushed = {name: talk.look() for name, talk in self._pushed.items()}
        figures, wrong = self._judged(sent, pushed, messages)
        self.figures += figures
        if wrong:
            shown = "\n  ".join(wrong[:20])
            raise Violation(f"{len(wrong)} violations, seed {self._seed}:\n  {shown}")

    def _judged(
        self, sent: Sequence[Row], pushed: Mapping[str, Sequence[Row]],
        messages: Sequence[StoredMessage],
    ) -> tuple[Counter[str], list[str]]:  # fmt: skip
        """Returns the figures, and the violations."""
        stored = Counter(message.unique_key for message in messages)
        return judged(sent, pushed, stored, self._kills_ms)


def judged(
    sent: Iterable[Row], pushed: Mapping[str, Iterable[Row]], stored: Counter[str],
    kills_ms: Sequence[int],
) -> tuple[Counter[str], list[str]]:  # fmt: skip
    """Returns the figures of a store, and the violations.

    sent     rows of producers
    pushed   rows of consumers, by group
    stored   number of stored messages by message id
    """
    told = list(sent)
    acknowledged = {str(row["sent"]) for row in told if "sent" in row}
    unanswered = {str(row["failed"]) for row in told if "failed" in row}
    figures = Counter(
        {
            "acknowledged": len(acknowledged),
            FAILED: len(unanswered),
            "stored": stored.total(),
            "stored twice": stored.total() - len(stored),
        }
    )
    wrong: list[str] = []
    for group, rows in pushed.items():
        came: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if "body" in row:
                came[row["message_id"]].append(row)
        bodies = {each[0]["body"] for each in came.values()}
        for kind, found in (
            ("lost", acknowledged - bodies),
            ("never sent", bodies - acknowledged - unanswered),
        ):
            figures[kind] += len(found)
            wrong += [f"{group}: {body} is {kind}" for body in found]
        for message_id, each in came.items():
            figures["consumed"] += len(each)
            again = max(len(each) - stored[message_id], 0)
            explained = min(again, sum(_was_in_flight(row, kills_ms) for row in each[:-1]))
            figures["came again, ack in flight"] += explained
            figures["came again otherwise"] += again - explained
            if again > explained:
                times = [(row["at_ms"], row["attempt"]) for row in each]
                wrong.append(f"{group}: {each[0]['body']} came at {times}, kills at {kills_ms}")
    return figures, wrong


def _was_in_flight(row: Row, kills_ms: Sequence[int]) -> bool:
    """Returns whether a delivery was so shortly before a kill that its ack may be unanswered."""
    return any(0 <= kill_ms - row["at_ms"] <= IN_FLIGHT_MS for kill_ms in kills_ms)


def _is_at_work(before: int, rows: list[Row]) -> bool:
    return any({"sent", "body"} & row.keys() for row in rows[before:])


def _ids(rows: list[Row]) -> set[str]:
    return {row["message_id"] for row in rows if "message_id" in row}


async def _make_topic(endpoint: str) -> None:
    async with AsyncClient(endpoint) as client:
        await client.admin.create_topic(TOPIC, queue_count=QUEUE_COUNT)


async def _stored(endpoint: str) -> list[StoredMessage]:
    """Returns all messages of the topic."""
    async with AsyncClient(endpoint) as client:
        queues = [await messages_of(client, TOPIC, each) for each in range(QUEUE_COUNT)]
    return [message for queue in queues for message in queue]


# -- batteries -------------------------------------------------------------------------------------
def restarts(place: Path, budget: Budget) -> dict[str, Any]:
    """Restarts brokers, RESTARTS times in each form or until the time is over; returns the figures.

    Errors   AssertionError, Violation: a client did not reconnect, a message was lost or duplicate,
             or a client had an error at a restart with a socket that stays. NotHere
    """
    programs = programs_of(*LANGUAGES)
    figures: dict[str, Any] = {}
    for number, form in enumerate(FORMS, 1):
        end_s = budget.seconds * number / len(FORMS)
        figures[form] = dict(_restarted(place / str(number), form, programs, budget, end_s))
        budget.progress(json.dumps(figures))
    assert figures[SOCKET_STAYS][FAILED] == 0, figures
    return figures


def _restarted(
    place: Path, form: str, programs: Mapping[str, Program], budget: Budget, end_s: float
) -> Counter[str]:
    """Restarts in one form until `end_s`; returns the figures."""
    place.mkdir()
    done = 0
    with ExitStack() as stack:
        listening = None
        if form == SOCKET_STAYS:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        lives = OfficialLives(
            place, Random(f"{budget.seed}-{form}").randrange(2**31), programs,
            listening=listening, is_tls=form == OVER_TLS,
        )  # fmt: skip
        stack.callback(lives.close)
        while done < RESTARTS and (not done or budget.spent < end_s):
            lives.restart()
            done += 1
            budget.progress(json.dumps({form: done}))
        lives.end()
    failed = [f"{FAILED}, {name}" for name in programs]
    return Counter({"restarts": done} | {name: lives.figures[name] for name in (*FIGURES, *failed)})


def rust(place: Path, budget: Budget) -> dict[str, Any]:
    """Builds the client, and runs the cases; returns the last line of pytest.

    Errors   Failed: a case failed. NotHere
    """
    programs_of("rust")
    told = ended(module("pytest", "-q", "--no-header", f"--basetemp={place / 't'}", CASES))
    return {"cases": told.strip().splitlines()[-1]}
