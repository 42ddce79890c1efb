"""The status as a table for people, as numbers for programs."""

from broker.cli.status import disk_text
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def test_programs_get_every_number(fake: FakeBroker) -> None:
    assert run("status").document == fake.status._asdict()


def test_people_get_a_few_lines(fake: FakeBroker) -> None:
    lines = dict(line.split(maxsplit=1) for line in run("status", "-o", "table").out.splitlines())
    assert lines["broker"] == "broker-a of DefaultCluster, version 0.1.0"
    assert lines["state"].startswith("running since 20")
    assert lines["log"] == "3.0 kB, from 0 to 3000"
    assert lines["flush"] == "sync, up to date"
    assert lines["dispatch"] == "1.0 kB behind"
    assert lines["files"] == "2 of queues, 1 of the index"
    assert lines["disk"] == "30.0 MB free of 100 MB (30 %)"


def test_a_disk_of_unknown_size_is_no_error(fake: FakeBroker) -> None:
    assert (
        disk_text(fake.status._replace(disk_free_bytes=0, disk_total_bytes=0)) == "0 B free of 0 B"
    )


def test_settings_come_with_their_origin(fake: FakeBroker) -> None:
    done = run("status", "--settings")
    assert done.document == [{"key": "store.flush", "value": "sync", "origin": "default"}]
