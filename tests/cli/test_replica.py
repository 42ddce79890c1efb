"""`pocketmq replica`: plans show what `--yes` would do."""

from typing import Any

import pytest

from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import replication_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.mark.parametrize(
    ("options", "is_connected", "step"),
    [
        ((), True, "pocketmq replica demote --endpoint 10.0.0.2:8081 --leader HOST:PORT --yes"),
        (("--force",), True, "add --yes to do it"),
        ((), False, "add --yes to do it"),
    ],
)
def test_a_planned_promotion_reports_a_leader_that_is_alive(
    broker: LocalBroker, options: tuple[str, ...], is_connected: bool, step: str
) -> None:
    def status(request: Any) -> pb.ReplicationStatusResponse:
        return pb.ReplicationStatusResponse(
            role="follower", leader="10.0.0.2:8081", connected=is_connected
        )

    broker.answers["Replication/ReplicationStatus"] = status
    done = run("replica", "promote", *options)
    assert done.code == 4
    assert f"Next:  nothing was changed yet; {step}" in done.err
    warned = "not while its leader 10.0.0.2:8081 is alive: demote that one first" in done.err
    assert warned == (is_connected and not options)


def test_a_master_of_rocketmq_is_not_to_be_demoted(broker: LocalBroker) -> None:
    def status(request: Any) -> pb.ReplicationStatusResponse:
        return pb.ReplicationStatusResponse(
            role="follower", leader="rocketmq://10.0.0.2:10911", connected=True
        )

    broker.answers["Replication/ReplicationStatus"] = status
    done = run("replica", "promote")
    assert "Next:  nothing was changed yet; add --force --yes to do it" in done.err


def test_a_planned_promotion_names_what_only_the_dead_leader_has(broker: LocalBroker) -> None:
    def status(request: Any) -> pb.ReplicationStatusResponse:
        return pb.ReplicationStatusResponse(
            role="follower", leader="10.0.0.2:8081", connected=False, lag_bytes=10_100_000
        )

    broker.answers["Replication/ReplicationStatus"] = status
    done = run("replica", "promote")
    assert "10.1 MB of its leader's log, or more, would be left there: start that" in done.err


@pytest.mark.parametrize(
    ("is_connected", "lag_bytes", "shown"),
    [
        (True, 0, "up to date"),
        (True, 2_000, "2.0 kB behind"),
        (False, 0, "not known while it is not connected"),
        (False, 2_000, "2.0 kB behind or more"),
    ],
)
def test_a_follower_without_its_leader_does_not_know_its_lag(
    broker: LocalBroker, is_connected: bool, lag_bytes: int, shown: str
) -> None:
    def status(request: Any) -> pb.ReplicationStatusResponse:
        return pb.ReplicationStatusResponse(
            role="follower", leader="10.0.0.2:8081", connected=is_connected, lag_bytes=lag_bytes
        )

    broker.answers["Replication/ReplicationStatus"] = status
    lines = run("replica", "status", "-o", "table").out.splitlines()
    assert dict(line.split(maxsplit=1) for line in lines)["lag"] == shown


def test_a_promoted_leader_shows_what_its_former_leader_had_alone(broker: LocalBroker) -> None:
    def status(request: Any) -> pb.ReplicationStatusResponse:
        return pb.ReplicationStatusResponse(
            role="leader", epoch=1, leader="10.0.0.2:8081", left_bytes=10_100_000
        )

    broker.answers["Replication/ReplicationStatus"] = status
    shown = run("replica", "status", "-o", "table").out
    assert "10.1 MB of the log of 10.0.0.2:8081, or more, when" in shown


def test_a_planned_copy_of_the_log_names_the_room_it_needs(broker: LocalBroker) -> None:
    def status(request: Any) -> pb.ReplicationStatusResponse:
        return pb.ReplicationStatusResponse(
            role="follower", leader="10.0.0.2:8081", appended_offset=9_000_000
        )

    def store(request: Any) -> admin_pb2.StoreStatusResponse:
        return admin_pb2.StoreStatusResponse(
            min_offset=4_000_000, appended_offset=9_000_000, disk_free_bytes=7_000_000
        )

    broker.answers["Replication/ReplicationStatus"] = status
    broker.answers["Admin/StoreStatus"] = store
    done = run("replica", "resync")
    assert done.code == 4
    assert "5.0 MB of log would be set aside, and copied again from 10.0.0.2:8081" in done.err
    assert "the disk needs room for it, and has 7.0 MB free" in done.err


def test_a_follower_that_does_not_run_is_to_be_started() -> None:
    done = run("replica", "add", "127.0.0.1:1", "--endpoint", "127.0.0.1:2")
    assert done.code == 5
    assert "Next:  start the broker at 127.0.0.1:1, which shall follow; then repeat" in done.err
