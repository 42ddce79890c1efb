"""Who is known of official clients, and for how long."""

from broker.services.sessions.sessions import (
    HEARD_MS,
    KEPT_MAX,
    ClientKind,
    Described,
    Reconnect,
    Sessions,
)
from tests.fakes.clock import FakeClock

PRODUCER = Described(ClientKind.PRODUCER, "", frozenset({"t"}), "JAVA", "5.2.0")


class Desk:
    """Sessions, and what they told others."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.alive: list[str] = []
        self.gone: list[str] = []
        self.sessions = Sessions(self.clock, self.alive.append, self.gone.append)

    def connections(self) -> dict[tuple[str, ...], float]:
        (gauge,) = self.sessions.stats
        counts = gauge.read()
        assert isinstance(counts, dict)
        return counts


def test_a_client_is_alive_whatever_it_says() -> None:
    desk = Desk()
    desk.sessions.heard("a")
    desk.sessions.heard("b", ClientKind.PUSH_CONSUMER.value)
    desk.sessions.heard("b", 99)
    assert desk.alive == ["a", "b", "b"]
    assert desk.sessions.is_push_consumer("b")
    assert not desk.sessions.is_push_consumer("a")
    assert not desk.sessions.is_push_consumer("nobody")


def test_who_leaves_is_forgotten() -> None:
    desk = Desk()
    desk.sessions.heard("a", ClientKind.PUSH_CONSUMER.value)
    desk.sessions.leave("a")
    desk.sessions.leave("stranger")
    assert desk.gone == ["a", "stranger"]
    assert not desk.sessions.is_push_consumer("a")


def test_producers_are_counted_that_hold_a_stream() -> None:
    desk = Desk()
    said: list[Reconnect] = []
    desk.sessions.describe("a", PRODUCER)
    assert desk.connections() == {}
    desk.sessions.open_stream("a", said.append)
    desk.sessions.describe("b", PRODUCER._replace(kind=ClientKind.SIMPLE_CONSUMER))
    desk.sessions.open_stream("b", said.append)
    assert desk.connections() == {("JAVA", "5.2.0", "grpc"): 1}
    desk.sessions.close_stream("a", print)  # One that another has taken the place of.
    desk.sessions.drain()
    assert len(said) == 2
    assert desk.sessions.is_draining


def test_a_stream_that_ended_is_told_nothing() -> None:
    desk = Desk()
    said: list[Reconnect] = []
    say = said.append
    desk.sessions.open_stream("a", say)
    desk.sessions.close_stream("a", say)
    desk.sessions.close_stream("nobody", say)
    desk.sessions.drain()
    assert not said


def test_of_too_many_those_stay_that_hold_a_stream_or_were_heard_of_lately() -> None:
    desk = Desk()
    said: list[Reconnect] = []
    desk.sessions.heard("held", ClientKind.PUSH_CONSUMER.value)
    desk.sessions.open_stream("held", said.append)
    desk.sessions.heard("old", ClientKind.PUSH_CONSUMER.value)
    desk.clock.advance(HEARD_MS)
    desk.sessions.heard("new", ClientKind.PUSH_CONSUMER.value)
    for number in range(KEPT_MAX):
        desk.sessions.heard(str(number))
    assert desk.sessions.is_push_consumer("held")
    assert not desk.sessions.is_push_consumer("old")
