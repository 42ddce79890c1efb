"""The status as a table for people, as numbers for programs."""

from broker.cli.status import disk_text
from broker.rpc.pb import admin_pb2 as pb
from broker.services.administration.status import Process, store_status
from tests.cli.command_line import run
from tests.cli.local_broker import STATUS, LocalBroker


def test_programs_get_every_number(broker: LocalBroker) -> None:
    assert run("status").document == store_status(broker.store, Process())._asdict()


def test_people_get_a_few_lines(broker: LocalBroker) -> None:
    broker.answers["Admin/StoreStatus"] = lambda request: pb.StoreStatusResponse(**STATUS._asdict())
    lines = dict(line.split(maxsplit=1) for line in run("status", "-o", "table").out.splitlines())
    assert lines["broker"] == "broker-a of DefaultCluster, version 0.1.0"
    assert lines["state"].startswith("running since 20")
    assert lines["log"] == "3.0 kB, from 0 to 3000"
    assert lines["flush"] == "sync, up to date"
    assert lines["dispatch"] == "1.0 kB behind"
    assert lines["files"] == "2 of queues, 1 of the index"
    assert lines["disk"] == "30.0 MB free of 100 MB (30 %)"


def test_a_disk_of_unknown_size_is_no_error() -> None:
    unknown = STATUS._replace(disk_free_bytes=0, disk_total_bytes=0)
    assert disk_text(unknown) == "0 B free of 0 B"


def test_settings_come_with_their_origin(broker: LocalBroker) -> None:
    done = run("status", "--settings")
    assert done.document == [{"key": "store.flush", "value": "async", "origin": "--set"}]
