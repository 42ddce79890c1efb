"""The fixtures of a broker, as tests of users' programs use them."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Client, ClientError, Message, NotOpen, ReceiveQuery, Unreachable, errors
from pocketmq.testing import BrokerEnded, BrokerNotStarted, LagRemains, RocketMQ, broker_process
from pocketmq.testing.broker_process import BrokerProcess, Spawner
from pocketmq.testing.rocketmq import ANY_PORT, CLOSED_CLIENT

HOUR_S = 3_600


def bodies(broker: RocketMQ, topic: str, count: int = 0) -> list[bytes]:
    return [message.body for message in broker.messages(topic, count)]


def test_what_is_sent_is_seen(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.create_topic("seen", queues=2)
    assert rocketmq_module.messages("seen", count=1, timeout=0) == []
    for body in (b"1", b"2", b"3"):
        client.send(Message("seen", body))
    assert bodies(rocketmq_module, "seen", 3) == [b"1", b"2", b"3"]


def test_lag_ends_with_acknowledgements(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.create_topic("left", queues=1)
    client.send(Message("left", b"x"))
    assert len(rocketmq_module.messages("left", 1)) == 1
    assert rocketmq_module.lag("workers", "left") == 1, "of a group that nobody made yet too"
    rocketmq_module.create_group("workers", begins_at_min=True, max_attempts=3)
    (leased,) = client.receive(ReceiveQuery("workers", "left", wait_ms=5_000))
    with pytest.raises(LagRemains, match="group workers had 1 message to consume in topic left"):
        rocketmq_module.wait_for_lag_0("workers", "left", timeout=0)
    client.ack("workers", "left", [leased.receipt_handle])
    rocketmq_module.wait_for_lag_0("workers", "left")
    rocketmq_module.wait_for_lag_0("workers")


def test_a_group_begins_where_the_test_states(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.create_topic("begun", queues=1)
    rocketmq_module.create_group("late", begin="max")
    client.send(Message("begun", b"old"))
    assert client.receive(ReceiveQuery("late", "begun")) == []
    client.send(Message("begun", b"new"))
    (leased,) = client.receive(ReceiveQuery("late", "begun", wait_ms=5_000))
    assert leased.message.body == b"new"
    rocketmq_module.create_group("chosen")
    assert client.receive(ReceiveQuery("chosen", "begun", begin="max")) == []


def test_what_failed_and_comes_again_is_left_too(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.create_topic("again", queues=1)
    rocketmq_module.create_group("retrying", begins_at_min=True)
    client.send(Message("again", b"x"))
    query = ReceiveQuery("retrying", "again", invisible_ms=10_000, wait_ms=5_000)
    (first,) = client.receive(query)
    rocketmq_module.advance_clock(11)
    while rocketmq_module.lag("retrying", "again") != 1:
        pass
    (second,) = client.receive(query)
    assert (first.attempt, second.attempt) == (1, 2)
    client.ack("retrying", "again", [second.receipt_handle])
    rocketmq_module.wait_for_lag_0("retrying", "again")


def test_what_waits_for_a_retry_is_left(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.create_topic("failing", queues=1)
    rocketmq_module.create_group("clumsy")
    client.send(Message("failing", b"x"))
    with pytest.raises(ZeroDivisionError):
        for _ in client.consume(ReceiveQuery("clumsy", "failing"), count_max=1):
            raise ZeroDivisionError
    assert rocketmq_module.lag("clumsy") == rocketmq_module.lag("clumsy", "failing") == 1
    with pytest.raises(LagRemains, match="group clumsy had 1 message to consume"):
        rocketmq_module.wait_for_lag_0("clumsy", timeout=0.1)
    rocketmq_module.advance_clock(60)
    assert len([*client.consume(ReceiveQuery("clumsy", "failing"), count_max=1)]) == 1
    rocketmq_module.wait_for_lag_0("clumsy")


def test_the_lag_of_a_mistyped_group_warns(rocketmq_module: RocketMQ) -> None:
    rocketmq_module.create_group("carriers")
    with pytest.warns(UserWarning, match="there is no group 'cariers'; did you mean 'carriers'?"):
        assert rocketmq_module.lag("cariers") == 0


def test_delays_come_due_at_once(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.create_topic("later", "delay")
    client.send(Message("later", b"in an hour", delay_ms=HOUR_S * 1000))
    before = rocketmq_module.now()
    assert rocketmq_module.messages("later") == []
    rocketmq_module.advance_clock(HOUR_S)
    assert rocketmq_module.now() >= before + HOUR_S
    assert bodies(rocketmq_module, "later", 1) == [b"in an hour"]
    with pytest.raises(ValueError, match="the clock cannot go back"):
        rocketmq_module.advance_clock(-1)


def test_sends_are_refused(rocketmq_module: RocketMQ, client: Client) -> None:
    refused = rocketmq_module.inject_fault("refuse", code="FORBIDDEN", times=1)
    with pytest.raises(ClientError, match="a fault of the test"):
        client.send(Message("refused", b"1"))
    client.send(Message("refused", b"2"))
    assert refused.hits == 1
    with rocketmq_module.inject_fault("refuse", ["SendMessage", "PullMessage"]) as fault:
        for _ in range(3):
            with pytest.raises(ClientError):
                client.send(Message("refused", b"3"))
        assert fault.hits == 3
    client.send(Message("refused", b"4"))
    assert bodies(rocketmq_module, "refused", 2) == [b"2", b"4"]
    with pytest.raises(ValueError, match="there is no code 'SUNDAY'"):
        rocketmq_module.inject_fault("refuse", code="SUNDAY")
    with pytest.raises(ValueError, match=r"no kind 'refuze'; did you mean refuse\? There are"):
        rocketmq_module.inject_fault("refuze")
    with pytest.raises(ValueError, match=r"'send'; did you mean SendMessage\? There are"):
        rocketmq_module.inject_fault("refuse", "send")
    with pytest.raises(ValueError, match=r"'SendMesage'; did you mean SendMessage\? There are"):
        rocketmq_module.inject_fault("refuse", "SendMesage")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"seconds": "1s"}, TypeError, "seconds is a number, such as 30, not '1s'"),
        ({"times": "2"}, TypeError, "times is a number"),
        ({"times": 0}, ValueError, "at least 1 call is hit"),
        ({"method": 2}, TypeError, "method is a name, such as 'SendMessage', or several, not 2"),
        ({"method": [2]}, TypeError, "method is a name"),
        ({"kind": "disk_full", "times": 1}, ValueError, "disk_full has no times"),
    ],
)
def test_a_fault_that_would_hit_nothing_is_refused(
    rocketmq_module: RocketMQ, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        rocketmq_module.inject_fault(**{"kind": "delay", **given})
    with pytest.raises(TypeError, match="seconds is a number, such as 30, not '20'"):
        rocketmq_module.advance_clock("20")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout is a number, such as 30, not '1s'"):
        rocketmq_module.wait_for_lag_0("g", timeout="1s")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="queues is 0: a topic has at least 1 queue"):
        rocketmq_module.create_topic("none", queues=0)
    with pytest.raises(TypeError, match="kind is a str, not None"):
        rocketmq_module.create_topic("none", kind=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="count is a number"):
        rocketmq_module.messages("orders", "1")  # type: ignore[arg-type]


def test_an_answer_is_lost_of_what_was_done(rocketmq_module: RocketMQ, client: Client) -> None:
    rocketmq_module.inject_fault("lose_answer", times=1)
    with pytest.raises(ClientError) as caught:
        client.send(Message("lost", b"x"))
    assert caught.value.is_uncertain
    assert bodies(rocketmq_module, "lost", 1) == [b"x"]


def test_calls_are_slow(rocketmq_module: RocketMQ) -> None:
    with (
        Client(rocketmq_module.endpoint, timeout_ms=200, retry_ms=0) as client,
        rocketmq_module.inject_fault("delay", seconds=20) as fault,
    ):
        with pytest.raises(ClientError, match="within"):
            client.send(Message("slow", b"x"))
        assert fault.hits == 1


def test_the_disk_is_full(rocketmq_module: RocketMQ, client: Client) -> None:
    with rocketmq_module.inject_fault("disk_full"), pytest.raises(errors.DiskFull):
        client.send(Message("full", b"1"))
    client.send(Message("full", b"2"))
    assert bodies(rocketmq_module, "full", 1) == [b"2"]


def test_a_full_disk_stays_full_through_looks_at_it(rocketmq: RocketMQ) -> None:
    rocketmq.inject_fault("disk_full")
    for _ in range(3):  # Retention looks at the disk after each.
        rocketmq.advance_clock(60)
    with pytest.raises(errors.DiskFull):
        rocketmq.client.send(Message("full", b"1"))


def test_connections_break_and_are_made_again(rocketmq_module: RocketMQ, client: Client) -> None:
    client.send(Message("broken", b"1"))
    rocketmq_module.drop_connections()
    with Client(rocketmq_module.endpoint) as other:
        other.send(Message("broken", b"2"))
    assert bodies(rocketmq_module, "broken", 2) == [b"1", b"2"]


def test_a_broker_comes_back_with_its_store_its_address_and_its_time(
    rocketmq: RocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.client.Client", partial(Client, retry_ms=0))
    rocketmq.client.send(Message("kept", b"1"))
    rocketmq.advance_clock(HOUR_S)
    endpoint, now = rocketmq.endpoint, rocketmq.now()
    rocketmq.kill()
    with pytest.raises(BrokerEnded, match=r"was killed or stopped; restart\(\) starts it again"):
        rocketmq.now()
    with pytest.raises(Unreachable, match=r"next: restart\(\) of the fixture"):
        rocketmq.client.send(Message("kept", b"lost"))
    rocketmq.restart()
    assert rocketmq.endpoint == endpoint
    assert rocketmq.now() >= now
    rocketmq.client.send(Message("kept", b"2"))
    with rocketmq.inject_fault("refuse"):
        rocketmq.restart()
    rocketmq.client.send(Message("kept", b"3"))
    assert bodies(rocketmq, "kept", 3) == [b"1", b"2", b"3"]
    assert rocketmq.log.count("store.opened") == 3
    assert rocketmq.log.count("broker.stopped") == 1


def test_a_client_that_was_kept_over_a_restart_is_noted(rocketmq: RocketMQ) -> None:
    kept = rocketmq.client
    rocketmq.restart()
    with pytest.raises(NotOpen) as raised:
        kept.send(Message("kept", b"x"))
    rocketmq.explain(raised.value)
    assert rocketmq.notes == [CLOSED_CLIENT]
    rocketmq.client.send(Message("kept", b"x"))


def test_calls_of_admin_are_never_hit(rocketmq: RocketMQ) -> None:
    with rocketmq.inject_fault("refuse", method=()) as fault:
        assert rocketmq.client.admin.list_topics().items is not None
        assert fault.hits == 0
        with pytest.raises(ClientError):
            rocketmq.client.send(Message("hit", b"x"))
        assert fault.hits == 1


@pytest.mark.rocketmq("broker.auto_create_topics=false", "broker.name=strict")
def test_settings_are_the_tests(rocketmq: RocketMQ) -> None:
    with pytest.raises(errors.TopicNotFound):
        rocketmq.client.send(Message("unknown", b"x"))
    rocketmq.create_topic("unknown")
    rocketmq.create_topic("unknown")
    with pytest.raises(errors.TopicExists):
        rocketmq.create_topic("unknown", "fifo")


@pytest.mark.rocketmq("access.check=on")
def test_a_test_may_have_its_calls_checked(rocketmq: RocketMQ) -> None:
    rocketmq.create_topic("orders")
    with Client(rocketmq.endpoint) as client, pytest.raises(errors.Unauthenticated):
        client.send(Message("orders", b"x"))
    keys = {"access_key": rocketmq.access_key, "secret_key": rocketmq.secret_key}
    with Client(rocketmq.endpoint, **keys) as client:  # type: ignore[arg-type]
        client.send(Message("orders", b"x"))
    rocketmq.restart()
    assert bodies(rocketmq, "orders", 1) == [b"x"]


def test_further_brokers_have_their_own_stores_and_settings(
    rocketmq: RocketMQ, rocketmq_factory: Callable[..., RocketMQ]
) -> None:
    second, strict = rocketmq_factory(), rocketmq_factory("broker.auto_create_topics=false")
    second.client.send(Message("orders", b"2"))
    assert (bodies(rocketmq, "orders"), bodies(second, "orders", 1)) == ([], [b"2"])
    with pytest.raises(errors.TopicNotFound):
        strict.client.send(Message("orders", b"x"))
    with pytest.raises(BrokerNotStarted, match=r"did you mean broker\.name"):
        rocketmq_factory("broker.nmae=x")


@pytest.mark.parametrize("name", ["ReceiveMessage", "Receive"])
def test_a_method_has_one_fault_for_both_protocols(
    name: str, rocketmq_module: RocketMQ, client: Client
) -> None:
    rocketmq_module.create_topic("both")
    rocketmq_module.create_group("both")
    with (
        rocketmq_module.inject_fault("refuse", name, times=1) as fault,
        pytest.raises(ClientError, match="a fault of the test"),
    ):
        client.receive(ReceiveQuery("both", "both"))
    assert fault.hits == 1


def test_a_broker_that_cannot_start_says_why(
    rocketmq_spawner: Spawner, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(BrokerNotStarted, match=r"[(]of the test[)]: .*did you mean broker\.name"):
        RocketMQ(rocketmq_spawner, tmp_path_factory.mktemp("wrong"), ["broker.nmae=x"])


@pytest.mark.parametrize("call", [BrokerProcess.stop, partial(BrokerProcess.ask, do="now")])
def test_a_broker_that_hangs_is_killed(
    call: Callable[[BrokerProcess], object],
    rocketmq_spawner: Spawner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"of the test": [f"store.directory={tmp_path}/s"]}
    request = {"assignments": settings, "listen": ANY_PORT, "ahead_ms": 0}
    process = BrokerProcess(rocketmq_spawner, request, tmp_path / "log")
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setattr(broker_process, "ANSWER_S", 0.05)
    with pytest.raises(BrokerEnded, match=r"in 0\.05 s: it was killed"):
        call(process)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    process.stop()


def test_a_spawner_ends_although_a_process_that_a_test_forked_holds_its_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = "import socket; socket.socket(fileno=0).recv(1)"
    monkeypatch.setattr(broker_process, "SPAWN", program)
    spawner = Spawner()
    spawner.begin()
    process, ours = spawner._process, spawner._socket
    assert process is not None
    assert ours is not None
    with ours.dup():  # as after a fork
        spawner.close()
    assert process.returncode == 0


def test_a_spawner_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_process, "SPAWN", "import signal; signal.pause()")
    monkeypatch.setattr(broker_process, "END_S", 0.05)
    spawner = Spawner()
    spawner.begin()
    spawner.close()
    spawner.close()


def test_a_field_that_groups_do_not_have_is_told_those_they_have(
    rocketmq_module: RocketMQ,
) -> None:
    with pytest.raises(TypeError, match="groups have no attempts; they have enabled, fifo, max_at"):
        rocketmq_module.create_group("unmade", attempts=3)
