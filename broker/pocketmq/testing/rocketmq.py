"""The fixture `rocketmq`: a broker under a test's control.

broker.endpoint                     for clients: "127.0.0.1:41234", without TLS
create_topic, create_group          topics and groups that are not created on first use
messages, lag, wait_for_lag_0       stored messages, and those not consumed yet
advance_clock                       makes delays, leases, retries and transactions due
inject_fault                        calls that fail, wait or lose their replies; a full disk
kill, restart, drop_connections     crashes and orderly stops
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pocketmq.testing.broker_process import BrokerEnded, BrokerNotStarted, BrokerProcess, Spawner
from pocketmq.testing.lag import (
    GROUP,
    TOPIC,
    SeenLag,
    blocked_loop,
    hint_of,
    look_at_lag,
    remains,
    topic_names,
)

if TYPE_CHECKING:
    from pocketmq.client import Client, StoredMessage

Value = TypeVar("Value")

WAIT_S: Final = 10.0
LOOK_AGAIN_S: Final = 0.01
SURE_LOOKS: Final = 3
"""Consecutive checks that must find lag 0: a message that moves from an expired lease to the retry
topic is counted in neither for a moment."""
PAGE_COUNT: Final = 256
LOG_SIZE_MAX: Final = 64 * 1024
"""Upper limit of a log's bytes in the report of a failure."""
DISK_FULL: Final = "disk_full"
START_STEP: Final = "restart() of the fixture starts the broker again, with its store and address"
CLOSED_CLIENT: Final = (
    "kill(), stop() and restart() close rocketmq.client: name rocketmq.client again instead of "
    "keeping it; a consumer that must survive a restart uses Client(rocketmq.endpoint)"
)
REFUSAL: Final = "Connection refused"
ENDED: Final = "the broker was killed or stopped: restart() starts it again"
REFUSED: Final = (
    "RocketMQ's clients that met the closed port fail with Connection refused until they connect "
    "again, up to a second after restart(), or more after a long stop: repeat the call"
)
COMMANDS: Final = (
    "a test calls rocketmq.create_topic, create_group or client.admin in place of commands; while "
    "the test waits, commands need --endpoint with the address in rocketmq.endpoint"
)
UNDECIDED: Final = (
    "of undecided transactions; advance_clock(60) makes checks due, client.answer_checks or the "
    "producer decides"
)
CHECKING: Final = ("access.check=on", "access.check=users")
ANY_PORT: Final = "127.0.0.1:0"
SHARED_ORIGIN: Final = "rocketmq_settings in pytest's configuration"
TEST_ORIGIN: Final = "of the test"
STORE_ORIGIN: Final = "directory of the fixture"
CHOSEN: Final = {
    "rpc.listen": "the fixture chooses the address, see rocketmq.endpoint",
    "http.listen": "a broker of the fixture has no port for HTTP; pocketmq dev runs one that has",
}
"""Settings that only the fixture sets -> what a test does in place of them."""


class LagRemains(AssertionError):
    """A group did not consume everything in time."""


class Fault:
    """An injected fault; ends with `clear`, or at the end of its `with` block."""

    def __init__(self, clear: Callable[[], object], count: Callable[[], int]) -> None:
        self._clear = clear
        self._count = count

    @property
    def hits(self) -> int:
        """Number of calls that the fault has hit."""
        return self._count()

    def clear(self) -> None:
        """Ends the fault; may be called again."""
        self._clear()

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.clear()


class RocketMQ:
    """A broker for tests, and its store.

    endpoint   address for clients, which restarts keep
    directory  directory for the store and the log
    settings   settings as for `serve --set`: "limits.max_message_size_bytes=1MiB"
    shared     settings of all brokers of a run, which `settings` override
    Errors     of all methods: ClientError for a refused request; after `kill` or `stop`,
               BrokerEnded or, of methods that call the broker as a client, Unreachable
    """

    def __init__(
        self,
        spawner: Spawner,
        directory: Path,
        settings: Sequence[str] = (),
        shared: Sequence[str] = (),
    ) -> None:
        self._spawner = spawner
        self._settings = {SHARED_ORIGIN: [*shared], TEST_ORIGIN: [*settings]}
        _check_chosen(self._settings)
        self._store, self._log = directory / "store", directory / "broker.log"
        self.access_key, self.secret_key = "", ""
        """Sign calls of the user `admin`; "" unless a setting turns access.check on."""
        if any(one.replace(" ", "") in CHECKING for one in (*shared, *settings)):
            self._add_admin(directory / "admin_secret")
        self._log_begin = 0
        self.notes: list[str] = []
        """Reported if the test fails: unknown topics and groups, messages that were held back."""
        self._ahead_ms = 0
        self._client: Client | None = None
        self._process = self._begin(ANY_PORT)
        self.endpoint = self._process.endpoint

    def _add_admin(self, path: Path) -> None:
        """Gives the broker a first user, whose keys sign the fixture's own calls."""
        self.access_key, self.secret_key = "admin", token_hex(16)
        path.write_text(self.secret_key)
        self._settings[SHARED_ORIGIN].insert(0, f"access.admin_secret_path={path}")

    def _begin(self, listen: str) -> BrokerProcess:
        request = {
            "assignments": {**self._settings, STORE_ORIGIN: [f"store.directory={self._store}"]},
            "listen": listen,
            "ahead_ms": self._ahead_ms,
        }
        return BrokerProcess(self._spawner, request, self._log)

    @property
    def client(self) -> "Client":
        """A `pocketmq.client` client of this broker, for sends, pulls and administration.

        `kill`, `stop` and `restart` close it; afterwards, this property is a new client.
        """
        if self._client is None:
            from pocketmq.client import Client

            self._client = Client(
                self.endpoint, access_key=self.access_key, secret_key=self.secret_key,
                start_step=START_STEP,
            )  # fmt: skip
        return self._client

    # -- topics, groups, messages ------------------------------------------------------------------

    def create_topic(self, name: str, kind: str = "normal", queues: int = 8) -> None:
        """Creates a topic for messages of a kind, unless it exists.

        kind     normal, fifo, delay, transaction, priority, or mixed for all of them
        Errors   errors.TopicExists: it has another kind or queue count; ValueError: unknown kind,
                 or less than 1 queue; TypeError: an argument of another class
        """
        from pocketmq.client.values import check_argument

        check_argument("name", name, str)
        check_argument("kind", kind, str)
        _check_number("queues", queues)
        if queues < 1:
            raise ValueError(f"queues is {queues}: a topic has at least 1 queue")
        self.client.admin.create_topic(name, queue_count=queues, type_name=kind)

    def create_group(self, name: str, **settings: Any) -> None:
        """Creates a consumer group.

        settings   fields of `pocketmq.client.GroupSettings`, such as fifo=True or max_attempts=3
        Errors     errors.GroupExists: it has other settings; TypeError: unknown field
        """
        from pocketmq.client import GroupSettings

        fields = GroupSettings._fields
        if unknown := [name for name in settings if name not in fields]:
            raise TypeError(f"groups have no {', '.join(unknown)}; they have {', '.join(fields)}")
        self.client.admin.create_group(name, GroupSettings(**settings))

    def messages(
        self, topic: str, count: int = 0, timeout: float = WAIT_S
    ) -> "list[StoredMessage]":
        """Returns the messages in a topic, consumed or not, oldest first.

        All messages that were acknowledged before the call are seen. Delayed messages and messages
        of open transactions are not in the topic yet.

        count    wait until there are this many messages; the topic may be created meanwhile
        timeout  seconds to wait; afterwards the method returns the existing messages. If the topic
                 does not exist, it returns [], and the report of a failed test contains a note
        Errors   TypeError: count or timeout is no number; ValueError: count is negative
        """
        from pocketmq.client import errors

        _check_number("count", count)
        _check_number("timeout", timeout)
        if count < 0:
            raise ValueError(f"count is {count}: it is 0 or more")
        self._catch_up()

        def look() -> "list[StoredMessage] | None":
            try:
                return [*self._stored(topic)]
            except errors.TopicNotFound:
                return None

        found = self._until(look, lambda messages: len(messages or ()) >= count, timeout)
        if found is None or len(found) < count:
            self._note_lack(topic, exists=found is not None)
        return sorted(found or (), key=lambda one: one.physical_offset)

    def _note_absence(self, method: str, kind: str, name: str, names: Iterable[str]) -> None:
        """Notes that a topic or group does not exist, as its name may be mistyped."""
        self._note(f"{method}({name!r}): there is no {kind} {name!r}{hint_of(name, names)}")

    def _note_lack(self, topic: str, *, exists: bool) -> None:
        """Notes why a topic may have fewer messages than the test waited for."""
        from pocketmq.model.topic import DLQ_PREFIX, dead_letter_topic

        group = topic.removeprefix(DLQ_PREFIX)
        groups = self._group_names()
        if group != topic and group in groups:
            lag = self._look_at_lag(group, "").left
            self._note(
                f"messages({topic!r}): the other messages of group {group!r} are no dead letters "
                f"yet: {lag} unread, leased, or waiting for a retry"
            )
        elif exists:
            self._note_held_back(topic)
        else:
            names = [*topic_names(self.client.admin), *map(dead_letter_topic, groups)]
            self._note_absence("messages", "topic", topic, names)

    def explain(self, error: BaseException) -> None:
        """Notes the next step after an error of this broker: what a test does, not an operator."""
        text = str(error)
        if not hasattr(error, "reason") and f"{self.endpoint}: " in text and REFUSAL in text:
            self._note(REFUSED if self._runs() else ENDED)
            return
        if getattr(error, "endpoint", "") == self.endpoint and "pocketmq " in text:
            self._note(COMMANDS)
        self._explain_absence(error)

    def _runs(self) -> bool:
        try:
            self._process.ask("now")
        except BrokerEnded:
            return False
        return True

    def _explain_absence(self, error: BaseException) -> None:
        """Notes a missing topic or group, and a client that was kept over a restart."""
        if getattr(error, "reason", "") == "NotOpen":
            if getattr(error, "endpoint", "") == self.endpoint:
                self._note(CLOSED_CLIENT)
            return
        kind = {"TopicNotFound": "topic", "GroupNotFound": "group"}.get(
            getattr(error, "reason", "")
        )
        if kind is None or getattr(error, "endpoint", "") != self.endpoint:
            return
        from pocketmq.client import ClientError

        name = str(getattr(error, kind))
        try:
            names = [*topic_names(self.client.admin)] if kind == "topic" else self._group_names()
        except ClientError:
            return
        hint = hint_of(name, names)
        lead = f"{hint.rstrip('?')}, or" if hint else ":"
        self._note(f"there is no {kind} {name!r}{lead} is create_{kind}({name!r}) missing?")

    def _note_held_back(self, topic: str) -> None:
        """Notes messages that are not in a topic yet."""
        admin = self.client.admin
        for count, state in (
            (len(admin.list_delayed(topic).items), "delayed; advance_clock makes them due"),
            (len(admin.list_transactions(topic=topic)), UNDECIDED),
        ):
            if count:
                self._note(f"messages({topic!r}): not in the topic yet: {count} {state}")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _stored(self, topic: str) -> "Iterator[StoredMessage]":
        from pocketmq.client import PullQuery, PullStatus

        admin = self.client.admin
        for queue in admin.describe_topic(topic).queues:
            at = queue.min_offset
            while at < queue.max_offset:
                query = PullQuery(topic, queue.queue_id, at, max_messages=PAGE_COUNT)
                page = admin.pull(query)
                if page.status is PullStatus.FOUND:
                    yield from page.messages
                elif page.next_begin_offset <= at:
                    break
                at = page.next_begin_offset

    def lag(self, group: str, topic: str = "") -> int:
        """Returns the number of messages that a group has not consumed.

        Leased messages and those that wait for a retry are included, and all that were sent and
        acknowledged before the call. A group that does not exist has consumed nothing; if its name
        is close to an existing group's, a warning asks.

        topic    count only this topic and the group's retries; "": all topics of the group
        """
        if not self._has_group(group):
            names = self._group_names()
            self._note_absence("lag", "group", group, names)
            if hint := hint_of(group, names):
                warnings.warn(f"there is no group {group!r}{hint}", stacklevel=2)
        return self._look_at_lag(group, topic).left

    def _group_names(self) -> list[str]:
        return [one.name for one in self.client.admin.list_groups().items]

    def _catch_up(self) -> None:
        """Waits until the broker has dispatched what it acknowledged.

        A broker that has ended is reported by the call that follows.
        """
        with suppress(BrokerEnded):
            self._process.ask("catch_up")

    def _look_at_lag(self, group: str, topic: str) -> SeenLag:
        self._catch_up()
        return look_at_lag(self.client.admin, group, topic)

    def wait_for_lag_0(self, group: str, topic: str = "", timeout: float = WAIT_S) -> None:
        """Waits until a group has begun to consume, and has acknowledged all messages.

        A group begins with its first receive, or with its first commit of an offset. Messages that
        are sent later are not waited for.

        topic    wait for this topic, which may be created meanwhile; "": wait for all topics in
                 which the group has begun, at least one
        timeout  seconds
        Errors   LagRemains: messages are left, the group has not begun to consume, or the topic
                 does not exist; TypeError: timeout is no number
        """
        _check_number("timeout", timeout)
        looks, end_s = 0, monotonic() + timeout
        while looks < SURE_LOOKS:
            seen = self._seen_lag(group, topic)
            looks = looks + 1 if seen.is_done else 0
            if not seen.is_done and monotonic() >= end_s:
                text = self._lag_text(group, topic, seen, timeout)
                raise LagRemains(text + self._refused_text() + blocked_loop())
            sleep(LOOK_AGAIN_S)

    def _seen_lag(self, group: str, topic: str) -> SeenLag:
        from pocketmq.client import errors

        try:
            return self._look_at_lag(group, topic)
        except errors.TopicNotFound:
            return SeenLag(missing=TOPIC)

    def _lag_text(self, group: str, topic: str, seen: SeenLag, timeout: float) -> str:
        if seen.missing == TOPIC:
            names = topic_names(self.client.admin)
            return f"topic {topic} did not exist within {timeout:g} s{hint_of(topic, names)}"
        if seen.missing == GROUP:
            return (
                f"group {group} does not exist: within {timeout:g} s no consumer named it"
                f"{hint_of(group, self._group_names())}"
            )
        return remains(group, topic, seen, timeout)

    def _refused_text(self) -> str:
        """Returns the calls of clients that were refused because a topic or group was missing."""
        texts = [
            f"{method} was refused, as {kind} {name!r} did not exist"
            for method, kind, name in self._process.ask("refusals")
        ]
        return "".join(f"; {text}" for text in texts)

    def _has_group(self, group: str) -> bool:
        from pocketmq.client import errors

        try:
            self.client.admin.describe_group(group)
        except errors.GroupNotFound:
            return False
        return True

    def _until(
        self, look: Callable[[], Value], is_enough: Callable[[Value], bool], timeout: float
    ) -> Value:
        """Repeats `look` until its result suffices or the time is over; returns the last result."""
        end_s = monotonic() + timeout
        while not is_enough(seen := look()) and monotonic() < end_s:
            sleep(LOOK_AGAIN_S)
        return seen

    # -- time --------------------------------------------------------------------------------------

    def advance_clock(self, seconds: float) -> None:
        """Advances the broker's clock, but not the system's.

        Delays, leases, retries, transactions and retention become due. The broker compares clients'
        times with `now()`: a delivery time by the system's clock may be in the past. Restarts keep
        the lead.
        Errors   ValueError: negative time; TypeError: no number
        """
        _check_number("seconds", seconds)
        if seconds < 0:
            raise ValueError(f"the clock cannot go back, by {seconds} s")
        self._process.ask("advance", ms=round(seconds * 1000))
        self._ahead_ms += round(seconds * 1000)

    def now(self) -> float:
        """Returns the broker's wall time, in seconds since 1970."""
        return float(self._process.ask("now")) / 1000

    # -- failures ------------------------------------------------------------------------------

    def inject_fault(
        self,
        kind: str,
        method: str | Sequence[str] = "SendMessage",
        *,
        code: str = "TOO_MANY_REQUESTS",
        seconds: float = 1.0,
        times: int | None = None,
    ) -> Fault:
        """Injects a fault into calls from now on.

        kind     refuse       calls are refused with a code, without effect
                 delay        calls are delayed before they are served
                 lose_answer  calls are served, and connections break before the reply
                 disk_full    sends are refused as if the disk were full; counts no hits
        method   name of a method, or several; () for all except Telemetry and the methods of
                 Admin: this object itself uses those, so calls of client.admin are never hit
        code     name of an error code of the protocol
        seconds  delay, for delay
        times    number of calls to hit; None: all until `clear`
        Errors   ValueError: unknown kind, method or code, or `times` is below 1; TypeError: seconds
                 or times is no number, method is no name
        """
        _check_number("seconds", seconds)
        if times is not None:
            _check_number("times", times)
            if times < 1:
                raise ValueError(f"times is {times}: at least 1 call is hit; None: all calls")
        process = self._process
        ask = process.ask
        if kind == DISK_FULL:
            if times is not None:
                raise ValueError("disk_full has no times: it lasts until clear() or the with's end")
            ask("fill_disk")
            return Fault(lambda: _clear(process, "free_disk"), lambda: 0)
        methods = [method] if isinstance(method, str) else method
        given: object = method
        if not (isinstance(given, Sequence) and all(isinstance(one, str) for one in given)):
            raise TypeError(
                f"method is a name, such as 'SendMessage', or several, not {given!r}; the time of "
                "a delay is seconds=2"
            )
        fault = {"methods": [*methods], "code": code, "seconds": seconds, "left": times}
        number = ask("inject", kind=kind, **fault)
        return Fault(
            lambda: _clear(process, "clear", number=number), lambda: int(ask("hits", number=number))
        )

    def drop_connections(self) -> None:
        """Breaks all connections of clients; new ones are accepted."""
        self._process.ask("cut_off")

    def kill(self) -> None:
        """Kills the broker's process, like a crash; `restart` continues with its store."""
        self._leave()
        self._process.kill()

    def stop(self) -> None:
        """Stops the broker's process in order; `restart` continues with its store."""
        self._leave()
        self._process.stop()

    def restart(self) -> None:
        """Stops the broker if it runs, and starts it with the same address, store and clock.

        The stop ends all faults.
        Errors   BrokerNotStarted; BrokerEnded: the broker did not stop in time and was killed
        """
        self.stop()
        self._process = self._begin(self.endpoint)
        assert self._process.endpoint == self.endpoint, "the address has changed"

    def _leave(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- its log -----------------------------------------------------------------------------------

    def mark_log(self) -> None:
        """Makes `log` begin at its present end, and forgets the notes."""
        self.notes.clear()
        with suppress(BrokerEnded):
            self._process.ask("forget_refusals")
        self._log_begin = self._log.stat().st_size

    @property
    def log(self) -> str:
        """The broker's log, or its end if it is long."""
        size = self._log.stat().st_size
        with self._log.open("rb") as file:
            file.seek(max(self._log_begin, size - LOG_SIZE_MAX))
            return file.read().decode(errors="replace")


def _clear(process: BrokerProcess, do: str, **fields: Any) -> None:
    """Ends a fault; has no effect if the broker has ended."""
    try:
        process.ask(do, **fields)
    except BrokerEnded:
        return


def _check_chosen(assignments: Mapping[str, Sequence[str]]) -> None:
    """Refuses settings that would have no effect, as the fixture sets them.

    assignments   settings by origin
    Errors        BrokerNotStarted
    """
    for origin, settings in assignments.items():
        for name in (one.partition("=")[0].strip() for one in settings):
            if name in CHOSEN:
                raise BrokerNotStarted(f"setting {name} ({origin}): {CHOSEN[name]}")


def _check_number(name: str, given: object) -> None:
    if not isinstance(given, int | float):
        raise TypeError(f"{name} is a number, such as 30, not {given!r}")
