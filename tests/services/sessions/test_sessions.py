"""Known official clients, and how long they are kept."""

from pocketmq.services.sessions.questions import Command, Reconnect
from pocketmq.services.sessions.sessions import (
    QUIET_MAX,
    ClientKind,
    Described,
    Sessions,
)

PRODUCER = Described(ClientKind.PRODUCER, "", "JAVA", "5.2.0")


class Stream:
    """Keeps what a client is told."""

    def __init__(self) -> None:
        self.said: list[Command] = []

    def say(self, command: Command) -> bool:
        """Tells the client something."""
        self.said.append(command)
        return True


class Desk:
    """Sessions, and what they told others."""

    def __init__(self) -> None:
        self.alive: list[tuple[str, str]] = []
        self.gone: list[tuple[str, str]] = []
        self.sessions = Sessions(
            lambda client_id, group: self.alive.append((client_id, group)),
            lambda client_id, group: self.gone.append((client_id, group)),
        )

    def connections(self) -> dict[tuple[str, ...], float]:
        (gauge,) = self.sessions.stats
        counts = gauge.read()
        assert isinstance(counts, dict)
        return counts


def test_a_client_is_alive_in_a_group_whatever_it_says() -> None:
    desk = Desk()
    desk.sessions.heard("a")
    desk.sessions.heard("b", ClientKind.PUSH_CONSUMER.value, "g")
    desk.sessions.heard("b", 99, "g")
    desk.sessions.describe("c", Described(ClientKind.SIMPLE_CONSUMER, "h", "", ""))
    assert desk.alive == [("b", "g"), ("b", "g"), ("c", "h")]
    assert desk.sessions.is_push_consumer("b")
    assert not desk.sessions.is_push_consumer("a")
    assert not desk.sessions.is_push_consumer("nobody")


def test_who_leaves_is_forgotten() -> None:
    desk = Desk()
    desk.sessions.heard("a", ClientKind.PUSH_CONSUMER.value)
    desk.sessions.leave("a", "g")
    desk.sessions.leave("producer")
    desk.sessions.leave("stranger", "g")
    assert desk.gone == [("a", "g"), ("stranger", "g")]
    assert not desk.sessions.is_push_consumer("a")


def test_who_holds_a_stream_is_there_until_that_ends() -> None:
    desk = Desk()
    stream = Stream()
    said, say = stream.said, stream.say
    desk.sessions.open_stream("a", say)
    desk.sessions.describe("a", PRODUCER)
    desk.sessions.leave("a")
    assert desk.connections() == {("JAVA", "5.2.0", "grpc"): 1}
    desk.sessions.drain()
    assert said == [Reconnect()]
    desk.sessions.close_stream("a", say)
    assert desk.connections() == {}


def test_producers_are_counted_that_hold_a_stream() -> None:
    desk = Desk()
    stream = Stream()
    said = stream.said
    desk.sessions.describe("a", PRODUCER)
    assert desk.connections() == {}
    desk.sessions.open_stream("a", stream.say)
    desk.sessions.describe("b", PRODUCER._replace(kind=ClientKind.SIMPLE_CONSUMER))
    desk.sessions.open_stream("b", stream.say)
    assert desk.connections() == {("JAVA", "5.2.0", "grpc"): 1}
    desk.sessions.close_stream("a", Stream().say)  # One that another has taken the place of.
    desk.sessions.drain()
    assert len(said) == 2
    assert desk.sessions.is_draining


def test_a_stream_that_ended_is_told_nothing() -> None:
    desk = Desk()
    stream = Stream()
    said, say = stream.said, stream.say
    desk.sessions.open_stream("a", say)
    desk.sessions.close_stream("a", say)
    desk.sessions.close_stream("nobody", say)
    desk.sessions.drain()
    assert not said


def test_of_too_many_without_a_stream_the_one_heard_of_longest_ago_is_forgotten() -> None:
    desk = Desk()
    consumer = ClientKind.PUSH_CONSUMER.value
    for client_id in ("held", "old", "heard again"):
        desk.sessions.heard(client_id, consumer)
    desk.sessions.open_stream("held", Stream().say)
    for number in range(QUIET_MAX - 3):
        desk.sessions.heard(str(number))
    desk.sessions.heard("heard again")
    desk.sessions.heard("one more")
    assert desk.sessions.is_push_consumer("held")
    assert desk.sessions.is_push_consumer("old")
    desk.sessions.heard("yet one more")
    known = [one for one in ("held", "old", "heard again") if desk.sessions.is_push_consumer(one)]
    assert known == ["held", "heard again"]


def test_a_stream_that_ended_is_kept_as_heard_of_just_then() -> None:
    desk = Desk()
    say = Stream().say
    desk.sessions.heard("a", ClientKind.PUSH_CONSUMER.value)
    desk.sessions.open_stream("a", say)
    for number in range(QUIET_MAX):
        desk.sessions.heard(str(number))
    desk.sessions.close_stream("a", say)
    for number in range(QUIET_MAX - 1):
        desk.sessions.heard(str(number))
    assert desk.sessions.is_push_consumer("a")
    desk.sessions.heard("one more")
    assert not desk.sessions.is_push_consumer("a")
