"""Kills brokers under RocketMQ's classic clients for Java; kill --workload classic.

Each version of the client has one program per store: a producer, a push consumer and an orderly
push consumer, each consumer in its own group. Classic clients commit offsets late, so a message may
be delivered again after a kill. Checked after each start and at the end: acknowledged messages are
stored where the broker said and reach every group, a queue keeps its producers' order, an orderly
group sees each queue in order, and no committed offset is beyond what its group consumed.

The consumers of 4.9.8 recognize a broken pull only after its timeout of 30 s, which no setting
changes. So most brokers are killed before they pull again, and some once they do.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from harness.budget import NotHere
from pocketmq.client import AsyncClient
from pocketmq.model.message import StoredMessage
from tests.e2e.daemon import Daemon
from tests.e2e.official.classic import VERSIONS, lives_program
from tests.e2e.official.programs import Missing, Official, Program, Row, Talk
from tests.faults.history import Violation
from torture.official import FAILED, NUMBERS, PAUSE_S, TOPIC, OfficialLives

SLOW: Final = "4.9.8"
"""The version whose consumers return late."""
ALL_EVERY: Final = 3
"""Of so many lives, one waits for all consumers."""
ORDERLY: Final = "orderly"
MISPLACED: Final = "not where it was acknowledged"
UNORDERED: Final = "out of order"
AHEAD: Final = "committed but not consumed"
WRONG: Final = ("lost", "never sent", MISPLACED, UNORDERED, AHEAD)
FIGURES: Final = (
    "acknowledged", FAILED, "stored", "consumed", "came again", "offsets checked", *WRONG
)  # fmt: skip

Queue = tuple[int, int]
"""A queue and a queue offset in it."""


def programs() -> dict[str, Program]:
    """Returns the program of each version; fetches the client and compiles if necessary.

    Errors   NotHere
    """
    try:
        return {version: lives_program(version) for version in VERSIONS}
    except Missing as why:
        raise NotHere(str(why)) from why


class ClassicLives(OfficialLives):
    """All lives of one store's broker under classic clients."""

    _lives = 0

    def live(self) -> str:
        """Starts and kills the broker as the base class does, and counts the lives."""
        flush = super().live()
        self._lives += 1
        return flush

    def end(self) -> None:
        """Ends the store when all clients are at work.

        Errors   Violation
        """
        self._lives = 0
        super().end()

    def _needed(self) -> Iterable[Talk]:
        if self._lives % ALL_EVERY == 0:
            return super()._needed()
        slow = SLOW.replace(".", "-")
        quick = [talk for group, talk in self._pushed.items() if not group.endswith(slow)]
        return [*self._sending.values(), *quick]

    def _begin(self) -> None:
        for place, (version, program) in enumerate(self._programs.items()):
            client = self._stack.enter_context(
                Official(program, self._address, self._place / f"{version}.log")
            )
            for kind in ("readers", ORDERLY):
                group = f"{kind}-{version.replace('.', '-')}"
                is_orderly = kind == ORDERLY
                self._pushed[group] = client.begin(
                    "push", topic=TOPIC, group=group, orderly=is_orderly
                )
            self._sending[version] = client.begin(
                "send", topic=TOPIC, begin=place * NUMBERS, pause_s=PAUSE_S
            )

    def _started(self, flush: str) -> Daemon:
        daemon = super()._started(flush)
        try:
            asyncio.run(self._check_offsets(daemon.endpoint))
        except BaseException:
            daemon.end()
            raise
        return daemon

    async def _check_offsets(self, endpoint: str) -> None:
        """Compares the committed offsets with the messages that consumers have reported.

        Errors   Violation: an offset is beyond them
        """
        async with AsyncClient(endpoint) as client:
            known = {row.name for row in (await client.admin.list_groups()).items}
            for group, talk in self._pushed.items():
                if group not in known:
                    continue
                for row in await client.admin.list_offsets(group, TOPIC):
                    talk.look()  # `until` counts all rows again for each further one.
                    consumed = {(row.queue_id, at) for at in range(row.queue_offset)}
                    try:
                        talk.until(partial(_contain, consumed))
                    except AssertionError as error:
                        missing = sorted(consumed - _places(talk.rows))[:10]
                        raise Violation(f"{group}: {row} is {AHEAD}: {missing}") from error
                    self.figures["offsets checked"] += 1

    def _judged(
        self, sent: Sequence[Row], pushed: Mapping[str, Sequence[Row]],
        messages: Sequence[StoredMessage],
    ) -> tuple[Counter[str], list[str]]:  # fmt: skip
        stored = {(one.queue_id, one.queue_offset): one.body.decode() for one in messages}
        return judged(sent, pushed, stored)


def judged(
    sent: Sequence[Row], pushed: Mapping[str, Iterable[Row]], stored: Mapping[Queue, str]
) -> tuple[Counter[str], list[str]]:  # fmt: skip
    """Returns the figures of a store, and the violations.

    sent     rows of producers
    pushed   rows of consumers, by group
    stored   bodies by queue and queue offset
    """
    acknowledged = {
        str(row["sent"]): (row["queue"], row["offset"]) for row in sent if "sent" in row
    }
    unanswered = {str(row["failed"]) for row in sent if "failed" in row}
    figures = Counter(
        {"acknowledged": len(acknowledged), FAILED: len(unanswered), "stored": len(stored)}
    )
    found: list[tuple[str, str]] = [
        (MISPLACED, f"{body} at {place}")
        for body, place in acknowledged.items()
        if stored.get(place) != body
    ]
    found += [(UNORDERED, text) for text in _disordered(stored)]
    for group, rows in pushed.items():
        came = [row for row in rows if "body" in row]
        bodies = {row["body"] for row in came}
        figures["consumed"] += len(came)
        figures["came again"] += len(came) - len(_places(came))
        found += [("lost", f"{body} in {group}") for body in acknowledged.keys() - bodies]
        found += [
            ("never sent", f"{body} in {group}")
            for body in bodies - acknowledged.keys() - unanswered
        ]
        if group.startswith(ORDERLY):
            found += [(UNORDERED, f"{text} in {group}") for text in _skipped(came)]
    figures.update(kind for kind, _ in found)
    return figures, [f"{text}: {kind}" for kind, text in found]


def _disordered(stored: Mapping[Queue, str]) -> Iterable[str]:
    """Yields the messages that a queue has before an older one of their producer."""
    newest: dict[tuple[int, int], int] = {}
    for (queue, at), body in sorted(stored.items()):
        producer = (queue, int(body) // NUMBERS)
        if int(body) < newest.get(producer, 0):
            yield f"{body} at {(queue, at)} after {newest[producer]}"
        newest[producer] = max(int(body), newest.get(producer, 0))


def _skipped(came: Iterable[Row]) -> Iterable[str]:
    """Yields the deliveries before which a message of the same queue had not been delivered."""
    following: dict[int, int] = defaultdict(int)
    for row in came:
        queue, at = row["queue"], row["offset"]
        if at > following[queue]:
            yield f"{row['body']} at {(queue, at)} before {following[queue]}"
        following[queue] = max(following[queue], at + 1)


def _contain(places: set[Queue], rows: list[Row]) -> bool:
    return places <= _places(rows)


def _places(rows: Iterable[Row]) -> set[Queue]:
    return {(row["queue"], row["offset"]) for row in rows if "body" in row}
